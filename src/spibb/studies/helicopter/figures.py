"""The figures of the study: performance against the hyper-parameter, and against the size.

All hyper-parameters share the paper's abscissa, where they have one dimension up to a factor:
kappa / 10, 1 / sqrt(n_wedge), epsilon. The factor brings kappa's good values near the others'.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from spibb.envs.helicopter_picture import helicopter_figure
from spibb.studies.drawing import GREY, Drawing, add_head, draw_curve, label_of, mark_sizes
from spibb.studies.helicopter.plan import BASELINE, LONG, SHORT, HelicopterPlan
from spibb.studies.helicopter.scores import CVAR, MEAN, Best, HelicopterResults, best_settings
from spibb.studies.metrics import IntervalEstimate, Measure
from spibb.studies.plan import Setting
from spibb.studies.results.aggregates import describe_runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

# A root's bar is drawn with a font that browsers have not.
_ABSCISSA = r"$\kappa\,/\,10$,   $N_\wedge^{-1/2}$,   $\epsilon$"
# Beyond these powers of two, as at 0 and infinity, a value has no place on the axis.
_FARTHEST = 20
_MOST_MARKS = 12
# Curves so far below the baseline would press all others together.
_DEPTH = 1.6
_N_FLIGHTS = 12
_LETTERS = 9  # of a panel's title, so that the longest stays above its panel


def abscissa(parameter: str, value: float) -> float:
    """Return where a hyper-parameter stands on the paper's common axis.

    Example:
        >>> abscissa("n_wedge", 4.0), abscissa("epsilon", 0.5), abscissa("kappa", 5.0)
        (0.5, 0.5, 0.5)
    """
    if parameter == "n_wedge":
        return float(value) ** -0.5 if value > 0 else np.inf
    return float(value) / 10 if parameter == "kappa" else float(value)


def on_axis(settings: Iterable[Setting]) -> list[tuple[float, Setting]]:
    """Return settings with where they stand on the axis; some do not."""
    found = [(abscissa(one.parameter, one.value), one) for one in settings if one.parameter]
    return [(x, one) for x, one in found if 2.0**-_FARTHEST <= x <= 2.0**_FARTHEST]


def draw_helicopter(results: HelicopterResults) -> list[Drawing]:
    """Draw the domain, a figure against the sizes and one for each; of several baselines less."""
    if results.plan.baseline:
        every = results.by_baseline().items()
        return [one for name, part in every for one in _by_size(part, f"-{name}", f", {name}")]
    by_parameter = [_by_parameter(results, size) for size in results.plan.transitions]
    return [_domain(results.plan), *_by_size(results), *by_parameter]


def _domain(plan: HelicopterPlan) -> Drawing:
    helicopter, rng = plan.helicopter, np.random.default_rng(plan.seed)
    flights = helicopter.trajectories(helicopter.baseline().action_probabilities, _N_FLIGHTS, rng)
    return Drawing(
        "helicopter-domain",
        "The helicopter's domain",
        f"{_N_FLIGHTS} flights of the baseline. A flight starts in the teal region with a random "
        "velocity and ends at the box's border, with the reward shown in the frame, or with "
        "reward -1 where it is too fast (cross).",
        helicopter_figure(helicopter, flights),
    )


def _panels(results: HelicopterResults) -> tuple[Figure, dict[tuple[Measure, str], Axes]]:
    """Return a figure with a panel for each measure and evaluation."""
    from matplotlib.figure import Figure

    plan = results.plan
    evaluations = {
        SHORT: f"short: {plan.n_steps:,} steps a run (the paper's)",
        LONG: f"long: {plan.n_episodes:,} episodes a run",
    }
    figure = Figure(figsize=(10, 8), layout="constrained")
    grid = figure.subplots(2, 2, sharex=True, sharey="row").ravel()
    panels = dict(zip(product((MEAN, CVAR), evaluations), grid, strict=True))
    for (measure, evaluation), axes in panels.items():
        axes.set_title(f"{measure.name}, {evaluations[evaluation]}", fontsize=_LETTERS)
        axes.set_xscale("log")
        axes.grid(color="#e2e8f0", linewidth=0.6)
        if evaluation == SHORT:
            axes.set_ylabel(f"{measure.name} of the return")
    return figure, panels


def _by_parameter(results: HelicopterResults, size: int) -> Drawing:
    plan, (figure, panels) = results.plan, _panels(results)
    baseline = plan.label_of(BASELINE)
    for (measure, evaluation), axes in panels.items():
        part = results.at(evaluation=evaluation, transitions=size)
        for family in plan.families.values():
            where = on_axis(family)
            if where:
                estimates = [part.of(measure, one.label) for _, one in where]
                _line(axes, [x for x, _ in where], estimates, family[0], "{title} ({symbol})")
        if baseline is not None:
            level = float(part.of(measure, baseline).value)
            axes.axhline(level, color=GREY, linewidth=1.2, linestyle=":", label="baseline")
    *above, left, right = panels.values()
    _cut(above, results, MEAN, size)
    _cut([left, right], results, CVAR, size)
    _mark_abscissa([left, right], plan)
    seen = [x for axes in panels.values() for line in axes.lines
            if len(x := np.asarray(line.get_xdata())) > 2 and line.get_label() != "_"]  # fmt: skip
    if seen:
        low, high = min(map(np.min, seen)), max(map(np.max, seen))
        panels[MEAN, SHORT].set_xlim(low / 1.5, high * 1.5)
    title = f"Performance against the hyper-parameter, {size:,} transitions"
    _head(figure, title, results.at(transitions=size))
    told = _aside(results, size) + _below(results, size) + _left_out(plan)
    caption = (
        f"Undiscounted return. Shaded: 95 % bootstrap intervals over data sets. {told}"
        "The SPIBB family grows more cautious to the left, RaMDP to the right."
    )
    return Drawing(f"helicopter-{size}", title, caption, figure)


def _head(figure: Figure, title: str, results: HelicopterResults) -> None:
    runs = describe_runs(results.n_runs(), results.plan)
    add_head(figure, f"{title}\n{results.plan.name}, {runs} of each setting", 3)


def _line(
    axes: Axes, x: Sequence[float], parts: Iterable[IntervalEstimate], shown: Setting, form: str
) -> Line2D:
    estimate = IntervalEstimate(*map(np.array, zip(*parts, strict=True)))
    return draw_curve(axes, x, estimate, shown, label=label_of(shown, form), size=6, alpha=0.13)


def _cut(both: Sequence[Axes], results: HelicopterResults, measure: Measure, size: int) -> None:
    """Let the scale start below the baseline, and say so where a curve's points lie lower."""
    baseline = results.plan.label_of(BASELINE)
    if baseline is None:
        return
    least = float(np.nanmin(results.of(measure, baseline, transitions=size).value)) - _DEPTH
    if both[0].get_ylim()[0] < least:
        drawn = np.concatenate([line.get_ydata() for axes in both for line in axes.lines])
        cut = np.floor(10 * drawn[drawn >= least].min()) / 10 - 0.1
        both[0].set_ylim(bottom=cut)
        for axes in both:
            if any(np.less(line.get_ydata(), cut).any() for line in axes.lines):
                axes.set_title(f"{axes.get_title()}, axis starts at {cut:.1f}", fontsize=_LETTERS)
            for line in axes.lines:
                if np.less(line.get_ydata(), cut).all():  # nothing of it is seen
                    line.set_label("_")


def _mark_abscissa(bottom: Sequence[Axes], plan: HelicopterPlan) -> None:
    """Mark powers of two, as many as have room."""
    places = [x for x, _ in on_axis(plan.settings)] or [1.0]
    low, high = np.ceil(np.log2(min(places))), np.floor(np.log2(max(places)))
    step = max(1, int(np.ceil((high - low + 1) / _MOST_MARKS)))
    powers = [int(power) for power in np.arange(low, high + 1, step)]
    names = [str(Fraction(2) ** power) for power in powers]
    for axes in bottom:
        axes.set_xlabel(_ABSCISSA)
        axes.set_xticks([2.0**power for power in powers], names)
        axes.minorticks_off()


def _left_out(plan: HelicopterPlan) -> str:
    """Name the settings of a family that have no place on the axis."""
    shown = [one.label for _, one in on_axis(plan.settings)]
    labels = [one.label for one in plan.settings if one.parameter and one.label not in shown]
    return f"Beyond the axis: {'; '.join(labels)}. " if labels else ""


def _aside(results: HelicopterResults, size: int) -> str:
    """Tell the numbers of Double-DQN, which has no hyper-parameter and is far below."""
    label = results.plan.label_of("double-dqn")
    if label is None:
        return ""
    means, tails = (results.of(measure, label, transitions=size).value for measure in (MEAN, CVAR))
    parts = [f"{mean:.2f} / {tail:.2f}" for mean, tail in zip(means, tails, strict=True)]
    return f"Double-DQN (mean / 10 %-CVaR): {parts[0]} short, {parts[1]} long. "


def _below(results: HelicopterResults, size: int) -> str:
    """Tell of algorithms that the cut leaves nothing of."""
    part, baseline = results.at(evaluation=LONG, transitions=size), results.plan.label_of(BASELINE)
    if baseline is None:
        return ""
    told, level = "", float(part.of(MEAN, baseline).value) - _DEPTH
    for name, family in results.plan.families.items():
        highest = max(float(part.of(MEAN, one.label).value) for one in family)
        if len(family) > 1 and highest < level:
            told += f"{name} lies below the picture (best mean {highest:.2f}, long). "
    return told


def _by_size(results: HelicopterResults, suffix: str = "", name: str = "") -> Iterator[Drawing]:
    """Draw every algorithm at its best hyper-parameter against the size."""
    plan = results.plan
    if len(plan.transitions) < 2:
        return
    rows, (figure, panels) = best_settings(results), _panels(results)
    for (measure, evaluation), axes in panels.items():
        for algorithm in dict.fromkeys(one.setting.name for one in rows):
            found = [one for one in rows if one.setting.name == algorithm]
            _best_line(axes, found, measure, evaluation)
        axes.set_xlabel("transitions" if measure == CVAR else "")
        mark_sizes(axes, plan.transitions, ",")
    title = f"Performance at the best hyper-parameter against the size of the data set{name}"
    _head(figure, title, results)
    caption = (
        "Best: of the largest mean under the long evaluation. Shaded: 95 % bootstrap intervals "
        "over data sets. Hollow, left: what the paper published (its own baseline and networks)."
    )
    yield Drawing(f"helicopter-by-size{suffix}", title, caption, figure)


def _best_line(axes: Axes, found: Sequence[Best], measure: Measure, evaluation: str) -> None:
    shown, sizes = found[0].setting, [one.size for one in found]
    parts = [one.estimates[measure, evaluation] for one in found]
    if shown.name == "Baseline":
        title, values = "baseline", [part.value for part in parts]
        (line,) = axes.plot(sizes, values, color=GREY, linestyle=":", linewidth=1.2, label=title)
    else:
        title = label_of(shown, "{title}")
        line = _line(axes, sizes, parts, shown, "{title}")
    told = {one.size: one.published[measure != MEAN] for one in found if one.published}
    if told and evaluation == SHORT:
        marker = "_" if title == "baseline" else line.get_marker()
        axes.plot(list(told), list(told.values()), color=line.get_color(), marker=marker,
                  markersize=9, markerfacecolor="none", linestyle="none",
                  label=f"{title}, as published")  # fmt: skip
