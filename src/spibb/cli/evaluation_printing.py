"""What ``spibb evaluate`` prints."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.table import Column

from spibb.cli import printing as p
from spibb.cli.representation_printing import print_representation
from spibb.cli.sensitivity_printing import print_sensitivity
from spibb.ope.estimators import ESTIMATORS
from spibb.ope.evaluate import PolicyEstimate, PolicyEvaluation
from spibb.representation.agreement import NO_COLUMNS
from spibb.words import said_once


def print_evaluation(
    found: PolicyEvaluation, facts: dict[str, Any], out: Path | None, printed: str
) -> None:
    """Print what the estimators found, and where it was written, if it was."""

    def show() -> None:
        p.print_objective(found.objective)
        p.print_title(facts["statement"])
        _describe(found, facts)
        if out is not None:
            p.print_written(out)

    p.print_as(printed, json=lambda: facts, csv=lambda: _records(found), table=show)


def _records(found: PolicyEvaluation) -> Iterator[Any]:
    yield "estimator", "estimate", "lower", "upper", "ess", "largest_share", "mean_weight"
    for part in (found.baseline, *found.estimates):
        cells = (part.estimate, *part.interval, part.ess, part.largest_share, part.mean_weight)
        yield [part.estimator, *("" if x is None or math.isnan(x) else float(x) for x in cells)]


def _describe(found: PolicyEvaluation, facts: dict[str, Any]) -> None:
    p.console.print(
        f"{found.n_episodes:,} episodes, {found.n_rows:,} rows; "
        f"{100 * (1 - found.delta):g} % intervals by {found.bound}, "
        f"{'exact' if found.is_exact else 'approximate'}"
    )
    numbers = ("estimate", "from", "to", "effective episodes", "largest weight")
    p.print_table(
        (Column("estimator", no_wrap=True), *map(p.right, numbers)),
        (
            ("baseline (mean return)", *_cells(found.baseline)),
            *((part.estimator, *_cells(part)) for part in found.estimates),
        ),
    )
    has_columns = found.representation_remark != NO_COLUMNS
    print_representation(facts, has_columns=has_columns)
    print_sensitivity(facts)
    told = [(part.estimator, text) for part in found.estimates for text in part.warnings]
    for title, texts in (
        ("Warnings", [*found.warnings, *said_once(told)]),
        ("Assumed, and not to be checked on a log", found.assumptions),
    ):
        if texts:
            p.print_title(title)
            p.print_bullets(texts)
    named = (f"{part.estimator} ({ESTIMATORS[part.estimator].title})" for part in found.estimates)
    p.print_sentence(f"Estimators: {', '.join(named)}.")


def _cells(part: PolicyEstimate) -> Iterator[str]:
    for value in (part.estimate, *part.interval):
        yield f"{value:.4g}" if math.isfinite(value) else "none"
    yield "" if part.ess is None else f"{part.ess:.1f}"
    yield "" if part.largest_share is None else f"{100 * part.largest_share:.1f} %"
