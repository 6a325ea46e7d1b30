"""The figure of the study on generators: gain against episodes, a panel for each generator."""

from __future__ import annotations

import math

from spibb.algorithms.auto_spibb import AutoSPIBB
from spibb.algorithms.spibb_family import PiLeqBSPIBB
from spibb.studies.drawing import GREY, MEAN, Drawing, add_head, draw_line, mark_sizes
from spibb.studies.generators.plan import GeneratorsPlan
from spibb.studies.generators.registry import GENERATORS
from spibb.studies.results.aggregates import Results

TITLE = "Mean gain over the baseline against the number of episodes"
_CAPTION = (
    "Gains are shares of the largest possible gain, or standard deviations of returns where no "
    "gain is possible. Shaded: 95 % intervals. Axes are cut off at -1."
)
_N_COLUMNS = 5
_SHOWN = {
    AutoSPIBB(): ("auto-spibb", "#0072b2", "o", "-"),
    PiLeqBSPIBB(n_wedge=10): ("pi-leq-b-spibb, n_wedge 10", "#d55e00", "v", "--"),
}


def draw_generators(results: Results[GeneratorsPlan]) -> list[Drawing]:
    """Draw the mean gain of the default algorithm and of a fixed setting."""
    from matplotlib.figure import Figure

    plan = results.plan
    labels = {setting.build(): setting.label for setting in plan.settings}
    n_rows = math.ceil(len(plan.generator) / _N_COLUMNS)
    figure = Figure(figsize=(11, 1.0 + 1.8 * n_rows), layout="constrained")
    panels = figure.subplots(n_rows, _N_COLUMNS, squeeze=False).ravel()
    for axes, name in zip(panels, plan.generator, strict=False):
        for algorithm, (told, colour, marker, line) in _SHOWN.items():
            if algorithm in labels:
                found = results.of(MEAN, labels[algorithm], generator=name)
                draw_line(axes, plan.episodes, found, (colour, marker, line), told, size=3)
        axes.axhline(0.0, color=GREY, linewidth=0.8)
        low, high = axes.get_ylim()
        axes.set(xscale="log", ylim=(max(low, -1.0), min(high, 1.02)))
        axes.set_title(GENERATORS[name].title, fontsize=8)
        mark_sizes(axes, plan.episodes)
        axes.tick_params(labelsize=6)
    for axes in panels[len(plan.generator) :]:
        axes.set_visible(False)
    add_head(figure, f"{TITLE}: {plan.name}", 2)
    return [Drawing(plan.name, TITLE, _CAPTION, figure)]
