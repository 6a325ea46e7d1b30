"""A population of trainings: its settings, its members, its state, and what the engines read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.arrays import check_rows
from spibb.deep.forward import Floats
from spibb.deep.network import first_parameters
from spibb.deep.rules import Rule
from spibb.deep.training_data import Records, TrainingData
from spibb.errors import (
    LARGEST,
    MOST_WHOLE,
    SMALLEST,
    DataError,
    SettingsError,
    checked_number,
    checked_whole,
    checked_wholes,
)
from spibb.mdp.model import checked_gamma
from spibb.operators.rows import Operator

# What is not 0 in float32.
_LEAST = float(np.finfo(np.float32).smallest_subnormal)
# The least and the largest number that a setting takes.
_RANGES = {
    "n_passes": (0.0, MOST_WHOLE, "a number from 0 to 2^53"),
    "learning_rate": (SMALLEST, LARGEST, "a number > 0"),
    "rms_decay": (0.0, math.nextafter(1.0, 0.0), "a number in [0, 1)"),
    "rms_epsilon": (_LEAST, LARGEST, f"at least {_LEAST:.2g}"),
    "q_limit": (SMALLEST, math.inf, "a number > 0"),
}


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
        for name, (least, most, expected) in _RANGES.items():
            value = getattr(self, name)
            plain[name] = checked_number(value, name, expected, least=least, most=most)
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

    @property
    def key(self) -> int:
        """The seed as the 64 bits that are drawn from."""
        return self.seed % 2**64

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

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All but the step, by name."""
        return {name: getattr(self, name) for name in ("params", "target", "v", "diverged_at")}


# A member as the engines read it: its data set, its random numbers, its rule's step.
RECIPE = np.dtype([
    ("first_row", "i8"), ("n_rows", "i8"), ("n_steps", "i8"), ("seed", "u8"),
    ("needs_errors", "?"), ("has_budget", "?"), ("operator", "i8"), ("is_double", "?"),
    ("kappa", "f8"), ("n_wedge", "f8"), ("epsilon", "f8"),
], align=True)  # fmt: skip


@dataclass(frozen=True, eq=False)
class TrainingBatch:
    """All that an engine reads; made, it fits together.

    Args:
        data: The data sets.
        members: The members.
        settings: How they are trained.
    """

    data: Sequence[TrainingData]
    members: Sequence[Member]
    settings: TrainingSettings

    def __post_init__(self) -> None:
        if not self.data or not self.members:
            what = "members" if self.data else "data sets"
            raise SettingsError(f"there are no {what}", expected="at least one")
        if not isinstance(self.settings, TrainingSettings):
            raise SettingsError(f"settings are {self.settings!r}", expected="TrainingSettings(...)")
        for k, part in enumerate(self.data):
            self._check_data(part, f"data set {k}")
        for k, member in enumerate(self.members):
            self._check_member(member, f"member {k}")

    def _check_data(self, data: TrainingData, where: str) -> None:
        wrong = partial(DataError, where=where)
        if not isinstance(data, TrainingData):
            hint = "TrainingData.from_transitions(transitions, baseline, counts) makes it"
            raise wrong(f"a data set is {type(data).__name__}", expected="TrainingData", hint=hint)
        n_features, n_actions = self.data[0].n_features, self.data[0].n_actions
        if (data.n_features, data.n_actions) != (n_features, n_actions):
            found = f"{data.n_features} features and {data.n_actions} actions"
            raise wrong(found, expected=f"{n_features} and {n_actions}, as the first data set has")

    def _check_member(self, member: Member, where: str) -> None:
        wrong, n_sets = partial(SettingsError, where=where), len(self.data)
        if not isinstance(member, Member) or not isinstance(member.rule, Rule):
            expected = "Member(data, rule, seed) with a rule of spibb.deep.rules"
            raise wrong(f"a member is {member!r}", expected=expected)
        if not 0 <= member.data < n_sets:
            expected = f"a number from 0 to {n_sets - 1}"
            raise wrong(f"data set {member.data} of {n_sets}", expected=expected)
        data, settings = self.data[member.data], self.settings
        n_samples = settings.n_passes * len(data)
        if n_samples > MOST_WHOLE or 0 < n_samples < settings.batch_size:
            raise wrong(
                f"{settings.n_passes:g} passes over {len(data)} transitions",
                expected=f"from a minibatch of {settings.batch_size} to 2^53 samples",
                hint="change n_passes, or batch_size",
            )
        if member.rule.step().kappa > 0:
            check_rows(
                data.n_here > 0,
                lambda _: "a penalty needs pseudo-counts > 0, and n_here is 0",
                within=f"data set {member.data}, ",
                expected="a count for every transition",
                hint="count each transition itself, as spibb.deep.pseudo_counts.KernelCounts does",
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Units of each layer, from the observation to the actions."""
        return (self.data[0].n_features, *self.settings.hidden, self.data[0].n_actions)

    @cached_property
    def records(self) -> Records:
        """The data sets as one."""
        parts = (part.records for part in self.data)
        return Records._make(map(np.concatenate, zip(*parts, strict=True)))

    @cached_property
    def recipes(self) -> Any:
        """The members as a record array of `RECIPE`."""
        starts = np.cumsum([0, *map(len, self.data)])
        rows = []
        for member in self.members:
            n_rows, step = len(self.data[member.data]), member.rule.step()
            drawn = (starts[member.data], n_rows, self.settings.n_steps(n_rows), member.key)
            rows.append((*drawn, step.operator.needs.errors, step.operator.needs.budget, *step))
        return np.array(rows, RECIPE).view(np.recarray)

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
        members = [member.to_config() for member in self.members]
        data = [part.fingerprint() for part in self.data]
        return {"settings": self.settings.to_config(), "members": members, "data": data}
