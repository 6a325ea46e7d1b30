"""The figure of the study: average time to convergence against the number of actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spibb.studies.aggregate import Aggregates
from spibb.studies.complexity.plan import ComplexityPlan
from spibb.studies.complexity.timings import facts_of, read_timings
from spibb.studies.drawing import FigureSetting, StudyView, draw_curves, legend_name, mark_sizes
from spibb.studies.gallery import Drawing

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class _Timings:
    """The table of timings as arrays of shape (numbers of actions, logs)."""

    plan: ComplexityPlan
    columns: dict[str, NDArray[Any]]

    @classmethod
    def of(cls, plan: ComplexityPlan, table: pa.Table) -> _Timings:
        return cls(plan, {name: np.array(table[name].to_pylist()) for name in table.column_names})

    def of_setting(self, name: str, label: str, eta: float, n_problems: int) -> NDArray[Any]:
        found = self.columns
        is_meant = (found["setting"] == label) & (found["eta"] == eta)
        is_meant &= found["n_problems"] == n_problems
        by_size = [found[name][is_meant & (found["n_actions"] == n)] for n in self.plan.sizes]
        return np.stack(by_size)


def draw_complexity(plan: ComplexityPlan, aggregates: Aggregates, folder: Path) -> list[Drawing]:
    """Draw times to convergence, and what was reached in them, for each baseline.

    Args:
        plan: The plan.
        aggregates: Its results.
        folder: The study's folder, where the timings are.
    """
    table = read_timings(folder, plan)
    timings = _Timings.of(plan, table)
    view = StudyView(plan, aggregates, axis="temperature", unit="number of actions")
    drawings = []
    for eta in plan.etas:
        suffix = "" if len(plan.etas) == 1 else f"-{eta:.12g}"
        drawings.append(_times(view, timings, facts_of(table), eta, f"time-to-convergence{suffix}"))
        title = f"Performance against the number of actions, temperature {eta:.12g}"
        stem = f"performance-by-actions{suffix}"
        drawings.append(draw_curves(view, stem, title, view.algorithms(), eta))
    return drawings


def _times(
    view: StudyView, timings: _Timings, facts: dict[str, Any], eta: float, stem: str
) -> Drawing:
    from matplotlib.figure import Figure

    plan = timings.plan
    batches = [1] + ([plan.n_together] if plan.n_together > 1 else [])
    figure = Figure(figsize=(3.6 * (len(batches) + 1), 4.6), layout="constrained")
    grid = figure.subplots(1, len(batches) + 1).tolist()
    for axes, n_problems in zip(grid, batches, strict=False):
        for one in view.algorithms():
            label = plan.settings[one.place].label
            seconds = timings.of_setting("seconds", label, eta, n_problems)
            _line(axes, plan.sizes, 1e3 * seconds, one)
        name = "one log at a time" if n_problems == 1 else f"in a batch of {n_problems} logs"
        _dress(axes, name, "milliseconds a log", plan.sizes)
        axes.set_yscale("log")
        _guides(axes, plan.sizes)
    for one in view.algorithms():
        steps = timings.of_setting("n_iterations", plan.settings[one.place].label, eta, 1)
        _line(grid[-1], plan.sizes, steps.mean(axis=1, keepdims=True), one)
    _dress(grid[-1], "improvement steps", "steps to convergence", plan.sizes)
    grid[-1].set_ylim(bottom=0)
    title = "Average time to convergence"
    made_on = f"{plan.name}, {plan.n_timed} logs, {facts['machine']}"
    figure.suptitle(f"{title}\n{made_on}", fontsize=11, parse_math=False)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4,
                  fontsize="small", frameon=False)  # fmt: skip
    return Drawing(stem, title, _caption(plan, facts), figure)


def _line(axes: Axes, sizes: Sequence[int], values: NDArray[Any], one: FigureSetting) -> None:
    """Draw the mean over logs, and the middle 80 % of them where there are several."""
    colour, marker, line = one.style
    axes.plot(sizes, values.mean(axis=1), color=colour, marker=marker, linestyle=line,
              markersize=5, linewidth=1.4, label=legend_name(one.label))  # fmt: skip
    if values.shape[1] > 1:
        low, high = np.quantile(values, [0.1, 0.9], axis=1)
        axes.fill_between(sizes, low, high, color=colour, alpha=0.12, linewidth=0)


def _guides(axes: Axes, sizes: Sequence[int]) -> None:
    """Draw what is in proportion to the number of actions, and to its square, to compare with."""
    low, high = axes.get_ylim()
    last = sizes[-1]
    # The names stand in the upper left and at the lower end, away from the curves.
    places = {1: last / 8, 2: last * (1.1 * low / high) ** 0.5}
    for power, name in ((1, "linear"), (2, "quadratic")):
        place = places[power]
        ends = np.array([sizes[0], last])
        axes.plot(ends, high * (ends / last) ** power, color="#718096", linewidth=0.8,
                  linestyle=(0, (1, 2)))  # fmt: skip
        axes.annotate(name, (place, high * (place / last) ** power), xytext=(5, -2),
                      textcoords="offset points", va="top" if power == 1 else "bottom",
                      fontsize=7, color="#4a5568", in_layout=False)  # fmt: skip
    axes.set_ylim(low, high)


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
        "in proportion to the number of actions, and to its square. "
        f"Machine: {facts['machine']}, Python {facts['python']}, numba {facts['numba']}."
    )
