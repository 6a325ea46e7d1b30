"""The table of the study: every algorithm at its best hyper-parameter, beside the paper's numbers.

"Best" is the largest mean under the long evaluation. Choosing by the results themselves flatters a
little, the more so the flatter the curve and the finer the grid; the paper does the same.
"""

from __future__ import annotations

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
_SIZES = (1_000, 3_000, 6_000, 10_000)
_PRINTED: dict[str, Sequence[tuple[float, float] | None]] = {
    "Baseline": [(2.30, 1.59)] * 4,
    "Double-DQN": [(-0.91, -1.00), (-0.72, -1.00), (0.07, -1.00), (0.22, -1.00)],
    "RaMDP-DQN": [None, (0.85, -0.70), None, (3.21, 1.65)],
    "Pi_b-SPIBB-DQN": [(2.74, 1.91), (3.19, 2.37), (3.30, 2.41), (3.39, 2.46)],
    "Approx-Soft-SPIBB-DQN": [(2.72, 1.88), (3.23, 2.38), (3.39, 2.54), (3.61, 2.69)],
}
PUBLISHED = {
    size: {name: row[k] for name, row in _PRINTED.items() if row[k]}
    for k, size in enumerate(_SIZES)
}


@dataclass(frozen=True, eq=False)
class Best:
    """An algorithm at its best hyper-parameter on one size.

    Attributes:
        size: Number of transitions.
        setting: The algorithm with that value.
        is_inside: Whether the grid has worse values on both sides.
        estimates: Mean and 10 %-CVaR by the short and by the long evaluation.
    """

    size: int
    setting: Setting
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


def best_settings(results: Results[HelicopterPlan]) -> list[Best]:
    """Return every algorithm at its best hyper-parameter, for each size.

    Args:
        results: The results over one baseline.
    """
    found = []
    for size, family in product(results.plan.transitions, results.plan.families.values()):
        cell = {"evaluation": LONG, "transitions": size}
        if all(results.n_runs(one.label, **cell) for one in family):
            means = [results.of(MEAN, one.label, **cell).value for one in family]
            rank = int(np.argmax(means))
            is_inside = len(family) == 1 or 0 < rank < len(family) - 1
            estimates = {
                (measure, evaluation): IntervalEstimate(*map(float, results.of(
                    measure, family[rank].label, evaluation=evaluation, transitions=size
                )))
                for evaluation, measure in product((SHORT, LONG), (MEAN, CVAR))
            }  # fmt: skip
            found.append(Best(size, family[rank], is_inside, estimates))
    return found


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


def with_interval(estimate: IntervalEstimate, form: str = ".2f") -> str:
    """Return a number with its interval, where it has one."""
    value, low, high = (f"{number:{form}}" for number in estimate)
    return value if np.isnan(estimate.low) else f"{value} ({low} to {high})"
