"""The plans of the study: data sets x trainings x rules, and how each policy is scored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from spibb.data.estimate import Unseen
from spibb.deep.population import TrainingSettings
from spibb.deep.pseudo_counts import KernelCounts
from spibb.deep.rules import (
    ApproxSoftSPIBBDQN,
    DoubleDQN,
    ExactSoftSPIBBDQN,
    PiBSPIBBDQN,
    PiLeqBSPIBBDQN,
    RaMDPDQN,
    Rule,
)
from spibb.envs.helicopter import Helicopter
from spibb.errors import SettingsError
from spibb.studies.plan import Plan, Setting, check_whole

BASELINE = "baseline"
# The two scores of a policy stand where other studies have strengths of the baseline.
SHORT, LONG = 0.0, 1.0


@dataclass(frozen=True)
class RuleSetting(Setting):
    """One rule with its settings, or the baseline; ``config`` is what ``Rule.to_config`` returns.

    Example:
        >>> RuleSetting("Double-DQN", {"rule": "double-dqn"}).rule()
        DoubleDQN()
    """

    def rule(self) -> Rule | None:
        """Return the rule that networks are trained by; None for the baseline, which needs none."""
        if self.config.get("rule") != BASELINE:
            return Rule.from_config(self.config)
        odd = sorted(set(self.config) - {"rule"})
        if odd:
            raise SettingsError(f"the baseline has no setting {odd[0]!r}", expected="no settings")
        return None


@dataclass(frozen=True)
class HelicopterPlan(Plan):
    """What the study varies; fields as in :class:`Plan`, but for these.

    A run is one training of every setting on every size; runs ``n_trainings d`` to ``n_trainings
    (d + 1) - 1`` share data set d of each size.

    Attributes:
        sizes: Numbers of transitions.
        max_steps: Longest episode.
        settings: Rules, and the baseline.
        gamma: Discount of the training; scores are undiscounted.
        n_trainings: Trainings on each data set.
        n_passes: Passes over the data set in a training.
        n_steps: The paper's short evaluation: episodes are flown until so many steps are.
        n_episodes: The long evaluation: so many episodes, at least ``n_steps``, so that the
            short one is always a part of it.
        width: Kernel width of the pseudo-counts.
    """

    setting_kind: ClassVar[type[RuleSetting]] = RuleSetting
    present_rules: ClassVar[int] = 1  # networks are trained as ever
    keeps_rows: ClassVar[bool] = True  # the bootstrap draws data sets, all runs of each

    settings: tuple[RuleSetting, ...] = ()
    etas: tuple[float, ...] = field(init=False, default=(SHORT, LONG))
    second_goal: float = field(init=False, default=0.0)
    n_states: int = field(init=False, default=0)
    n_actions: int = field(init=False, default=0)
    n_successors: int = field(init=False, default=0)
    unseen: Unseen = field(init=False, default="terminal")
    max_steps: int = 100
    gamma: float = 0.9
    n_trainings: int = 15
    n_passes: int = 2_000
    n_steps: int = 1_000
    n_episodes: int = 1_000
    width: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("max_steps", "n_trainings", "n_passes", "n_steps", "n_episodes"):
            check_whole(getattr(self, name), name, 1)
        if self.n_episodes < self.n_steps:
            raise SettingsError(
                f"n_episodes is {self.n_episodes}",
                expected=f"at least n_steps = {self.n_steps}: an episode may be a single step",
            )
        # These refuse what they cannot be made of.
        _ = KernelCounts(self.width), self.training
        self.build_settings()

    def build_settings(self) -> None:
        """Build every rule once."""
        for setting in self.settings:
            setting.rule()

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

    def place(self, name: str) -> int | None:
        """Return the place of the first setting of a rule's id; None if there is none."""
        found = [k for k, one in enumerate(self.settings) if one.config.get("rule") == name]
        return found[0] if found else None


# Name, hyper-parameter and rule of each family.
_FAMILIES: tuple[tuple[str, str, Any], ...] = (
    ("RaMDP-DQN", "kappa", RaMDPDQN),
    ("Pi_b-SPIBB-DQN", "n_wedge", PiBSPIBBDQN),
    ("Pi_<=b-SPIBB-DQN", "n_wedge", PiLeqBSPIBBDQN),
    ("Approx-Soft-SPIBB-DQN", "epsilon", ApproxSoftSPIBBDQN),
    ("Exact-Soft-SPIBB-DQN", "epsilon", ExactSoftSPIBBDQN),
)


def make_settings(**grids: tuple[float, ...]) -> tuple[RuleSetting, ...]:
    """Return the baseline, Double-DQN, and each family with all values of its hyper-parameter.

    Args:
        grids: Values by the rule's id, with underscores: ``ramdp_dqn=(0.5, 1.0)``.

    Example:
        >>> [setting.label for setting in make_settings(ramdp_dqn=(0.5,))]
        ['Baseline', 'Double-DQN', 'RaMDP-DQN, kappa=0.5']
    """
    found = [
        RuleSetting("Baseline", {"rule": BASELINE}),
        RuleSetting("Double-DQN", DoubleDQN().to_config()),
    ]
    for name, parameter, kind in _FAMILIES:
        for value in grids.get(kind.id.replace("-", "_"), ()):
            config = kind(**{parameter: value}).to_config()
            label, group = f"{name}, {parameter}={value:g}", f"{parameter}: {name}"
            found.append(RuleSetting(label, config, group, float(value)))
    return tuple(found)


def _helicopter() -> HelicopterPlan:
    # Fifteen trainings on one data set of each size put the best kappa between 1 and 3 (on 1,000
    # transitions no kappa helps), n_wedge between 1 and 2, epsilon between 0.25 and 1; the grids go
    # on beyond, on both sides.
    return HelicopterPlan(
        study="helicopter",
        name="helicopter",
        seed=2019,
        n_runs=300,
        runs_per_job=15,
        sizes=(1_000, 3_000, 6_000, 10_000),
        settings=make_settings(
            ramdp_dqn=(0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
            pi_b_spibb_dqn=(0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
            pi_leq_b_spibb_dqn=(0.5, 1.0, 2.0, 4.0, 8.0),
            approx_soft_spibb_dqn=(0.125, 0.25, 0.5, 1.0, 1.4, 2.0),
            exact_soft_spibb_dqn=(0.125, 0.25, 0.5, 1.0, 2.0),
        ),
    )


def _smoke() -> HelicopterPlan:
    return HelicopterPlan(
        study="helicopter",
        name="helicopter-smoke",
        seed=2019,
        n_runs=6,
        runs_per_job=3,
        n_trainings=3,
        n_passes=100,
        sizes=(1_000, 3_000),
        settings=make_settings(
            ramdp_dqn=(3.0,),
            pi_b_spibb_dqn=(1.0, 4.0),
            approx_soft_spibb_dqn=(0.5, 1.0),
            exact_soft_spibb_dqn=(0.5,),
        ),
    )


PLANS: dict[str, HelicopterPlan] = {plan.name: plan for plan in (_helicopter(), _smoke())}
