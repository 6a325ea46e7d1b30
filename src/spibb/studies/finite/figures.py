"""The figures of a study on fixed processes: performance against size, and the searches."""

from __future__ import annotations

from collections.abc import Iterator

from spibb.studies.drawing import CVAR, MEAN, Drawing, View, draw_curves, draw_heatmaps
from spibb.studies.finite.plans import FinitePlan
from spibb.studies.finite.processes import PROCESSES
from spibb.studies.results.results import Results

# The value that stands for a family in the curves, by process and beginning of
# "parameter: family".
_CHOSEN: dict[str, dict[str, float]] = {
    "wet-chicken": {
        "epsilon": 1.0, "n_wedge: R-MIN": 3, "n_wedge: Pi": 7, "kappa": 2.0, "xi": 0.5,
        "delta": 0.05,
    },
    "gridworld": {"epsilon": 1.0, "n_wedge": 10, "kappa": 0.003, "xi": 0.1, "delta": 0.05},
    "queue": {"epsilon": 1.0, "n_wedge": 10, "kappa": 0.5},
    "inventory": {"epsilon": 1.0, "n_wedge": 10, "kappa": 0.5},
    "maintenance": {"epsilon": 1.0, "n_wedge": 10, "kappa": 0.5},
}  # fmt: skip
_CHOSEN_ELSEWHERE = {"epsilon": 1.0, "n_wedge": 5, "kappa": 0.1, "xi": 0.5}
_MOST_PANELS = 12  # of a figure that still fits a page
_PARAMETERS = ("epsilon", "n_wedge", "kappa", "xi", "delta")


def draw_finite(results: Results[FinitePlan]) -> list[Drawing]:
    """Draw the figures of every process of the plan."""
    return [drawing for process in results.plan.process for drawing in _draw(results, process)]


def _draw(results: Results[FinitePlan], process: str) -> Iterator[Drawing]:
    plan, title = results.plan, PROCESSES[process].title
    chosen = _CHOSEN.get(process, _CHOSEN_ELSEWHERE)
    view = View(results.at(process=process), plan.strength, plan.size, chosen)
    for row in plan.factors[plan.strength]:
        name = f"{title}: performance against the size of the log, {view.axis} = {row:.12g}"
        stem = f"{process}-performance-{row:.12g}"
        yield draw_curves(view, stem, name, view.benchmark(), row)
    for parameter in _PARAMETERS:
        yield from _searches(view, process, parameter)


def _searches(view: View, process: str, parameter: str) -> Iterator[Drawing]:
    """Draw the heatmaps of a parameter: all baselines in one figure, or each in its own."""
    families, rows = view.families(parameter), view.results.plan.factors[view.rows]
    few = 2 * len(families) * len(rows) <= _MOST_PANELS
    for group in [rows] if few else [(row,) for row in rows]:
        panels = [
            view.by_value(measure, family, row)
            for row in group for family in families for measure in (MEAN, CVAR)
        ]  # fmt: skip
        suffix = "" if few else f"-{group[0]:.12g}"
        stem = f"{process}-{parameter.replace('_', '-')}-search{suffix}"
        title = f"{PROCESSES[process].title}: search for {parameter}"
        yield from draw_heatmaps(view, stem, title, panels, {parameter})
