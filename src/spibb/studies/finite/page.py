"""What a study on fixed processes shows: performance against size, searches, the page on costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import product

from spibb.studies.claims import markdown_table
from spibb.studies.drawing import CVAR, ENDS, MEAN, Drawing, View, draw_curves, draw_heatmaps
from spibb.studies.finite.plans import FinitePlan
from spibb.studies.finite.processes import PROCESSES
from spibb.studies.results.aggregates import NotInPlanError, Results

# The value that stands for a family in the curves, by process and beginning of
# "parameter: family".
_WITH_COSTS = {"epsilon": 1.0, "n_wedge": 10, "kappa": 0.5}
_CHOSEN: dict[str, dict[str, float]] = {
    "wet-chicken": {
        "epsilon": 1.0, "n_wedge: R-MIN": 3, "n_wedge: Pi": 7, "kappa": 2.0, "xi": 0.5,
        "delta": 0.05,
    },
    "gridworld": {"epsilon": 1.0, "n_wedge": 10, "kappa": 0.003, "xi": 0.1, "delta": 0.05},
    **dict.fromkeys(("queue", "inventory", "maintenance"), _WITH_COSTS),
}  # fmt: skip
_CHOSEN_ELSEWHERE = {"epsilon": 1.0, "n_wedge": 5, "kappa": 0.1, "xi": 0.5}
_MOST_PANELS = 12  # of a figure that still fits a page
_PARAMETERS = ("epsilon", "n_wedge", "kappa", "xi", "delta")
# What the page shows.
_SETTINGS = {
    "Basic RL": "",
    "RaMDP": ", kappa=0.5",
    "Pi_b-SPIBB": ", n_wedge=10",
    "Pi_<=b-SPIBB": ", n_wedge=10",
    "Approx-Soft-SPIBB": ", epsilon=1",
}
_TREATMENTS = {"end for nothing": ENDS, "as their state": ""}
_SHARE, _SIZES = 0.3, (10, 50, 200, 1_000)


def draw_finite(results: Results[FinitePlan]) -> list[Drawing]:
    """Draw the figures of every process of the plan."""
    return [drawing for process in results.plan.process for drawing in _draw(results, process)]


def _draw(results: Results[FinitePlan], process: str) -> Iterator[Drawing]:
    plan, title = results.plan, PROCESSES[process].title
    chosen = _CHOSEN.get(process, _CHOSEN_ELSEWHERE)
    view = View(results.at(process=process), plan.strength, plan.size, chosen)
    for row in view.every_row:
        stem, at = f"{process}-performance-{row:.12g}", f"{view.title(view.rows)} = {row:.12g}"
        name = f"{title}: performance against the size of the log, {at}"
        yield draw_curves(view, stem, name, view.benchmark(), row)
    for parameter in _PARAMETERS:
        # All baselines stand in one figure, or each in its own.
        families = view.families(parameter)
        few = 2 * len(families) * len(view.every_row) <= _MOST_PANELS
        for rows in [view.every_row] if few else [(row,) for row in view.every_row]:
            stem = f"{process}-{parameter.replace('_', '-')}-search"
            stem += "" if few else f"-{rows[0]:.12g}"
            panels = view.searched(families, rows, MEAN, CVAR)
            name = f"{title}: search for {parameter}"
            yield from draw_heatmaps(view, stem, name, panels, {parameter})


def finite_pages(given: Sequence[Results[FinitePlan]]) -> dict[str, dict[str, str]]:
    """Return what studies say in pages: that of the plan "costs" has one."""
    for results in given:
        # Not one with fewer settings or cells than its table shows.
        with suppress(NotInPlanError):
            if results.plan.name == "costs":
                return {"costs.md": {"facts": _facts(results), "table": _table(results)}}
    return {}


def _facts(results: Results[FinitePlan]) -> str:
    plan, n_runs = results.plan, int(results.aggregates.n.min())
    settings = f"{len(plan.settings)} settings on {len(plan.process)} processes"
    return f"Plan {plan.in_words}: {n_runs:,} runs of {settings}."


def _table(results: Results[FinitePlan]) -> str:
    """Return mean and CVaR of the settings, unobserved pairs ending or not."""
    rows = []
    for process, (name, setting), (treatment, suffix) in product(
        results.plan.process, _SETTINGS.items(), _TREATMENTS.items()
    ):
        row, label = [process, f"{name}{setting}", treatment], f"{name}{suffix}{setting}"
        for size in _SIZES:
            cell = {"process": process, "share": _SHARE, "trajectories": size}
            mean, tail = (results.of(measure, label, **cell).value for measure in (MEAN, CVAR))
            row.append(f"{mean:.2f} / {tail:.2f}")
        rows.append(row)
    sizes = (f"{size:,}" for size in _SIZES)
    return markdown_table(["process", "algorithm", "unobserved pairs", *sizes], rows)
