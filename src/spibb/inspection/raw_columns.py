"""Do actions, or what follows them, depend on raw columns inside of a state?

Both are asked where raw columns were given (``features``). Neither is a fault by itself: states
always leave something out. Together they tell which columns and states to look at when the gain of
a policy does not survive in finer states, which is what decides (:mod:`spibb.representation`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from spibb.inspection.check import Check
from spibb.inspection.finding import Finding, TestResult
from spibb.representation.dependence import Dependence
from spibb.representation.hidden_columns import HiddenColumns
from spibb.words import percent

if TYPE_CHECKING:
    from spibb.inspection.evidence import Evidence

# The share of the variance that a column must explain.
_LEAST_SHARE = 0.02
_N_SHOWN = 5


class ColumnsOfActions(Check):
    """Test whether logged actions depend on raw columns, given the state."""

    id = "columns-of-actions"
    title = "Are actions independent of the raw columns, given the state?"
    level = 0.0003
    cost = "rows"
    verdict_effect = "none"

    def run(self, evidence: Evidence) -> Iterator[Finding | TestResult]:
        """Test all columns, and report the one that explains most."""
        columns = evidence.hidden_columns
        if columns is None:
            yield self.not_run(_WITHOUT)
            return
        yield from _run(
            self, columns, columns.actions, "Actions depend on {name} inside of the states: it "
            "explains {share} of their variance.",
            "The behaviour policy used more than the state. Where {name} also matters for what "
            "follows, states confuse who was treated with what treatment does.",
        )  # fmt: skip


class ColumnsOfOutcomes(Check):
    """Test whether rewards and next states depend on raw columns, given state and action."""

    id = "columns-of-outcomes"
    title = "Are rewards and next states independent of the raw columns, given state and action?"
    level = 0.0002
    cost = "rows"
    verdict_effect = "none"

    def run(self, evidence: Evidence) -> Iterator[Finding | TestResult]:
        """Test all columns, and report the one that explains most."""
        columns = evidence.hidden_columns
        if columns is None:
            yield self.not_run(_WITHOUT)
            return
        if columns.outcomes is None:
            yield self.not_run("no row is known to follow another one")
            return
        yield from _run(
            self, columns, columns.outcomes, "What follows an action depends on {name} inside of "
            "the states: it explains {share} of the variance of what is earned from then on.",
            "States hold cases that fare differently. A new policy may change their mixture in "
            "ways that a model of states does not foresee.",
        )  # fmt: skip


_WITHOUT = "no raw columns were given (--features)"


def _run(
    check: Check, columns: HiddenColumns, found: Dependence, told: str, effect: str
) -> Iterator[Finding | TestResult]:
    assert check.level is not None
    n_columns = len(found.share)
    p_value = float(np.minimum(n_columns * found.p_value.min(), 1.0))
    yield check.result(p_value)
    is_clear = (found.share >= _LEAST_SHARE) & (found.p_value <= check.level / n_columns)
    if not is_clear.any():
        return
    first = int(np.argmax(np.where(is_clear, found.share, -1.0)))
    words = {"name": columns.features.names[first], "share": percent(float(found.share[first]))}
    yield Finding(
        check=check.id,
        severity="weaker",
        found=told.format(**words),
        effect=effect.format(**words),
        advice="If the gain does not survive in finer states, split the states listed here.",
        share=float(found.share[first]),
        p_value=p_value,
        places=_places(columns, first, of_actions=isinstance(check, ColumnsOfActions)),
    )


def _places(columns: HiddenColumns, column: int, *, of_actions: bool) -> list[dict[str, Any]]:
    parts = columns.parts(column, of_actions=of_actions)[:_N_SHOWN]
    return [
        {
            "state": columns.log.states[one.label],
            "rows": one.rows,
            "of what it explains": one.weight,
            "split": one.split or "too few rows",
            "open-ended": "yes" if one.is_open else "no",
        }
        for one in parts
    ]
