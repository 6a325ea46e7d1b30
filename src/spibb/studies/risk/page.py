"""What the study on risk shows: gains and harm of the chosen policy beside what is fixed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from spibb.algorithms.auto_spibb import AutoSPIBB
from spibb.studies.claims import markdown_table
from spibb.studies.drawing import CVAR, GREY, MEAN, Drawing, add_head, draw_line, mark_sizes
from spibb.studies.results.aggregates import Results
from spibb.studies.risk.problems import PROBLEMS

PAGE = "risk-study.md"
_AUTO = "Auto-SPIBB, caution="
_SOFT = "approx-soft-spibb (epsilon 4.0, delta 1.0, error hoeffding-q) on counts"
_FIXED = "pi-leq-b-spibb (n_wedge 10, delta 0.05) on counts"
# The plans that the page has places for.
_PLACES = ("risk", "risk-noisy", "risk-toy-text", "risk-random-mdps", "risk-random-mdps-etas",
           "risk-sepsis")  # fmt: skip
_N_COLUMNS = 3
# No worse than this share of what could be gained, in the mean of the worst runs.
_LEAST = -0.05


def _chosen(results: Results[Any]) -> str | None:
    """Return auto-spibb with its default of caution or, where a plan has not that, the next."""
    found = [float(label.removeprefix(_AUTO)) for label in results.plan.labels if _AUTO in label]
    careful = [caution for caution in found if caution >= AutoSPIBB.caution]
    return f"{_AUTO}{min(careful):g}" if careful else None


def _shown(results: Results[Any]) -> dict[str, str]:
    """Return the settings that stand for all, by what they are called."""
    shown = {"Pi_<=b-SPIBB (n_wedge 10)": _FIXED, "Approx-Soft-SPIBB (epsilon 4)": _SOFT}
    chosen = _chosen(results)
    if chosen is not None:
        caution = chosen.removeprefix(_AUTO)
        shown = {f"Auto-SPIBB (caution {caution})": chosen, **shown}
    return {name: label for name, label in shown.items() if label in results.plan.labels}


def draw_risk(results: Results[Any]) -> list[Drawing]:
    """Draw what is gained and what the worst runs lose, problem by problem."""
    from matplotlib.figure import Figure

    plan, shown = results.plan, _shown(results)
    n_rows = math.ceil(len(plan.problem) / _N_COLUMNS)
    figure = Figure(figsize=(11, 1.4 + 2.7 * n_rows), layout="constrained")
    panels = figure.subplots(n_rows, _N_COLUMNS, squeeze=False).ravel()
    colours = ("#0072b2", "#d55e00", "#009e73")
    for axes, name in zip(panels, plan.problem, strict=False):
        for colour, (told, label) in zip(colours, shown.items(), strict=False):
            for measure, line, marker in ((MEAN, "-", "o"), (CVAR, ":", "v")):
                found = results.of(measure, label, problem=name)
                style = (colour, marker, line)
                draw_line(axes, plan.trajectories, found, style, f"{told}, {measure.name}", size=3)
        axes.axhline(0.0, color=GREY, linewidth=0.8)
        low, _ = axes.get_ylim()
        axes.set(title=PROBLEMS[name].title, xscale="log", ylim=(max(low, -1.0), 1.02))
        mark_sizes(axes, plan.trajectories)
    for axes in panels[len(plan.problem) :]:
        axes.set_visible(False)
    title = f"{plan.name}: gain over the baseline (0) as a share of the optimum's (1)"
    add_head(figure, title, 3)
    caption = "Against the number of episodes; axes are cut off at -1."
    return [Drawing(plan.name, title, caption, figure)]


def risk_pages(given: Sequence[Results[Any]]) -> dict[str, dict[str, str]]:
    """Return what the studies say in their page."""
    blocks = {
        one.plan.name: f"{_facts(one)}\n\n{_table(one)}\n\n{_harm(one)}"
        for one in given
        if one.plan.name in _PLACES and _chosen(one) is not None
    }
    return {PAGE: blocks} if blocks else {}


def _facts(results: Results[Any]) -> str:
    plan, n = results.plan, results.aggregates.n
    return (
        f"Plan `{plan.name}`, fingerprint `{plan.fingerprint}`, seed {plan.seed}: {int(n.min()):,} "
        "runs of each cell. Mean / 1 %-CVaR of the normalised gain, and the share of the runs in "
        "which the policy is worse than the baseline."
    )


def _table(results: Results[Any]) -> str:
    rows = []
    for name in results.plan.problem:
        title = PROBLEMS[name].title + (" *" if PROBLEMS[name].has_decided else "")
        for told, label in _shown(results).items():
            mean, tail = (results.of(measure, label, problem=name) for measure in (MEAN, CVAR))
            worse = results.aggregates.worse[results.where(label, problem=name)]
            told_cells = [
                f"{m:.2f} / {c:.2f} / {_percent(w)}"
                for m, c, w in zip(mean.value, tail.value, worse, strict=True)
            ]
            rows.append([title, told, *told_cells])
            title = ""
    sizes = [f"{size:,}" for size in results.plan.trajectories]
    return markdown_table(["problem", "algorithm", *sizes], rows)


def _percent(share: float) -> str:
    if share == 0:
        return "0"
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


def _harm(results: Results[Any]) -> str:
    """Say how much harm is done at each caution, and what a fixed setting would gain."""
    aggregates, labels = results.aggregates, results.plan.labels
    lines = []
    for k, label in enumerate(labels):
        if not label.startswith(_AUTO):
            continue
        worse, tail = aggregates.worse[..., k], aggregates.of(CVAR).value[..., k]
        lines.append([
            label.partition("=")[2], f"{np.nanmean(aggregates.mean.value[..., k]):.3f}",
            _percent(float(np.nanmax(worse))), f"{int((worse > 0.01).sum())} of {worse.size}",
            f"{np.nanmin(tail):.2f}",
        ])  # fmt: skip
    head = ["caution", "mean of all cells", "worse, at most", "cells above 1 %", "least 1 %-CVaR"]
    return f"{markdown_table(head, lines)}\n\n{_best_fixed(results)}"


def _best_fixed(results: Results[Any]) -> str:
    """Return which single setting gains most among those whose worst runs lose little anywhere."""
    aggregates, labels = results.aggregates, results.plan.labels
    means = np.nanmean(aggregates.mean.value, axis=(0, 1))
    tails = np.nanmin(aggregates.of(CVAR).value, axis=(0, 1))
    fixed = [k for k, label in enumerate(labels) if not label.startswith(_AUTO)]
    safe = [k for k in fixed if tails[k] >= _LEAST]
    chosen = labels.index(_chosen(results))
    if not safe:
        return f"No single setting keeps its 1 %-CVaR above {_LEAST} in every cell."
    best = max(safe, key=lambda k: means[k])
    return (
        f"The single setting that gains most among those whose 1 %-CVaR is nowhere below {_LEAST}: "
        f"{labels[best]}, {means[best]:.3f} on average over all cells; the chosen one gains "
        f"{means[chosen]:.3f}."
    )
