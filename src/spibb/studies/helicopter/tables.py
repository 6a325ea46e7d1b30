"""The table of the study: every algorithm at its best hyper-parameter, beside the paper's numbers.

"Best" is the largest mean under the long evaluation. Choosing by the results themselves flatters a
little, the more so the flatter the curve and the finer the grid; the paper does the same.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from spibb.studies.claims import markdown_table
from spibb.studies.helicopter.plan import LONG, SHORT, HelicopterPlan
from spibb.studies.metrics import IntervalEstimate, Measure
from spibb.studies.plan import Setting
from spibb.studies.results.results import Results

MEAN, CVAR = Measure(), Measure(0.1)

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


@dataclass(frozen=True, eq=False)
class Best:
    """An algorithm at its best hyper-parameter on one size.

    Attributes:
        size: Number of transitions.
        setting: The algorithm with that value.
        place: Place of the setting in the plan.
        is_inside: Whether the grid has worse values on both sides.
        estimates: Mean and 10 %-CVaR by the short and by the long evaluation.
    """

    size: int
    setting: Setting
    place: int
    is_inside: bool
    estimates: Mapping[tuple[Measure, str], IntervalEstimate]

    @property
    def name(self) -> str:
        """The algorithm."""
        return self.setting.name

    @property
    def published(self) -> tuple[float, float] | None:
        """The paper's mean and 10 %-CVaR; None where it has none."""
        return PUBLISHED.get(self.size, {}).get(self.name)


def families(plan: HelicopterPlan) -> dict[str, list[int]]:
    """Return the settings of each algorithm as places in the plan, by rising value."""
    found: dict[str, list[int]] = {}
    for place in sorted(range(len(plan.settings)), key=lambda k: plan.settings[k].value):
        found.setdefault(plan.settings[place].name, []).append(place)
    return {name: found[name] for name in dict.fromkeys(one.name for one in plan.settings)}


def best_settings(results: Results[HelicopterPlan]) -> list[Best]:
    """Return every algorithm at its best hyper-parameter, for each size.

    Args:
        results: The results over one baseline.
    """
    found = []
    for size, places in product(results.plan.transitions, families(results.plan).values()):
        cell = {"evaluation": LONG, "transitions": size}
        if all(results.n_runs(place, **cell) for place in places):
            rank = int(np.argmax([results.of(MEAN, place, **cell).value for place in places]))
            is_inside = len(places) == 1 or 0 < rank < len(places) - 1
            found.append(_at(results, size, places[rank], is_inside))
    return found


def _at(results: Results[HelicopterPlan], size: int, place: int, is_inside: bool) -> Best:
    estimates = {}
    for evaluation, measure in product((SHORT, LONG), (MEAN, CVAR)):
        found = results.of(measure, place, evaluation=evaluation, transitions=size)
        estimates[measure, evaluation] = IntervalEstimate(*map(float, found))
    return Best(size, results.plan.settings[place], place, is_inside, estimates)


_HEAD = (
    "transitions", "algorithm", "best at", "paper: mean", "paper: CVaR", "short: mean",
    "short: CVaR", "long: mean", "long: CVaR",
)  # fmt: skip


def best_table(rows: Sequence[Best]) -> str:
    """Return the table as Markdown; an asterisk marks a best value at the end of its grid."""
    lines = []
    for one in rows:
        setting, mark = one.setting, "" if one.is_inside else " *"
        best_at = f"{setting.parameter} = {setting.value:g}{mark}" if setting.parameter else ""
        published = [f"{number:.2f}" for number in one.published or ()] or ["", ""]
        ours = map(with_interval, one.estimates.values())
        lines.append([f"{one.size:,}", one.name, best_at, *published, *ours])
    return markdown_table(_HEAD, lines)


def to_csv(rows: Sequence[Best]) -> str:
    """Return the table as CSV, every number in a column of its own."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    head = ["size", "algorithm", "parameter", "value", "is_inside", "paper_mean", "paper_cvar_10"]
    statistics = product((SHORT, LONG), ("mean", "cvar_10"), ("", "_low", "_high"))
    writer.writerow([*head, *(f"{score}_{name}{end}" for score, name, end in statistics)])
    for one in rows:
        parameter = one.setting.parameter
        value = f"{one.setting.value:g}" if parameter else ""
        published = [f"{number:g}" for number in one.published or ()] or ["", ""]
        ours = [f"{number:.6g}" for estimate in one.estimates.values() for number in estimate]
        writer.writerow([one.size, one.name, parameter, value, one.is_inside, *published, *ours])
    return buffer.getvalue()


def with_interval(estimate: IntervalEstimate, form: str = ".2f") -> str:
    """Return a number with its interval, where it has one."""
    value, low, high = (f"{number:{form}}" for number in estimate)
    return value if np.isnan(estimate.low) else f"{value} ({low} to {high})"
