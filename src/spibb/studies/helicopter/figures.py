"""The figures of the study: performance against the hyper-parameter, and against the size.

All hyper-parameters share the paper's abscissa, where they have one dimension up to a factor:
kappa / 10, 1 / sqrt(n_wedge), epsilon. The factor brings kappa's good values near the others'.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from spibb.envs.helicopter_picture import helicopter_figure
from spibb.studies.aggregate import Aggregates, describe_runs
from spibb.studies.drawing import FigureSetting, legend_name, mark_sizes
from spibb.studies.gallery import Drawing
from spibb.studies.helicopter.plan import BASELINE, HelicopterPlan
from spibb.studies.helicopter.tables import (
    CVAR,
    MEAN,
    PUBLISHED,
    Best,
    best_settings,
    families,
)
from spibb.studies.metrics import IntervalEstimate, Measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GREY = "#4a5568"
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


def on_axis(plan: HelicopterPlan, places: Sequence[int]) -> dict[int, float]:
    """Return where settings, given as places in the plan, stand on the axis; some do not."""
    found = {}
    for place in places:
        setting = plan.settings[place]
        x = abscissa(setting.group.partition(": ")[0], setting.value)
        if 2.0**-_FARTHEST <= x <= 2.0**_FARTHEST:
            found[place] = x
    return found


def draw_helicopter(plan: HelicopterPlan, aggregates: Aggregates) -> list[Drawing]:
    """Draw the domain, one figure for each size, and one against the sizes."""
    drawings = [_domain(plan)]
    drawings += [_by_parameter(plan, aggregates, row) for row in range(len(plan.sizes))]
    return [*drawings, *_by_size(plan, aggregates)]


def _domain(plan: HelicopterPlan) -> Drawing:
    helicopter = plan.helicopter
    rng = np.random.default_rng(plan.seed)
    flights = helicopter.trajectories(helicopter.baseline().action_probabilities, _N_FLIGHTS, rng)
    return Drawing(
        "helicopter-domain",
        "The helicopter's domain",
        f"{_N_FLIGHTS} flights of the baseline. A flight starts in the teal region with a random "
        "velocity and ends at the box's border, with the reward shown in the frame, or with "
        "reward -1 where it is too fast (cross).",
        helicopter_figure(helicopter, flights),
    )


def _by_parameter(plan: HelicopterPlan, aggregates: Aggregates, row: int) -> Drawing:
    from matplotlib.figure import Figure

    size = plan.sizes[row]
    figure = Figure(figsize=(10, 8), layout="constrained")
    grid = figure.subplots(2, 2, sharex=True, sharey="row")
    for k, measure in enumerate((MEAN, CVAR)):
        for score, name in enumerate(_evaluations(plan)):
            axes = grid[k, score]
            for shown, x, estimate in _parameter_lines(plan, aggregates, measure, (score, row)):
                _line(axes, x, estimate, shown)
            _level(axes, plan, aggregates, measure, (score, row))
            axes.set_title(f"{measure.name}, {name}", fontsize=_LETTERS)
            axes.set_xscale("log")
            axes.grid(color="#e2e8f0", linewidth=0.6)
            if score == 0:
                axes.set_ylabel(f"{measure.name} of the return")
        _cut(grid[k], plan, aggregates, measure, row)
    _mark_abscissa(grid[1], plan)
    title = f"Performance against the hyper-parameter, {size:,} transitions"
    _add_title(figure, title, f"{plan.name}, {describe_runs(aggregates.n[:, row], plan)}")
    caption = (
        "Undiscounted return; dotted: the baseline under the same evaluation. Shaded: 95 % "
        "bootstrap intervals over data sets. "
        + _aside(plan, aggregates, row)
        + _below(plan, aggregates, row)
        + _left_out(plan)
        + "The SPIBB family grows more cautious to the left, RaMDP to the right."
    )
    return Drawing(f"helicopter-{size}", title, caption, figure)


def _add_title(figure: Figure, title: str, runs: str) -> None:
    """Write the title, and one legend for all panels."""
    figure.suptitle(f"{title}\n{runs} of each setting", fontsize=11, parse_math=False)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3,
                  fontsize="small", frameon=False)  # fmt: skip


def _evaluations(plan: HelicopterPlan) -> tuple[str, str]:
    return (
        f"short: {plan.n_steps:,} steps a run (the paper's)",
        f"long: {plan.n_episodes:,} episodes a run",
    )


def _parameter_lines(
    plan: HelicopterPlan, aggregates: Aggregates, measure: Measure, cell: tuple[int, int]
) -> Iterator[tuple[FigureSetting, list[float], IntervalEstimate]]:
    """Yield each family with its places on the abscissa and its results there."""
    for name, places in families(plan).items():
        parameter, x = plan.settings[places[0]].group.partition(": ")[0], on_axis(plan, places)
        if parameter and x:
            found = IntervalEstimate(*(part[cell][list(x)] for part in aggregates.of(measure)))
            yield FigureSetting(places[0], name, parameter, 0.0), list(x.values()), found


def _line(axes: Axes, x: Sequence[float], estimate: IntervalEstimate, shown: FigureSetting) -> None:
    colour, marker, line = shown.style
    label = f"{shown.title} ({shown.symbol})" if shown.parameter else shown.title
    axes.plot(x, estimate.value, color=colour, marker=marker, linestyle=line, markersize=6,
              linewidth=1.4, label=legend_name(label))  # fmt: skip
    axes.fill_between(x, estimate.low, estimate.high, color=colour, alpha=0.13, linewidth=0)


def _level(
    axes: Axes, plan: HelicopterPlan, aggregates: Aggregates, measure: Measure,
    cell: tuple[int, int],
) -> None:  # fmt: skip
    place = plan.place(BASELINE)
    if place is not None:
        axes.axhline(aggregates.of(measure).value[(*cell, place)], color=_GREY, linewidth=1.2,
                     linestyle=":", label="baseline")  # fmt: skip


def _cut(
    both: Sequence[Axes], plan: HelicopterPlan, aggregates: Aggregates, measure: Measure, row: int
) -> None:
    """Let the scale start below the baseline, and say so where a curve's points lie lower."""
    place = plan.place(BASELINE)
    if place is None:
        return
    least = float(np.nanmin(aggregates.of(measure).value[:, row, place])) - _DEPTH
    if both[0].get_ylim()[0] < least:
        drawn = np.concatenate([line.get_ydata() for axes in both for line in axes.lines])
        cut = np.floor(10 * drawn[drawn >= least].min()) / 10 - 0.1
        both[0].set_ylim(bottom=cut)
        for axes in both:
            if any(np.less(line.get_ydata(), cut).any() for line in axes.lines):
                axes.set_title(f"{axes.get_title()}, axis starts at {cut:.1f}", fontsize=_LETTERS)


def _mark_abscissa(bottom: Sequence[Axes], plan: HelicopterPlan) -> None:
    """Mark powers of two, as many as have room."""
    varied = [k for k, setting in enumerate(plan.settings) if setting.group]
    places = on_axis(plan, varied).values() or [1.0]
    low, high = np.ceil(np.log2(min(places))), np.floor(np.log2(max(places)))
    step = max(1, int(np.ceil((high - low + 1) / _MOST_MARKS)))
    powers = [int(power) for power in np.arange(low, high + 1, step)]
    names = [f"{2**power}" if power >= 0 else f"1/{2**-power}" for power in powers]
    for axes in bottom:
        axes.set_xlabel(_ABSCISSA)
        axes.set_xticks([2.0**power for power in powers], names)
        axes.minorticks_off()


def _left_out(plan: HelicopterPlan) -> str:
    """Name the settings of a family that have no place on the axis."""
    varied = [k for k, setting in enumerate(plan.settings) if setting.group]
    labels = [plan.settings[k].label for k in varied if k not in on_axis(plan, varied)]
    return f"Beyond the axis: {'; '.join(labels)}. " if labels else ""


def _aside(plan: HelicopterPlan, aggregates: Aggregates, row: int) -> str:
    """Tell the numbers of Double-DQN, which has no hyper-parameter and is far below."""
    place = plan.place("double-dqn")
    if place is None:
        return ""
    parts = [
        f"{mean:.2f} / {tail:.2f}"
        for mean, tail in zip(
            aggregates.of(MEAN).value[:, row, place],
            aggregates.of(CVAR).value[:, row, place],
            strict=True,
        )
    ]
    return f"Double-DQN (mean / 10 %-CVaR): {parts[0]} short, {parts[1]} long. "


def _below(plan: HelicopterPlan, aggregates: Aggregates, row: int) -> str:
    """Tell of algorithms that the cut leaves nothing of."""
    baseline = plan.place(BASELINE)
    if baseline is None:
        return ""
    means = aggregates.of(MEAN).value[1, row]
    parts = [
        f"{name} lies below the picture (best mean {means[places].max():.2f}, long). "
        for name, places in families(plan).items()
        if len(places) > 1 and means[places].max() < means[baseline] - _DEPTH
    ]
    return "".join(parts)


def _by_size(plan: HelicopterPlan, aggregates: Aggregates) -> Iterator[Drawing]:
    """Draw every algorithm at its best hyper-parameter against the size."""
    from matplotlib.figure import Figure

    if len(plan.sizes) < 2:
        return
    rows = best_settings(plan, aggregates)
    figure = Figure(figsize=(10, 8), layout="constrained")
    grid = figure.subplots(2, 2, sharex=True, sharey="row")
    for k, measure in enumerate((MEAN, CVAR)):
        for score, name in enumerate(_evaluations(plan)):
            axes = grid[k, score]
            for algorithm in dict.fromkeys(one.name for one in rows):
                found = [one for one in rows if one.name == algorithm]
                _best_line(axes, found, measure, score)
            axes.set_title(f"{measure.name}, {name}", fontsize="medium")
            axes.set(xscale="log", xlabel="transitions" if k else "",
                     ylabel="" if score else f"{measure.name} of the return")  # fmt: skip
            mark_sizes(axes, plan.sizes, ",")
    title = "Performance at the best hyper-parameter against the size of the data set"
    _add_title(figure, title, f"{plan.name}, {describe_runs(aggregates.n, plan)}")
    caption = (
        "Best: of the largest mean under the long evaluation. Dotted: the baseline. Shaded: 95 % "
        "bootstrap intervals over data sets. Hollow, left: what the paper published (its own "
        "baseline and networks)."
    )
    yield Drawing("helicopter-by-size", title, caption, figure)


def _best_line(axes: Axes, found: Sequence[Best], measure: Measure, score: int) -> None:
    name = found[0].name
    shown = FigureSetting(found[0].place, name, "", 0.0)
    sizes = [one.size for one in found]
    parts = [(one.mean if measure == MEAN else one.cvar)[score] for one in found]
    estimate = IntervalEstimate(*(np.array(part) for part in zip(*parts, strict=True)))
    colour, marker, _ = shown.style
    if name == "Baseline":
        axes.plot(sizes, estimate.value, color=_GREY, linestyle=":", linewidth=1.2,
                  label="baseline")  # fmt: skip
    else:
        _line(axes, sizes, estimate, shown)
    told = [(size, PUBLISHED[size][name]) for size in sizes if name in PUBLISHED.get(size, {})]
    if told and score == 0:
        colour = _GREY if name == "Baseline" else colour
        axes.plot([size for size, _ in told], [pair[measure != MEAN] for _, pair in told],
                  color=colour, marker=marker if name != "Baseline" else "_", markersize=9,
                  markerfacecolor="none", linestyle="none")  # fmt: skip
