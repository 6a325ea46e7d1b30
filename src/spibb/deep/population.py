"""A population of trainings: its settings, its members, its state, and what the engines read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spibb.deep.network import first_parameters
from spibb.deep.rules import Rule
from spibb.deep.training_data import TrainingData
from spibb.errors import (
    MOST_WHOLE,
    DataError,
    SettingsError,
    checked_number,
    checked_whole,
    checked_wholes,
)
from spibb.mdp.model import checked_gamma
from spibb.operators.rows import Operator

Floats = NDArray[np.float32]
# What is not 0 in float32.
_LEAST = float(np.finfo(np.float32).smallest_subnormal)


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How a network is trained; the defaults are the paper's helicopter.

    Args:
        hidden: Units of the hidden layers.
        gamma: The discount, in [0, 1].
        n_passes: Passes over the data set; a training takes n_passes N / batch_size steps.
        batch_size: Transitions a step, drawn uniformly with replacement.
        target_period: Steps after which the target network is copied.
        learning_rate: First learning rate; it is divided by p + 1 after p periods.
        annealing_samples: Smallest length of such a period in samples; it is the data set's size
            where that is larger.
        rms_decay: Smoothing of RMSProp's mean square.
        rms_epsilon: Added to its root.
        q_limit: A member whose |Q| exceeds it has diverged.
    """

    hidden: tuple[int, ...] = (32, 128, 32)
    gamma: float = 0.9
    n_passes: float = 2_000
    batch_size: int = 32
    target_period: int = 10
    learning_rate: float = 0.01
    annealing_samples: int = 20_000
    rms_decay: float = 0.95
    rms_epsilon: float = 1e-7
    q_limit: float = 1e6

    def __post_init__(self) -> None:
        plain: dict[str, Any] = {"hidden": checked_wholes(self.hidden, "hidden")}
        plain["gamma"] = checked_gamma(self.gamma)
        for name in ("batch_size", "target_period", "annealing_samples"):
            plain[name] = checked_whole(getattr(self, name), name)
        for name in ("n_passes", "learning_rate", "rms_decay", "rms_epsilon", "q_limit"):
            plain[name] = checked_number(getattr(self, name), name)
        for name, good, expected in (
            ("n_passes", 0 <= plain["n_passes"] <= MOST_WHOLE, "a number from 0 to 2^53"),
            ("learning_rate", 0 < plain["learning_rate"] < math.inf, "a number > 0"),
            ("rms_decay", 0 <= plain["rms_decay"] < 1, "a number in [0, 1)"),
            ("rms_epsilon", _LEAST <= plain["rms_epsilon"] < math.inf, f"at least {_LEAST:.2g}"),
            ("q_limit", plain["q_limit"] > 0, "a number > 0"),
        ):
            if not good:
                raise SettingsError(f"{name} is {plain[name]}", expected=expected)
        # 5 passes and 5.0 are one setting.
        if plain["n_passes"].is_integer():
            plain["n_passes"] = int(plain["n_passes"])
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    def n_steps(self, n_rows: int) -> int:
        """Return the number of gradient steps on a data set of this size.

        Example:
            >>> TrainingSettings().n_steps(10_000)
            625000
        """
        return int(self.n_passes * n_rows) // self.batch_size

    def rate(self, step: int, n_rows: int) -> float:
        """Return the learning rate of a step."""
        period = (step * self.batch_size) // max(self.annealing_samples, n_rows)
        return self.learning_rate / (period + 1)

    def to_config(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        return asdict(self) | {"hidden": list(self.hidden)}


@dataclass(frozen=True)
class Member:
    """One training of a population.

    Args:
        data: Which of the data sets it reads.
        rule: What it is trained towards.
        seed: Its random numbers: first weights and minibatches; any whole number, taken modulo
            2^64. Members of the same seed and data set see the same minibatches.
    """

    data: int
    rule: Rule
    seed: int

    def __post_init__(self) -> None:
        for name in ("data", "seed"):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer):
                raise SettingsError(f"{name} of a member is {value!r}", expected="a whole number")
            object.__setattr__(self, name, int(value))

    def to_config(self) -> dict[str, Any]:
        """Return the member as plain JSON values."""
        return {"data": self.data, "rule": self.rule.to_config(), "seed": self.seed}


@dataclass(frozen=True, eq=False)
class PopulationState:
    """A population after its first ``t`` steps; a member of fewer steps stays as it ended.

    Attributes:
        params: Online parameters, shape (R, P), float32.
        target: Target parameters, shape (R, P), float32.
        v: RMSProp's mean squares, shape (R, P), float32.
        t: Steps done.
        diverged_at: Step at which a member was stopped, or -1, shape (R,).
    """

    params: Floats
    target: Floats
    v: Floats
    t: int
    diverged_at: NDArray[np.int64]

    @classmethod
    def start(cls, members: Sequence[Member], sizes: Sequence[int]) -> PopulationState:
        """Return the state before the first step."""
        params = first_parameters([member.seed for member in members], sizes)
        nobody = np.full(len(members), -1, dtype=np.int64)
        return cls(params, params.copy(), np.zeros_like(params), 0, nobody)

    def stopped(self, lost: NDArray[np.bool_]) -> PopulationState:
        """Return the state with these members marked as diverged now, unless they were before."""
        is_new = lost & (self.diverged_at < 0)
        return replace(self, diverged_at=np.where(is_new, self.t, self.diverged_at))


class Records(NamedTuple):
    """The data sets one after the other; fields as in `TrainingData`."""

    state: Floats
    action: NDArray[np.int64]
    reward: Floats
    next_state: Floats
    terminated: NDArray[np.bool_]
    n_here: Floats
    baseline_next: Floats
    n_next: Floats


class Recipes(NamedTuple):
    """The members as columns of length R."""

    first_row: NDArray[np.int64]
    n_rows: NDArray[np.int64]
    n_steps: NDArray[np.int64]
    seed: NDArray[np.uint64]
    operator: NDArray[np.int64]
    needs_errors: NDArray[np.bool_]
    has_budget: NDArray[np.bool_]
    is_double: NDArray[np.bool_]
    kappa: NDArray[np.float64]
    n_wedge: NDArray[np.float64]
    epsilon: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Trainings:
    """All that an engine reads.

    Attributes:
        data: The data sets.
        members: The members.
        settings: How they are trained.
        sizes: Units of each layer, from the observation to the actions.
        records: The data sets as one.
        recipes: The members as columns.
    """

    data: Sequence[TrainingData]
    members: Sequence[Member]
    settings: TrainingSettings
    sizes: tuple[int, ...]
    records: Records = field(repr=False)
    recipes: Recipes = field(repr=False)

    @classmethod
    def of(
        cls, data: Sequence[TrainingData], members: Sequence[Member], settings: TrainingSettings
    ) -> Trainings:
        """Check that everything fits together, and put it into columns."""
        if not data:
            raise DataError("there is no data set", expected="at least one")
        for k, part in enumerate(data):
            if not isinstance(part, TrainingData):
                raise DataError(
                    f"a data set is {type(part).__name__}",
                    where=f"data set {k}",
                    expected="TrainingData",
                    hint="TrainingData.from_transitions(transitions, baseline, counts) makes it",
                )
        if not isinstance(settings, TrainingSettings):
            raise SettingsError(f"settings are {settings!r}", expected="TrainingSettings(...)")
        if not members:
            raise SettingsError("the population is empty", expected="at least one member")
        shape = (data[0].n_features, data[0].n_actions)
        for k, part in enumerate(data):
            if (part.n_features, part.n_actions) != shape:
                raise DataError(
                    f"{part.n_features} features and {part.n_actions} actions",
                    where=f"data set {k}",
                    expected=f"{shape[0]} and {shape[1]}, as the first data set has",
                )
        for k, member in enumerate(members):
            _check_member(k, member, data, settings)
        records = Records(
            *(np.concatenate([getattr(part, name) for part in data]) for name in Records._fields)
        )
        starts = np.concatenate([[0], np.cumsum([len(part) for part in data])])
        sizes = (shape[0], *settings.hidden, shape[1])
        return cls(
            data, members, settings, sizes, records, _recipes(data, members, settings, starts)
        )

    @property
    def n_steps(self) -> int:
        """Steps of the longest training."""
        return int(self.recipes.n_steps.max())

    @property
    def operators(self) -> set[Operator]:
        """The operators of the members' rules."""
        return {member.rule.step().operator for member in self.members}

    def to_config(self) -> dict[str, Any]:
        """Return what determines the results, as plain JSON values."""
        return {
            "settings": self.settings.to_config(),
            "members": [member.to_config() for member in self.members],
            "data": [part.fingerprint() for part in self.data],
        }


def _check_member(
    k: int, member: Member, data: Sequence[TrainingData], settings: TrainingSettings
) -> None:
    if not isinstance(member, Member) or not isinstance(member.rule, Rule):
        raise SettingsError(
            f"a member is {member!r}",
            where=f"member {k}",
            expected="Member(data, rule, seed) with a rule of spibb.deep.rules",
        )
    if not 0 <= member.data < len(data):
        raise SettingsError(
            f"data set {member.data} of {len(data)}",
            where=f"member {k}",
            expected=f"a number from 0 to {len(data) - 1}",
        )
    if settings.n_passes * len(data[member.data]) > MOST_WHOLE:
        raise SettingsError(
            f"{settings.n_passes:g} passes over {len(data[member.data])} transitions",
            where=f"member {k}",
            expected="at most 2^53 samples",
            hint="lower n_passes",
        )
    if settings.n_passes > 0 and settings.n_steps(len(data[member.data])) == 0:
        raise SettingsError(
            f"{settings.n_passes:g} passes over {len(data[member.data])} transitions are less than "
            f"a minibatch of {settings.batch_size}",
            where=f"member {k}",
            expected="at least one step",
            hint="raise n_passes, or lower batch_size",
        )
    if member.rule.step().kappa > 0 and not (data[member.data].n_here > 0).all():
        row = int((~(data[member.data].n_here > 0)).argmax())
        raise DataError(
            "a penalty needs pseudo-counts > 0 for every transition, and n_here is 0",
            where=f"data set {member.data}, row {row}",
            hint="count each transition itself, as spibb.deep.pseudo_counts.KernelCounts does",
        )


def _recipes(
    data: Sequence[TrainingData],
    members: Sequence[Member],
    settings: TrainingSettings,
    starts: NDArray[Any],
) -> Recipes:
    steps = [member.rule.step() for member in members]
    n_rows = np.array([len(data[member.data]) for member in members], dtype=np.int64)
    return Recipes(
        first_row=np.array([starts[member.data] for member in members], dtype=np.int64),
        n_rows=n_rows,
        n_steps=np.array([settings.n_steps(int(n)) for n in n_rows], dtype=np.int64),
        seed=np.array([int(member.seed) % 2**64 for member in members], dtype=np.uint64),
        operator=np.array([int(step.operator) for step in steps], dtype=np.int64),
        needs_errors=np.array([step.operator.needs.errors for step in steps], dtype=np.bool_),
        has_budget=np.array([step.operator.needs.budget for step in steps], dtype=np.bool_),
        is_double=np.array([step.is_double for step in steps], dtype=np.bool_),
        kappa=np.array([step.kappa for step in steps], dtype=np.float64),
        n_wedge=np.array([step.n_wedge for step in steps], dtype=np.float64),
        epsilon=np.array([step.epsilon for step in steps], dtype=np.float64),
    )
