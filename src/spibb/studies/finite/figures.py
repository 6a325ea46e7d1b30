"""The figures of a study on fixed processes: performance against size, and the searches."""

from __future__ import annotations

from collections.abc import Iterator

from spibb.studies.aggregate import Aggregates
from spibb.studies.drawing import CVAR, MEAN, StudyView, draw_curves, draw_heatmaps
from spibb.studies.finite.plan import FinitePlan
from spibb.studies.finite.processes import PROCESSES
from spibb.studies.gallery import Drawing

# The value that stands for a family in the curves, by process and beginning of the group.
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


def draw_finite(plan: FinitePlan, aggregates: Aggregates) -> list[Drawing]:
    """Draw the figures of every process of the plan."""
    return [drawing for process in plan.places() for drawing in _draw(plan, aggregates, process)]


def _draw(plan: FinitePlan, aggregates: Aggregates, process: str) -> Iterator[Drawing]:
    facts = PROCESSES[process]
    chosen = _CHOSEN.get(process, _CHOSEN_ELSEWHERE)
    study = StudyView(plan, aggregates, chosen, plan.places()[process], facts.axis, plan.unit)
    for eta in plan.etas:
        title = f"{facts.title}: performance against the size of the log, {facts.axis} = {eta:.12g}"
        stem = f"{process}-performance-{eta:.12g}"
        yield draw_curves(study, stem, title, study.benchmark(), eta)
    for parameter in _PARAMETERS:
        yield from _searches(study, process, parameter)


def _searches(study: StudyView, process: str, parameter: str) -> Iterator[Drawing]:
    """Draw the heatmaps of a parameter: all baselines in one figure, or each in its own."""
    families, etas = study.families(parameter), study.plan.etas
    few = 2 * len(families) * len(etas) <= _MOST_PANELS
    for group in [etas] if few else [(eta,) for eta in etas]:
        panels = [
            study.by_value(measure, family, eta)
            for eta in group for family in families for measure in (MEAN, CVAR)
        ]  # fmt: skip
        suffix = "" if few else f"-{group[0]:.12g}"
        stem = f"{process}-{parameter.replace('_', '-')}-search{suffix}"
        title = f"{PROCESSES[process].title}: search for {parameter}"
        yield from draw_heatmaps(study, stem, title, panels)
