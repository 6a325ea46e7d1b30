"""The table of the study: every algorithm at its best hyper-parameter, beside the paper's numbers.

"Best" is the largest mean under the long evaluation. Choosing by the results themselves flatters a
little, the more so the flatter the curve and the finer the grid; the paper does the same.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spibb.studies.aggregate import Aggregates
from spibb.studies.helicopter.plan import HelicopterPlan
from spibb.studies.metrics import IntervalEstimate, Measure

MEAN, CVAR = Measure(), Measure(0.1)
SCORES = ("short", "long")

# Mean and 10 %-CVaR of 300 runs as the paper's appendix prints them, by size and by our name.
PUBLISHED: dict[int, dict[str, tuple[float, float]]] = {
    1_000: {
        "Baseline": (2.30, 1.59), "Double-DQN": (-0.91, -1.00), "Pi_b-SPIBB-DQN": (2.74, 1.91),
        "Approx-Soft-SPIBB-DQN": (2.72, 1.88),
    },
    3_000: {
        "Baseline": (2.30, 1.59), "Double-DQN": (-0.72, -1.00), "RaMDP-DQN": (0.85, -0.70),
        "Pi_b-SPIBB-DQN": (3.19, 2.37), "Approx-Soft-SPIBB-DQN": (3.23, 2.38),
    },
    6_000: {
        "Baseline": (2.30, 1.59), "Double-DQN": (0.07, -1.00), "Pi_b-SPIBB-DQN": (3.30, 2.41),
        "Approx-Soft-SPIBB-DQN": (3.39, 2.54),
    },
    10_000: {
        "Baseline": (2.30, 1.59), "Double-DQN": (0.22, -1.00), "RaMDP-DQN": (3.21, 1.65),
        "Pi_b-SPIBB-DQN": (3.39, 2.46), "Approx-Soft-SPIBB-DQN": (3.61, 2.69),
    },
}  # fmt: skip


@dataclass(frozen=True)
class Best:
    """An algorithm at its best hyper-parameter on one size.

    Attributes:
        size: Number of transitions.
        name: The algorithm.
        parameter: Its hyper-parameter; empty for none.
        value: The best value of it.
        place: Place of the setting in the plan.
        is_inside: Whether the grid has worse values on both sides.
        mean: Mean by the short and by the long evaluation.
        cvar: 10 %-CVaR likewise.
        published: The paper's mean and 10 %-CVaR; None where it has none.
    """

    size: int
    name: str
    parameter: str
    value: float
    place: int
    is_inside: bool
    mean: tuple[IntervalEstimate, IntervalEstimate]
    cvar: tuple[IntervalEstimate, IntervalEstimate]
    published: tuple[float, float] | None


def families(plan: HelicopterPlan) -> dict[str, list[int]]:
    """Return the settings of each algorithm as places in the plan, by rising value."""
    found: dict[str, list[int]] = {}
    for place, setting in enumerate(plan.settings):
        name = setting.group.partition(": ")[2] or setting.label
        found.setdefault(name, []).append(place)
    return {
        name: sorted(places, key=lambda k: plan.settings[k].value) for name, places in found.items()
    }


def best_settings(plan: HelicopterPlan, aggregates: Aggregates, by: Measure = MEAN) -> list[Best]:
    """Return every algorithm at its best hyper-parameter, for each size.

    Args:
        plan: The plan.
        aggregates: Its results.
        by: What "best" is measured by, under the long evaluation.
    """
    return [
        _best(plan, aggregates, row, name, places, by)
        for row in range(len(plan.sizes))
        for name, places in families(plan).items()
        if aggregates.n[1, row, places].all()
    ]


def _best(
    plan: HelicopterPlan, aggregates: Aggregates, row: int, name: str, places: list[int],
    by: Measure,
) -> Best:  # fmt: skip
    rank = int(np.argmax(aggregates.of(by).value[1, row, places]))
    place, size = places[rank], plan.sizes[row]

    def both(measure: Measure) -> tuple[IntervalEstimate, IntervalEstimate]:
        short, long = (
            IntervalEstimate(*(float(part[k, row, place]) for part in aggregates.of(measure)))
            for k in (0, 1)
        )
        return short, long

    return Best(
        size=size,
        name=name,
        parameter=plan.settings[place].group.partition(": ")[0],
        value=float(plan.settings[place].value),
        place=place,
        is_inside=len(places) == 1 or 0 < rank < len(places) - 1,
        mean=both(MEAN),
        cvar=both(CVAR),
        published=PUBLISHED.get(size, {}).get(name),
    )


_HEAD = (
    "transitions", "algorithm", "best at", "paper: mean", "paper: CVaR", "short: mean",
    "short: CVaR", "long: mean", "long: CVaR",
)  # fmt: skip


def to_markdown(rows: Sequence[Best]) -> str:
    """Return the table as Markdown; an asterisk marks a best value at the end of its grid."""
    lines = ["| " + " | ".join(_HEAD) + " |", "|" + "---|" * len(_HEAD)]
    for one in rows:
        cells = [f"{one.size:,}", one.name, _best_at(one), *_published(one)]
        for k in range(len(SCORES)):
            cells += [_with_interval(one.mean[k]), _with_interval(one.cvar[k])]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def to_csv(rows: Sequence[Best]) -> str:
    """Return the table as CSV, every number in a column of its own."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    head = ["size", "algorithm", "parameter", "value", "is_inside", "paper_mean", "paper_cvar_10"]
    head += [
        f"{score}_{name}{end}" for score in SCORES for name in ("mean", "cvar_10")
        for end in ("", "_low", "_high")
    ]  # fmt: skip
    writer.writerow(head)
    for one in rows:
        numbers = [
            f"{number:.6g}" for k in range(len(SCORES))
            for number in (*one.mean[k], *one.cvar[k])
        ]  # fmt: skip
        value = f"{one.value:g}" if one.parameter else ""
        published = [f"{number:g}" for number in one.published or ()] or ["", ""]
        writer.writerow(
            [one.size, one.name, one.parameter, value, one.is_inside, *published, *numbers]
        )
    return buffer.getvalue()


def _best_at(one: Best) -> str:
    if not one.parameter:
        return ""
    return f"{one.parameter} = {one.value:g}" + ("" if one.is_inside else " *")


def _published(one: Best) -> list[str]:
    return ["", ""] if one.published is None else [f"{number:.2f}" for number in one.published]


def _with_interval(estimate: IntervalEstimate) -> str:
    if np.isnan(estimate.low):
        return f"{estimate.value:.2f}"
    return f"{estimate.value:.2f} ({estimate.low:.2f} to {estimate.high:.2f})"
