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

from spibb.studies.helicopter.plan import LONG, SHORT, HelicopterPlan
from spibb.studies.metrics import IntervalEstimate, Measure
from spibb.studies.results.results import Results

MEAN, CVAR = Measure(), Measure(0.1)
SCORES = (SHORT, LONG)

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

    def of(self, measure: Measure, evaluation: str) -> IntervalEstimate:
        """Return one of the four numbers."""
        return (self.mean if measure == MEAN else self.cvar)[SCORES.index(evaluation)]


def families(plan: HelicopterPlan) -> dict[str, list[int]]:
    """Return the settings of each algorithm as places in the plan, by rising value."""
    found: dict[str, list[int]] = {}
    for place, setting in enumerate(plan.settings):
        found.setdefault(setting.name, []).append(place)
    return {
        name: sorted(places, key=lambda k: plan.settings[k].value) for name, places in found.items()
    }


def best_settings(results: Results[HelicopterPlan], by: Measure = MEAN) -> list[Best]:
    """Return every algorithm at its best hyper-parameter, for each size.

    Args:
        results: The results over one baseline.
        by: What "best" is measured by, under the long evaluation.
    """
    plan = results.plan
    return [
        _best(results, size, name, places, by)
        for size in plan.transitions
        for name, places in families(plan).items()
        if all(results.n_runs(place, evaluation=LONG, transitions=size) for place in places)
    ]


def _best(
    results: Results[HelicopterPlan], size: int, name: str, places: list[int], by: Measure
) -> Best:
    def of(measure: Measure, place: int, evaluation: str) -> IntervalEstimate:
        found = results.of(measure, place, evaluation=evaluation, transitions=size)
        return IntervalEstimate(*map(float, found))

    rank = int(np.argmax([of(by, place, LONG).value for place in places]))
    place = places[rank]
    setting = results.plan.settings[place]
    mean, cvar = ((of(measure, place, SHORT), of(measure, place, LONG)) for measure in (MEAN, CVAR))
    return Best(
        size=size,
        name=name,
        parameter=setting.parameter,
        value=float(setting.value),
        place=place,
        is_inside=len(places) == 1 or 0 < rank < len(places) - 1,
        mean=mean,
        cvar=cvar,
        published=PUBLISHED.get(size, {}).get(name),
    )


_HEAD = (
    "transitions", "algorithm", "best at", "paper: mean", "paper: CVaR", "short: mean",
    "short: CVaR", "long: mean", "long: CVaR",
)  # fmt: skip


def best_table(rows: Sequence[Best]) -> str:
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
