"""What ``spibb evaluate`` says of a policy: a sentence, a page, a folder."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from spibb.atomic_files import write_json, write_whole
from spibb.atomic_folders import write_folder
from spibb.ope.estimators import ESTIMATORS
from spibb.ope.evaluate import PolicyEstimate, PolicyEvaluation
from spibb.report import sensitivity
from spibb.words import number, several

FILES = ("evaluation.json", "report.html")


def evaluation_facts(found: PolicyEvaluation, command: str | None = None) -> dict[str, Any]:
    """Return what ``evaluation.json`` holds."""
    return {**found.to_dict(), "statement": statement(found), "command": command}


def statement(found: PolicyEvaluation) -> str:
    """Say whether the log shows that the policy earns more than is earned today."""
    today = found.baseline.estimate
    told = [one for one in found.estimates if math.isfinite(one.estimate)]
    if not told:
        return "The log does not tell what this policy would earn: every estimate is withheld."
    if not any(math.isfinite(end) for one in told for end in one.interval):
        return _without_intervals(found)
    above = sum(one.interval[0] > today for one in told)
    below = sum(one.interval[1] < today for one in told)
    intervals = several(len(told), "interval")
    if found.objective.minimize:
        return _of_costs(-today, above, below, len(told))
    if above == len(told):
        return f"More than the {number(today)} of today, by all of {intervals}."
    if below == len(told):
        return f"Less than the {number(today)} of today, by all of {intervals}."
    return (
        f"The log does not decide whether it is more than the {number(today)} of today: of "
        f"{intervals} {above} lie above it, {below} below."
    )


def _of_costs(today: float, n_lower: int, n_higher: int, n: int) -> str:
    """Say the same of costs: estimates are costs with their sign turned."""
    intervals = several(n, "interval")
    if n_lower == n:
        return f"A lower cost than the {number(today)} of today, by all of {intervals}."
    if n_higher == n:
        return f"A higher cost than the {number(today)} of today, by all of {intervals}."
    return (
        f"The log does not decide whether the cost is lower than the {number(today)} of today: of "
        f"{intervals} {n_lower} say that it is, {n_higher} that it is higher."
    )


def _without_intervals(found: PolicyEvaluation) -> str:
    if found.origin == "same":
        return (
            "Withheld, because this log made the policy: it looks better there than it is. "
            "--same-log gives intervals."
        )
    return "The log does not tell what this policy would earn: it is too little for an interval."


def write_evaluation(
    found: PolicyEvaluation, facts: dict[str, Any], folder: Path, *, overwrite: bool
) -> None:
    """Write a folder with the estimates and their page, or nothing."""

    def fill(part: Path) -> None:
        write_json(part / "evaluation.json", facts)
        write_whole(part / "report.html", render_evaluation(found, facts).encode())

    write_folder(folder, fill, overwrite=overwrite, known=FILES)


def render_evaluation(found: PolicyEvaluation, facts: dict[str, Any]) -> str:
    """Return the page."""
    from spibb.report.html import (  # heavy: estimates alone are quicker to print
        finer_states,
        render_page,
        spans,
    )

    parts = (found.baseline, *found.estimates)
    today = found.baseline.estimate
    axis, pictures = spans([_ends(one) for one in parts], today, "")
    rows = [
        {"name": one.estimator, "title": _title(one), "one": one,
         "cells": [number(x) if math.isfinite(x) else "none"
                   for x in (one.estimate, *one.interval)],
         "picture": picture if math.isfinite(one.estimate) else ""}
        for one, picture in zip(parts, pictures, strict=True)
    ]  # fmt: skip
    return render_page(
        "evaluation.html", found=found, facts=facts, objective=facts["objective"], axis=axis,
        rows=rows,
        finer=finer_states(facts["representation"]), sensitivity_question=sensitivity.QUESTION,
        sensitivity=sensitivity.sensitivity_sentences(facts),
    )  # fmt: skip


def _title(one: PolicyEstimate) -> str:
    if one.estimator not in ESTIMATORS:
        return "today: mean of the log's returns"
    return f"the policy, by {ESTIMATORS[one.estimator].title}"


def _ends(one: PolicyEstimate) -> tuple[float, float, float]:
    return one.interval[0], one.estimate, one.interval[1]
