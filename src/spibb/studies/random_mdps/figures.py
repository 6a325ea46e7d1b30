"""The figures of the paper on random MDPs, as far as a plan has what they show."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from spibb.studies.drawing import CVAR, MEAN, RARE, Drawing, Panel, View, draw_curves, draw_heatmaps
from spibb.studies.random_mdps.plans import RandomMDPPlan
from spibb.studies.results.aggregates import Results

# What the paper's benchmark chose, by the beginning of "parameter: family".
_CHOSEN = {"epsilon": 2, "n_wedge": 10, "kappa": 0.003, "delta: Robust": 0.001, "delta: HCPI": 0.9}
# The two that the paper sets side by side.
_COMPARED = ("RaMDP", "Approx-Soft-SPIBB")
_REMARKS = {"epsilon": "ε is the paper's: the command line's --epsilon is twice it."}
# The strengths at which the search for a hyper-parameter is shown.
_SEARCHES = {"n_wedge": (0.9,), "kappa": (0.1, 0.4, 0.6, 0.9), "delta": (0.9,)}


def draw_random_mdps(results: Results[RandomMDPPlan]) -> list[Drawing]:
    """Draw the figures of the paper whose settings and strengths the plan has."""
    view = View(results, "eta", "trajectories", chosen=_CHOSEN, remarks=_REMARKS)
    drawings, shown = [], view.benchmark()
    for eta in view.having(0.9) if shown else []:
        title = f"Performance against the size of the log, η = {eta:.12g}"
        drawings.append(draw_curves(view, "performance-by-size", title, shown, eta))
    for figure in (*_by_strength(view), *_searches(view)):
        drawings += draw_heatmaps(view, *figure)
    return drawings


def _by_strength(view: View) -> Iterator[tuple[str, str, list[Panel], set[str]]]:
    """Yield stem, title, panels and named hyper-parameters of the benchmark's heatmaps."""
    shown = view.benchmark()
    named = {one.parameter for one in shown}
    compared = [view.by_row(RARE, one) for one in shown if one.name in _COMPARED]
    if len(compared) == len(_COMPARED):
        yield "influence-of-eta", "Influence of the baseline's strength", compared, named
    for stem, measure in (("cvar-by-eta", RARE), ("mean-by-eta", MEAN)):
        title = f"All algorithms by the baseline's strength: {measure.name}"
        yield stem, title, [view.by_row(measure, one) for one in shown], named


def _searches(view: View) -> Iterator[tuple[str, str, list[Panel], set[str]]]:
    """Yield the same of the searches."""
    both = [*view.families("kappa"), *view.families("epsilon")]
    compared = [family for family in both if family[0].name in _COMPARED]
    panels = view.searched(compared, view.having(0.9), CVAR)
    if len(panels) == len(_COMPARED):
        stem, title = "sensitivity-to-hyper-parameter", "Sensitivity to the hyper-parameter"
        yield stem, title, panels, {"kappa", "epsilon"}
    for stem, measure in (("epsilon-search-mean", MEAN), ("epsilon-search-cvar", CVAR)):
        cells = product(view.families("epsilon"), view.having(0.1, 0.9))
        panels = [view.by_value(measure, family, eta) for family, eta in cells]
        yield stem, f"Search for epsilon: {measure.name}", panels, {"epsilon"}
    for parameter, etas in _SEARCHES.items():
        families = view.families(parameter)
        panels = view.searched(families, view.having(*etas), MEAN, CVAR)
        if parameter == "n_wedge":
            chosen = [one for family in families for one in family if one in view.benchmark()]
            panels += [view.by_row(CVAR, one) for one in chosen]
        title = f"Search for {parameter}: mean and {CVAR.name}"
        yield f"{parameter.replace('_', '-')}-search", title, panels, {parameter}
