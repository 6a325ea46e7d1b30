"""The figures of the paper on random MDPs, as far as a plan has what they show."""

from __future__ import annotations

from collections.abc import Iterator

from spibb.studies.drawing import CVAR, MEAN, RARE, Drawing, View, draw_curves, draw_heatmaps
from spibb.studies.random_mdps.plans import RandomMDPPlan
from spibb.studies.results.results import Results

# What the paper's benchmark chose, by the beginning of "parameter: family".
_CHOSEN = {"epsilon": 2, "n_wedge": 10, "kappa": 0.003, "delta: Robust": 0.001, "delta: HCPI": 0.9}
# The two that the paper sets side by side.
_COMPARED = ("RaMDP", "Approx-Soft-SPIBB")
_REMARKS = {"epsilon": "ε is the paper's: the command line's --epsilon is twice it."}


def draw_random_mdps(results: Results[RandomMDPPlan]) -> list[Drawing]:
    """Draw the figures of the paper whose settings and strengths the plan has."""
    view = View(results, "eta", "trajectories", chosen=_CHOSEN, remarks=_REMARKS)
    return [*_benchmark_figures(view), *_search_figures(view)]


def _benchmark_figures(view: View) -> Iterator[Drawing]:
    algorithms = view.benchmark()
    named = {one.parameter for one in algorithms}
    for eta in view.having(0.9) if algorithms else []:
        title = f"Performance against the size of the log, η = {eta:.12g}"
        yield draw_curves(view, "performance-by-size", title, algorithms, eta)
    panels = [view.by_row(RARE, one) for one in algorithms if one.name in _COMPARED]
    if len(panels) == len(_COMPARED):
        title = "Influence of the baseline's strength"
        yield from draw_heatmaps(view, "influence-of-eta", title, panels, named)
    for stem, measure in (("cvar-by-eta", RARE), ("mean-by-eta", MEAN)):
        panels = [view.by_row(measure, one) for one in algorithms]
        title = f"All algorithms by the baseline's strength: {measure.name}"
        yield from draw_heatmaps(view, stem, title, panels, named)


def _search_figures(view: View) -> Iterator[Drawing]:
    panels = [
        view.by_value(CVAR, family, eta) for eta in view.having(0.9)
        for parameter in ("kappa", "epsilon") for family in view.families(parameter)
        if family[0].name in _COMPARED
    ]  # fmt: skip
    if len(panels) == len(_COMPARED):
        title, stem = "Sensitivity to the hyper-parameter", "sensitivity-to-hyper-parameter"
        yield from draw_heatmaps(view, stem, title, panels, {"kappa", "epsilon"})
    for stem, measure in (("epsilon-search-mean", MEAN), ("epsilon-search-cvar", CVAR)):
        panels = [
            view.by_value(measure, family, eta)
            for family in view.families("epsilon") for eta in view.having(0.1, 0.9)
        ]  # fmt: skip
        title = f"Search for epsilon: {measure.name}"
        yield from draw_heatmaps(view, stem, title, panels, {"epsilon"})
    searches = {"n_wedge": (0.9,), "kappa": (0.1, 0.4, 0.6, 0.9), "delta": (0.9,)}
    for parameter, wanted in searches.items():
        families = view.families(parameter)
        # Two panels stand in a row: a family's mean, and its CVaR beside it.
        panels = [
            view.by_value(measure, family, eta)
            for eta in view.having(*wanted) for family in families for measure in (MEAN, CVAR)
        ]  # fmt: skip
        if parameter == "n_wedge":
            chosen = [one for family in families for one in family if one in view.benchmark()]
            panels += [view.by_row(CVAR, one) for one in chosen]
        title = f"Search for {parameter}: mean and {CVAR.name}"
        stem = f"{parameter.replace('_', '-')}-search"
        yield from draw_heatmaps(view, stem, title, panels, {parameter})
