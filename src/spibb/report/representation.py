"""What a report says of the gain in finer states: a table with a picture, and sentences."""

from __future__ import annotations

from typing import Any

from spibb.assessment.assessment import Assessment
from spibb.representation.agreement import Agreement
from spibb.words import number, percent

QUESTION = "Does the gain survive in finer states?"
CLAIM = "states of the log"
HEAD = ("gain in", "states", "gain", "+-", "is left", "no data", "enough")
# Half the width of a 95 % interval, in standard errors.
_NORMAL = 1.96
# A loss by acting in labels below this share of the claim is rounding beside it.
_ROUNDING = 0.005
# Checks that judge states without raw columns.
_PLAIN_CHECKS = {"memory": "memory", "persistent-rewards": "persistent rewards"}


def representation_rows(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a row for the states of the log, and one for each refinement.

    Args:
        facts: What `Agreement.to_dict` returns.
    """
    claim, error = facts["claim"], facts["claim_error"]
    first = {
        "name": CLAIM,
        "n_states": facts["n_states"],
        "gain": claim,
        "error": error,
        "share": None,
        "unsupported": facts["unsupported"],
        "holds": None,
    }
    rows: list[dict[str, Any]] = [first, *facts["refinements"]]
    return [row | {"ends": _ends(row)} for row in rows]


def representation_cells(facts: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return those rows in words, under :data:`HEAD`."""
    return [
        (
            row["name"],
            f"{row['n_states']:,}",
            number(row["gain"], "+"),
            number(_NORMAL * row["error"], figures=2),
            "" if row["share"] is None else percent(row["share"]),
            # The linear gain has no cells that could be without data.
            "" if row["name"] == "linear" else percent(row["unsupported"]),
            "" if row["holds"] is None else "yes" if row["holds"] else "no",
        )
        for row in representation_rows(facts)
    ]


def representation_sentences(facts: dict[str, Any]) -> list[str]:
    """Say what the rows are, what acting in labels loses, and what is asked of them."""
    columns = ", ".join(facts["columns"])
    said = [
        "The first row takes the states of the log as they are. The others split them by "
        f"{columns}: quantiles into parts with equally many cases, equal widths into equal ranges "
        "of a column, tree where cases fare differently. Linear lets what is earned rise or fall "
        "with each column inside a state. If the states hide nothing that matters, all rows agree "
        "up to chance.",
        "Gains stand with 1.96 standard errors. They are computed from the log without a prior, so "
        "that the first one can differ from the expected gain of the models.",
    ]
    loss = max(one["label_loss"] for one in facts["refinements"])
    if loss > _ROUNDING * max(abs(facts["claim"]), facts["claim_error"]):
        said.append(
            "Acting by today's average within each state, as if its cases were alike, would itself "
            f"lose up to {number(loss)} an episode against today."
        )
    return [*said, facts["rule"]]


def representation_line(found: Agreement | None, remark: str) -> str:
    """Say in a line what is left of a gain in finer states.

    Args:
        found: The gains; None: there are none.
        remark: Why there are none.
    """
    if found is None:
        return f"not checked: {remark}"
    enough = "enough of it survives" if found.holds else "it does not survive"
    return (
        f"gain {number(found.claim, '+')} in the states, least gain in finer states "
        f"{number(found.worst.gain, '+')} ({found.worst.name}): {enough}"
    )


def least_gain(agreement: Agreement) -> str:
    """Say what the least gain in finer states is."""
    worst = agreement.worst
    return f"The least gain in finer states is {number(worst.gain, '+')} ({worst.name})."


def states_remark(assessment: Assessment) -> str:
    """Say that the states were taken as given, or were not checked, and what else checked them."""
    log = assessment.problem.log
    told = (
        "The states were taken as given: to have them checked, name raw columns of the log "
        "(spibb improve ... --features COLUMN,...)"
    )
    if log is None:
        return "The states were taken as given: counts keep neither raw columns nor the past."
    if log.features is not None:
        told = f"The gain was not checked in finer states: {assessment.representation_remark}"
    return f"{told}; {_plain_checks(assessment)}."


def _plain_checks(assessment: Assessment) -> str:
    found = assessment.inspection
    names = ", ".join(_PLAIN_CHECKS.values())
    told = f"the checks without raw columns ({names})"
    tests = () if found is None else found.tests
    if not any(one.check in _PLAIN_CHECKS and one.p_value is not None for one in tests):
        return f"{told} could not be run"
    findings = () if found is None else found.findings
    hits = {_PLAIN_CHECKS[one.check] for one in findings if one.check in _PLAIN_CHECKS}
    if hits:
        return f"{told} found something: {', '.join(sorted(hits))}"
    return f"{told} found nothing"


def _ends(row: dict[str, Any]) -> tuple[float, float]:
    return row["gain"] - _NORMAL * row["error"], row["gain"] + _NORMAL * row["error"]
