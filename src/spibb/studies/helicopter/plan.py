"""The plans of the study: data sets x trainings x rules, and how each policy is scored."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from spibb.deep.baseline import SoftmaxNetwork
from spibb.deep.population import TrainingSettings
from spibb.deep.pseudo_counts import KernelCounts
from spibb.deep.rules import Rule
from spibb.envs.helicopter import N_ACTIONS, N_DIMENSIONS, Helicopter
from spibb.errors import SettingsError
from spibb.studies.kinds import Count, Discount, Whole, check
from spibb.studies.plan import Plan, Setting, factor
from spibb.studies.version1 import Version1

BASELINE = "baseline"
# The two scores of a policy: the paper's, and one of more episodes.
SHORT, LONG = "short", "long"
# The baseline that ships with the package, beside files of others.
SHIPPED = "shipped"


@dataclass(frozen=True)
class RuleSetting(Setting):
    """One rule with its settings, or the baseline; ``config`` is what ``Rule.to_config`` returns.

    Example:
        >>> RuleSetting("Double-DQN", {"rule": "double-dqn"}).build()
        DoubleDQN()
    """

    kind: ClassVar[type[Rule]] = Rule

    def _build(self) -> Any:
        """Return the rule that networks are trained by; None for the baseline, which needs none."""
        if self.config.get("rule") != BASELINE:
            return super()._build()
        odd = sorted(set(self.config) - {"rule"})
        if odd:
            raise SettingsError(f"the baseline has no setting {odd[0]!r}", expected="no settings")
        return None


@dataclass(frozen=True, kw_only=True)
class HelicopterPlan(Plan):
    """What the study varies.

    A run is one training of every setting on every size; runs ``n_trainings d`` to ``n_trainings
    (d + 1) - 1`` share data set d of each size.

    Attributes:
        baseline: Files of baselines, or "shipped"; none: the shipped one.
        evaluation: The short evaluation and the long one.
        transitions: Sizes of the data sets.
        digests: What the files of baselines hold, as hashes in their order.
        max_steps: Longest episode.
        settings: Rules, and the baseline.
        gamma: Discount of the training; scores are undiscounted.
        n_trainings: TrainingBatch on each data set.
        n_passes: Passes over the data set in a training.
        n_steps: The paper's short evaluation: episodes are flown until so many steps are.
        n_episodes: The long evaluation: so many episodes, at least ``n_steps``, so that the
            short one is always a part of it.
        width: Kernel width of the pseudo-counts.
        restarts: How often a network that died is trained again, from another seed.
    """

    study: ClassVar[str] = "helicopter"
    setting_kind: ClassVar[type[RuleSetting]] = RuleSetting
    keeps_rows: ClassVar[bool] = True  # the bootstrap draws data sets, all runs of each
    columns: ClassVar[Mapping[str, str]] = {"n_episodes": "whole numbers", "diverged": "flags"}
    reader1 = Version1("evaluation", "transitions", {0.0: SHORT, 1.0: LONG})

    settings: tuple[RuleSetting, ...]
    baseline: tuple[str, ...] = factor("baseline", str)
    evaluation: tuple[str, ...] = factor("evaluation", str, init=False, default=(SHORT, LONG))
    transitions: tuple[int, ...] = factor("transitions", int, is_needed=True)
    digests: tuple[str, ...] = ()
    max_steps: Count = 100
    gamma: Discount = 0.9
    n_trainings: Count = 15
    n_passes: Count = 2_000
    n_steps: Count = 1_000
    n_episodes: Count = 1_000
    width: float = 0.2
    restarts: Whole = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        least = f"at least n_steps = {self.n_steps}: an episode may be a single step"
        check(self.n_episodes >= self.n_steps, self.n_episodes, "n_episodes", least)
        object.__setattr__(self, "digests", tuple(self.digests))
        if len(self.digests) != len(self.baseline):
            raise SettingsError(
                f"the plan has {len(self.baseline)} baselines and {len(self.digests)} digests",
                expected="one for each",
                hint="give the files of baselines with --baseline",
            )
        names = [Path(file).stem for file in self.baseline]
        if len(set(names)) < len(names):  # which figures and tables tell them apart by
            told = f"baselines are called {', '.join(names)}"
            raise SettingsError(told, expected="files of different names")
        # These refuse what they cannot be made of.
        _ = KernelCounts(self.width), self.training, self.rules_of_settings

    def with_baselines(self, files: Sequence[str]) -> HelicopterPlan:
        """Return the plan over other baselines: files of networks, or "shipped"."""
        digests = tuple("" if file == SHIPPED else _digest(file) for file in files)
        return replace(self, baseline=tuple(files), digests=digests)

    def baselines(self) -> list[SoftmaxNetwork]:
        """Read the baselines; files must hold what they held when the plan was made."""
        found = []
        for file, digest in zip(self.baseline, self.digests, strict=True):
            if file == SHIPPED:
                found.append(self.helicopter.baseline())
                continue
            if _digest(file) != digest:
                raise SettingsError(
                    f"the baseline {file} is not the one that the plan was made with",
                    expected=f"a file whose SHA-256 begins with {digest}",
                )
            found.append(SoftmaxNetwork.read(file))
            sizes = found[-1].network.sizes
            if (sizes[0], sizes[-1]) != (N_DIMENSIONS, N_ACTIONS):
                raise SettingsError(
                    f"the baseline {file} maps {sizes[0]} numbers to {sizes[-1]} actions",
                    expected=f"a network from {N_DIMENSIONS} to {N_ACTIONS}",
                )
        return found or [self.helicopter.baseline()]

    @property
    def rules_of_settings(self) -> list[Rule | None]:
        """The rule of each setting; None for the baseline."""
        return [setting.build() for setting in self.settings]

    @property
    def helicopter(self) -> Helicopter:
        """The domain."""
        return Helicopter(max_steps=self.max_steps)

    @property
    def training(self) -> TrainingSettings:
        """How networks are trained."""
        return TrainingSettings(gamma=self.gamma, n_passes=self.n_passes)

    def data_set(self, run: int) -> int:
        """Return the data set that a run is trained on."""
        return run // self.n_trainings

    def label_of(self, rule: str) -> str | None:
        """Return what the first setting of a rule's id is called; None if there is none."""
        found = (one.label for one in self.settings if one.config.get("rule") == rule)
        return next(found, None)


def _digest(file: str) -> str:
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise SettingsError(
            f"cannot read the baseline {file}: {error.strerror or error}",
            expected=f"a file of a network, or {SHIPPED!r}",
        ) from None


# Name, hyper-parameter and rule of each family.
_FAMILIES = (
    ("RaMDP-DQN", "kappa", "ramdp-dqn"),
    ("Pi_b-SPIBB-DQN", "n_wedge", "pi-b-spibb-dqn"),
    ("Pi_<=b-SPIBB-DQN", "n_wedge", "pi-leq-b-spibb-dqn"),
    ("Approx-Soft-SPIBB-DQN", "epsilon", "approx-soft-spibb-dqn"),
    ("Exact-Soft-SPIBB-DQN", "epsilon", "exact-soft-spibb-dqn"),
)


def make_settings(**grids: tuple[float, ...]) -> tuple[RuleSetting, ...]:
    """Return the baseline, Double-DQN, and each family with all values of its hyper-parameter.

    Args:
        grids: Values by the rule's id, with underscores: ``ramdp_dqn=(0.5, 1.0)``.

    Example:
        >>> [setting.label for setting in make_settings(ramdp_dqn=(0.5,))]
        ['Baseline', 'Double-DQN', 'RaMDP-DQN, kappa=0.5']
    """
    plain = {"Baseline": BASELINE, "Double-DQN": "double-dqn"}
    found = [RuleSetting(label, {"rule": rule}) for label, rule in plain.items()]
    for name, parameter, rule in _FAMILIES:
        values = grids.get(rule.replace("-", "_"), ())
        found += RuleSetting.grid(parameter, values, {name: rule})
    return tuple(found)


# Fifteen trainings on one data set of each size put the best kappa between 1 and 3 (on 1,000
# transitions no kappa helps), n_wedge between 1 and 2, epsilon between 0.25 and 1; the grids go on
# beyond, on both sides.
_PAPER = HelicopterPlan(
    name="helicopter", seed=2019, n_runs=300, runs_per_job=15,
    transitions=(1_000, 3_000, 6_000, 10_000),
    settings=make_settings(
        ramdp_dqn=(0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
        pi_b_spibb_dqn=(0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
        pi_leq_b_spibb_dqn=(0.5, 1.0, 2.0, 4.0, 8.0),
        approx_soft_spibb_dqn=(0.125, 0.25, 0.5, 1.0, 1.4, 2.0),
        exact_soft_spibb_dqn=(0.125, 0.25, 0.5, 1.0, 2.0),
    ),
)  # fmt: skip
_SMOKE = replace(
    _PAPER, name="helicopter-smoke", n_runs=6, runs_per_job=3, n_trainings=3, n_passes=100,
    transitions=(1_000, 3_000),
    settings=make_settings(
        ramdp_dqn=(3.0,), pi_b_spibb_dqn=(1.0, 4.0), approx_soft_spibb_dqn=(0.5, 1.0),
        exact_soft_spibb_dqn=(0.5,),
    ),
)  # fmt: skip
# Fewer trainings on each of more data sets: what baselines are compared by are intervals over
# data sets.
_BASELINES = replace(_PAPER, name="helicopter-baselines", n_runs=60, n_trainings=5, runs_per_job=5)
PLANS = (_PAPER, _SMOKE, _BASELINES)
