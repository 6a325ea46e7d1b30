"""The only list of the checks of a log."""

from __future__ import annotations

from spibb.errors import SettingsError
from spibb.inspection.alignment import Alignment
from spibb.inspection.assumed_ends import AssumedEnds
from spibb.inspection.baseline_actions import BaselineActions
from spibb.inspection.check import COSTS, Check, check_declaration
from spibb.inspection.cost_column import CostColumn
from spibb.inspection.costs import Costs
from spibb.inspection.drift import Drift
from spibb.inspection.duplicates import Duplicates
from spibb.inspection.markov import Markov
from spibb.inspection.memory import Memory
from spibb.inspection.persistent_rewards import PersistentRewards
from spibb.inspection.process_drift import ProcessDrift
from spibb.inspection.propensities import Propensities
from spibb.inspection.raw_columns import ColumnsOfActions, ColumnsOfOutcomes
from spibb.inspection.repeated_outcome import RepeatedOutcome
from spibb.inspection.row_order import RowOrder
from spibb.inspection.spelling import Spelling
from spibb.inspection.structure import (
    ColumnValues,
    EpisodeOrder,
    RewardRange,
    UnknownNextStates,
    UnrelatedTransitions,
)

CHECKS: dict[str, Check] = {}


def add_check(check: Check) -> None:
    """Add a check to the list; modules of other packages may."""
    check_declaration(check)
    if CHECKS.get(check.id, check) is not check:
        raise SettingsError(f"a check {check.id!r} is there", expected="an id of its own")
    CHECKS[check.id] = check


for one in (
    RewardRange(),
    EpisodeOrder(),
    UnrelatedTransitions(),
    ColumnValues(),
    UnknownNextStates(),
    Propensities(),
    CostColumn(),
    Spelling(),
    AssumedEnds(),
    RepeatedOutcome(),
    RowOrder(),
    Alignment(),
    Memory(),
    PersistentRewards(),
    ColumnsOfActions(),
    ColumnsOfOutcomes(),
    BaselineActions(),
    Duplicates(),
    Drift(),
    ProcessDrift(),
    Markov(),
    Costs(),
):
    add_check(one)


def ordered_checks() -> tuple[Check, ...]:
    """Return all checks, the cheap ones first."""
    return tuple(sorted(CHECKS.values(), key=lambda one: COSTS.index(one.cost)))


def levels() -> dict[str, float]:
    """Return the significance level of each check that has one, by its id."""
    return {one.id: one.level for one in ordered_checks() if one.level is not None}


def family_level() -> float:
    """Return the probability, at most, of a finding by chance in a sound log, of all checks."""
    return sum(levels().values())
