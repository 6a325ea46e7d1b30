"""The page of a comparison."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from markupsafe import Markup

from spibb.assessment.verdict import Decision
from spibb.report import sensitivity
from spibb.report.html import render_page, spans
from spibb.report.representation import QUESTION
from spibb.representation.agreement import RULE
from spibb.words import several


def comparison_statement(settings: list[dict[str, Any]]) -> str:
    """Say how many of the algorithms compared come to which verdict."""
    found = Counter(one["verdict"]["decision"] for one in settings)
    told = [
        f"{several(found[decision], 'algorithm')}: {decision.lower()}"
        for decision in Decision
        if found[decision]
    ]
    return "; ".join(told) + "."


def render_comparison(
    facts: dict[str, Any],
    remarks: tuple[str, ...],
    lines: tuple[str, ...],
    sensitivity_lines: tuple[str, ...],
) -> str:
    """Return the page of what ``comparison.json`` holds.

    Args:
        facts: That.
        remarks: What to know of the rows.
        lines: What is left of each gain in finer states.
        sensitivity_lines: How strong a hidden cause must be to explain each gain.
    """
    gains = [one["risk"]
             for one in facts["settings"]]  # fmt: skip
    axis, pictures = _drawn(
        [None if g is None else (g["interval_95"][0], g["mean"], g["interval_95"][1])
         for g in gains], 0.0, "+",
    )  # fmt: skip
    rows, today = facts["results"], facts["results"][0]["off_policy"]
    judged_axis, judged = _drawn(
        [None if row["off_policy"] is None else (
            _or(row["off_policy_low"], -math.inf), row["off_policy"],
            _or(row["off_policy_high"], math.inf)) for row in rows], today or 0.0, "",
    )  # fmt: skip
    earned = facts["settings"][0]["answers"][0]
    return render_page(
        "comparison.html", **facts, remarks=remarks, lines=lines, question=QUESTION, rule=RULE,
        sensitivity_question=sensitivity.QUESTION, sensitivity_lines=sensitivity_lines,
        axis=axis, pictures=pictures, judged_axis=judged_axis, judged=judged,
        today=f"{earned['question']} {earned['figure']} {earned['text']}",
    )  # fmt: skip


def _drawn(
    rows: list[tuple[float, float, float] | None], at: float, sign: str
) -> tuple[Markup, list[Markup]]:
    """Draw the rows that have numbers."""
    known = [row for row in rows if row is not None]
    if not known:
        return Markup(""), [Markup("")] * len(rows)
    axis, pictures = spans(known, at, sign)
    left = iter(pictures)
    return axis, [Markup("") if row is None else next(left) for row in rows]


def _or(value: float | None, other: float) -> float:
    return other if value is None else value
