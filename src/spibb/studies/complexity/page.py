"""What the study shows: times to convergence by the number of actions, and the paper's claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spibb.studies.claims import ByName, Finding, judged, markdown_table, to_markdown, verdict
from spibb.studies.complexity.study import ComplexityPlan
from spibb.studies.complexity.timings import measured, read_timings
from spibb.studies.drawing import GREY, Drawing, View, add_head, draw_curve, draw_curves, mark_sizes
from spibb.studies.metrics import Floats, IntervalEstimate
from spibb.studies.results.aggregates import NotInPlanError, Results
from spibb.studies.results.cells import facts_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# "Twice" leaves room for a third on either side, "linear" for a tenth of the exponent.
_TWICE, _LINEAR = (1.5, 2.67), (0.9, 1.1)
_CAPTION = """\
The 5 x 5 gridworld with its four actions multiplied, {plan.trajectories_per_action} trajectories \
for each action. Timed: from the model estimated from a log, with the baseline evaluated in it, to \
the converged policy (errors, improvement steps, evaluations), on one thread, median of \
{plan.n_repeats} calls after one that is not counted. Lines: means over logs; shades: the middle \
80 % of them; dotted: what growth with the number of actions, and with its square, looks like. \
Machine: {machine}, Python {python}, numba {numba}."""


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
    title, facts = "Average time to convergence", facts_of(table)
    batches = [1] + ([plan.n_together] if plan.n_together > 1 else [])
    figure = Figure(figsize=(3.6 * (len(batches) + 1), 4.6), layout="constrained")
    *timed, last = figure.subplots(1, len(batches) + 1).tolist()

    def draw(axes: Axes, name: str, label: str, column: str, n_problems: int) -> None:
        for one in view.algorithms():
            meant = {"setting": one.label, "temperature": temperature, "n_problems": n_problems}
            found = measured(table, plan, column, **meant)
            values = 1e3 * found if column == "seconds" else found.mean(axis=1, keepdims=True)
            # The mean over logs, and the middle 80 % of them where there are several.
            ends = np.quantile(values, [0.1, 0.9], axis=1) if values.shape[1] > 1 else (None, None)
            draw_curve(axes, view.x, IntervalEstimate(values.mean(axis=1), *ends), one)
        axes.set(title=name, xscale="log", xlabel="number of actions", ylabel=label)
        mark_sizes(axes, view.x)

    for axes, n_problems in zip(timed, batches, strict=True):
        name = "one log at a time" if n_problems == 1 else f"in a batch of {n_problems} logs"
        draw(axes, name, "milliseconds a log", "seconds", n_problems)
        axes.set_yscale("log")
        _guides(axes, view.x)
    draw(last, "improvement steps", "steps to convergence", "n_iterations", 1)
    last.set_ylim(bottom=0)
    add_head(figure, f"{title}\n{plan.name}, {plan.n_timed} logs, {facts['machine']}", 4)
    return Drawing(stem, title, _CAPTION.format(**{**facts, "plan": plan}), figure)


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


def times(table: pa.Table, plan: ComplexityPlan) -> dict[str, Floats]:
    """Return the mean seconds of one log, solved alone, by setting: one for each number of actions.

    Args:
        table: What `spibb.studies.complexity.timings.read_timings` returns.
        plan: The plan that the timings are of.
    """
    return {
        label: measured(table, plan, "seconds", setting=label, n_problems=1).mean(axis=1)
        for label in plan.labels
    }


def findings(table: pa.Table, plan: ComplexityPlan) -> list[Finding]:
    """Judge the paper's claims on the time to convergence whose settings the plan has."""
    found = times(table, plan)
    first = {name: found[family[0].label] for name, family in plan.families.items()}
    return judged(_CLAIMS, ByName(first), plan)


def _faster(named: ByName, plan: ComplexityPlan) -> tuple[str, str]:
    faster = named["Pi_b-SPIBB"] / named["Approx-Soft-SPIBB"]
    return verdict(*(faster > 1)), _ratios(plan, "Π_b-SPIBB takes", faster)


def _twice(named: ByName, plan: ComplexityPlan) -> tuple[str, str]:
    twice = named["Approx-Soft-SPIBB"] / named["Basic RL"]
    is_about = (twice >= _TWICE[0]) & (twice <= _TWICE[1])
    return verdict(*is_about), _ratios(plan, "it takes", twice)


def _linear(named: ByName, plan: ComplexityPlan) -> tuple[str, str]:
    # Few actions leave most of the time to what does not depend on them.
    many = plan.actions[len(plan.actions) // 2 :]
    if len(many) < 2:
        raise NotInPlanError("enough numbers of actions")
    exact, approx = named["Exact-Soft-SPIBB"], named["Approx-Soft-SPIBB"]
    slope = float(np.polyfit(np.log(many), np.log(exact[-len(many) :]), 1)[0])
    return (
        verdict(_LINEAR[0] <= slope <= _LINEAR[1]),
        f"from {many[0]} actions on its time grows as their number to the power {slope:.2f}; it "
        f"takes {float(np.exp(np.log(exact / approx).mean())):.2f} times the approximate one's",
    )


_CLAIMS = {
    "Approx-Soft-SPIBB is faster than Π_b-SPIBB": _faster,
    "Approx-Soft-SPIBB takes about twice the time of Basic RL": _twice,
    "Exact-Soft-SPIBB is linear in the number of actions": _linear,
}


def _ratios(plan: ComplexityPlan, begin: str, values: Floats) -> str:
    parts = (f"{value:.2f} ({size})" for value, size in zip(values, plan.actions, strict=True))
    return f"{begin} {', '.join(parts)} times as long, by number of actions"


def complexity_pages(given: Sequence[Results[ComplexityPlan]]) -> dict[str, dict[str, str]]:
    """Return what a study says in the page on random MDPs: times, with the machine, and claims."""
    if not given:
        return {}
    plan, table = given[-1].plan, read_timings(given[-1].folder, given[-1].plan)
    found = times(table, plan)
    rows = [
        [str(n_actions), *(f"{1e6 * found[label][k]:,.0f} µs" for label in plan.labels)]
        for k, n_actions in enumerate(plan.actions)
    ]
    about = {k: v for k, v in facts_of(table).items() if k not in ("format", "fingerprint", "plan")}
    machine = ", ".join(f"{name} {value}" for name, value in about.items())
    text = (
        "One log of the gridworld with its actions multiplied, from the estimated model to the "
        f"converged policy, one thread ({machine}):\n\n"
        f"{markdown_table(['actions', *plan.labels], rows)}"
    )
    claims = to_markdown(findings(table, plan))
    return {"random-mdps.md": {"complexity": text, "complexity-claims": claims}}
