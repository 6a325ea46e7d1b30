"""The figure of the study: average time to convergence against the number of actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spibb.studies.complexity.plan import ComplexityPlan
from spibb.studies.complexity.timings import measured, read_timings
from spibb.studies.drawing import (
    GREY,
    Drawing,
    FigureSetting,
    View,
    add_head,
    draw_curves,
    draw_line,
    mark_sizes,
)
from spibb.studies.metrics import IntervalEstimate
from spibb.studies.results.marked import facts_of
from spibb.studies.results.results import Results

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes


def draw_complexity(results: Results[ComplexityPlan]) -> list[Drawing]:
    """Draw times to convergence, and what was reached in them, for each baseline."""
    plan, table = results.plan, read_timings(results.folder, results.plan)
    view = View(results, "temperature", "actions")
    drawings = []
    for row in plan.temperature:
        suffix = "" if len(plan.temperature) == 1 else f"-{row:.12g}"
        drawings.append(_times(view, table, row, f"time-to-convergence{suffix}"))
        title = f"Performance against the number of actions, temperature {row:.12g}"
        stem = f"performance-by-actions{suffix}"
        drawings.append(draw_curves(view, stem, title, view.algorithms(), row))
    return drawings


def _times(view: View, table: pa.Table, temperature: float, stem: str) -> Drawing:
    from matplotlib.figure import Figure

    plan: ComplexityPlan = view.results.plan

    def column(name: str, one: FigureSetting, n_problems: int) -> NDArray[Any]:
        meant = {"setting": plan.labels[one.place], "temperature": temperature}
        return measured(table, plan, name, **meant, n_problems=n_problems)

    batches = [1] + ([plan.n_together] if plan.n_together > 1 else [])
    figure = Figure(figsize=(3.6 * (len(batches) + 1), 4.6), layout="constrained")
    grid = figure.subplots(1, len(batches) + 1).tolist()
    for axes, n_problems in zip(grid, batches, strict=False):
        for one in view.algorithms():
            _line(axes, view.x, 1e3 * column("seconds", one, n_problems), one)
        name = "one log at a time" if n_problems == 1 else f"in a batch of {n_problems} logs"
        _dress(axes, name, "milliseconds a log", view.x)
        axes.set_yscale("log")
        _guides(axes, view.x)
    for one in view.algorithms():
        steps = column("n_iterations", one, 1).mean(axis=1, keepdims=True)
        _line(grid[-1], view.x, steps, one)
    _dress(grid[-1], "improvement steps", "steps to convergence", view.x)
    grid[-1].set_ylim(bottom=0)
    title, facts = "Average time to convergence", facts_of(table)
    made_on = f"{plan.name}, {plan.n_timed} logs, {facts['machine']}"
    add_head(figure, f"{title}\n{made_on}", 4)
    return Drawing(stem, title, _caption(plan, facts), figure)


def _line(axes: Axes, sizes: Sequence[int], values: NDArray[Any], one: FigureSetting) -> None:
    """Draw the mean over logs, and the middle 80 % of them where there are several."""
    ends = np.quantile(values, [0.1, 0.9], axis=1) if values.shape[1] > 1 else (None, None)
    draw_line(axes, sizes, IntervalEstimate(values.mean(axis=1), *ends), one.style, one.label)


def _guides(axes: Axes, sizes: Sequence[int]) -> None:
    """Show what linear and quadratic growth look like, in the corner above the curves' begin."""
    low, high = axes.get_ylim()
    begin = 1.2 * max(float(np.max(np.asarray(line.get_ydata())[:3])) for line in axes.lines)
    ends = np.array([sizes[0], 4 * sizes[0]])
    for power, name in ((1, "linear"), (2, "quadratic")):
        heights = begin * (ends / ends[0]) ** power
        axes.plot(ends, heights, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
        axes.annotate(name, (ends[1], heights[1]), xytext=(3, 0), textcoords="offset points",
                      va="center", fontsize=7, color=GREY, in_layout=False)  # fmt: skip
    axes.set_ylim(low, max(high, 20 * begin))


def _dress(axes: Axes, title: str, label: str, sizes: Sequence[int]) -> None:
    axes.set(title=title, xscale="log", xlabel="number of actions", ylabel=label)
    mark_sizes(axes, sizes)


def _caption(plan: ComplexityPlan, facts: dict[str, Any]) -> str:
    return (
        "The 5 x 5 gridworld with its four actions multiplied, "
        f"{plan.trajectories_per_action} trajectories for each action. Timed: from the model "
        "estimated from a log, with the baseline evaluated in it, to the converged policy (errors, "
        f"improvement steps, evaluations), on one thread, median of {plan.n_repeats} calls after "
        "one that is not counted. Lines: means over logs; shades: the middle 80 % of them; dotted: "
        "what growth with the number of actions, and with its square, looks like. "
        f"Machine: {facts['machine']}, Python {facts['python']}, numba {facts['numba']}."
    )
