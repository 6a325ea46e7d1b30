"""What the study varies: simulator and states, the size of the log, and the rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from spibb.algorithms.auto_spibb import AutoSPIBB
from spibb.errors import SettingsError
from spibb.settings import checked_entry
from spibb.studies.kinds import Count
from spibb.studies.plan import Plan, Setting, factor
from spibb.studies.representations.halves import LOT_SEED, draw_lot
from spibb.studies.representations.registry import SIMULATORS
from spibb.studies.representations.simulator import Representation, Simulator

SIZES = ("small", "middle", "large")
BEFORE, LABELS, COLUMNS = "before", "labels", "columns"
# Rules by name, and what tables call them.
RULES = {
    BEFORE: "no check of the states",
    LABELS: "check of the labels",
    COLUMNS: "check with raw columns",
}


def _join(simulator: str, representation: str) -> str:
    return f"{simulator}/{representation}"


_STATES: dict[str, tuple[Simulator, Representation]] = {
    _join(simulator.name, one.name): (simulator, one)
    for simulator in SIMULATORS.values()
    for one in simulator.representations
}


def find_states(name: str) -> tuple[Simulator, Representation]:
    """Return the simulator and the representation of a name such as "queue/hour"."""
    return checked_entry(name, _STATES, "simulator and representation")


@dataclass(frozen=True)
class RuleSetting(Setting):
    """The algorithm that makes policies, and a rule for the verdict on them.

    Attributes:
        rule: Name of the rule, a key of ``RULES``.
    """

    rule: str = ""

    @classmethod
    def of_rule(cls, rule: str) -> RuleSetting:
        """Return the setting of a rule, with the default algorithm."""
        return replace(cls.of(RULES[rule], AutoSPIBB()), rule=rule)


@dataclass(frozen=True, kw_only=True)
class RepresentationsPlan(Plan):
    """What the study varies; a run is a new raw log of each simulator and size.

    Attributes:
        states: Simulators and representations, such as "queue/hour".
        size: Sizes of the logs; each simulator has its own numbers of episodes.
        n_draws: Models that an assessment drew in the published runs. The present risk draws none.
    """

    study: ClassVar[str] = "representations"
    setting_kind: ClassVar[type[Setting]] = RuleSetting
    keeps_rows: ClassVar[bool] = True
    columns: ClassVar[Mapping[str, str]] = {
        "verdict": "whole numbers",
        "claim": "numbers",
        "share": "numbers",
        "expected": "numbers",
        "gain": "numbers",
        "gain_error": "numbers",
        "seconds": "numbers",
    }

    settings: tuple[RuleSetting, ...]
    states: tuple[str, ...] = factor(
        "simulator and states", str, lambda x: bool(find_states(x)), is_needed=True
    )
    size: tuple[str, ...] = factor(
        "size of the log", str, lambda x: x in SIZES, f"one of {', '.join(SIZES)}", is_needed=True
    )
    n_draws: Count = 100

    def n_episodes(self, simulator: Simulator, size: str) -> int:
        """Return the number of episodes of a log."""
        return simulator.sizes[SIZES.index(size)]


def check_plan(plan: RepresentationsPlan) -> None:
    """Refuse a plan that lacks a rule, or whose rules judge different policies.

    Pages and figures compare all rules, on the same policies.
    """
    rules = [setting.rule for setting in plan.settings]
    for rule in rules:
        checked_entry(rule, RULES, "rule")
    if sorted(rules) != sorted(RULES):
        raise SettingsError(
            f"the plan has the rules {', '.join(rules)}",
            expected=f"each of {', '.join(RULES)} once",
        )
    algorithms = [setting.build() for setting in plan.settings]
    if any(one != algorithms[0] for one in algorithms) or not isinstance(algorithms[0], AutoSPIBB):
        raise SettingsError(
            "the rules of the plan are to judge policies of other algorithms",
            expected="auto-spibb with the same options for each rule",
        )


def _plan(half: str, simulators: tuple[str, ...]) -> RepresentationsPlan:
    return RepresentationsPlan(
        name=f"representations-{half}",
        seed=LOT_SEED,
        n_runs=200,
        runs_per_job=1,
        settings=tuple(map(RuleSetting.of_rule, RULES)),
        states=tuple(
            _join(name, one.name) for name in simulators for one in SIMULATORS[name].representations
        ),
        size=SIZES,
    )


PLANS = tuple(_plan(half, simulators) for half, simulators in draw_lot()._asdict().items())
