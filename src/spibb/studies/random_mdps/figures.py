"""The figures of the paper on random MDPs, as far as a plan has what they show."""

from __future__ import annotations

from collections.abc import Iterator

from spibb.studies.aggregate import Aggregates
from spibb.studies.drawing import CVAR, MEAN, RARE, StudyView, draw_curves, draw_heatmaps
from spibb.studies.gallery import Drawing
from spibb.studies.plan import Plan

# What the paper's benchmark chose, by the beginning of a setting's group.
_CHOSEN = {"epsilon": 2, "n_wedge": 10, "kappa": 0.003, "delta: Robust": 0.001, "delta: HCPI": 0.9}
# The two that the paper sets side by side.
_COMPARED = ("RaMDP", "Approx-Soft-SPIBB")


def draw_random_mdps(plan: Plan, aggregates: Aggregates) -> list[Drawing]:
    """Draw the figures of the paper whose settings and etas the plan has."""
    study = StudyView(plan, aggregates, _CHOSEN)
    return [*_benchmark_figures(study), *_search_figures(study)]


def _benchmark_figures(study: StudyView) -> Iterator[Drawing]:
    algorithms = study.benchmark()
    for eta in study.etas(0.9) if algorithms else []:
        title = f"Performance against the size of the log, η = {eta:.12g}"
        yield draw_curves(study, "performance-by-size", title, algorithms, eta)
    panels = [study.by_eta(RARE, one) for one in algorithms if one.name in _COMPARED]
    if len(panels) == len(_COMPARED):
        title = "Influence of the baseline's strength"
        yield from draw_heatmaps(study, "influence-of-eta", title, panels)
    for stem, measure in (("cvar-by-eta", RARE), ("mean-by-eta", MEAN)):
        panels = [study.by_eta(measure, one) for one in algorithms]
        title = f"All algorithms by the baseline's strength: {measure.name}"
        yield from draw_heatmaps(study, stem, title, panels)


def _search_figures(study: StudyView) -> Iterator[Drawing]:
    panels = [
        study.by_value(CVAR, family, eta) for eta in study.etas(0.9)
        for parameter in ("kappa", "epsilon") for family in study.families(parameter)
        if family[0].name in _COMPARED
    ]  # fmt: skip
    if len(panels) == len(_COMPARED):
        title = "Sensitivity to the hyper-parameter"
        yield from draw_heatmaps(study, "sensitivity-to-hyper-parameter", title, panels)
    for stem, measure in (("epsilon-search-mean", MEAN), ("epsilon-search-cvar", CVAR)):
        panels = [
            study.by_value(measure, family, eta)
            for family in study.families("epsilon") for eta in study.etas(0.1, 0.9)
        ]  # fmt: skip
        yield from draw_heatmaps(study, stem, f"Search for epsilon: {measure.name}", panels)
    searches = {"n_wedge": (0.9,), "kappa": (0.1, 0.4, 0.6, 0.9), "delta": (0.9,)}
    for parameter, wanted in searches.items():
        families = study.families(parameter)
        panels = [
            study.by_value(measure, family, eta)
            for eta in study.etas(*wanted) for measure in (MEAN, CVAR) for family in families
        ]  # fmt: skip
        if parameter == "n_wedge":
            chosen = [one for family in families for one in family if one in study.benchmark()]
            panels += [study.by_eta(CVAR, one) for one in chosen]
        title = f"Search for {parameter}: mean and {CVAR.name}"
        yield from draw_heatmaps(study, f"{parameter.replace('_', '-')}-search", title, panels)
