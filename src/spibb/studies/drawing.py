"""What the figures of all studies share: names and styles of algorithms, curves and heatmaps.

Heatmaps are red below, yellow at and green above the baseline. For readers who do not tell red from
green, the number stands in every cell and cells below the baseline have a stroke under it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spibb.studies.metrics import MIN_TAIL, IntervalEstimate, Measure
from spibb.studies.plan import Setting
from spibb.studies.results.aggregates import Results, describe_runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

MEAN, CVAR, RARE = Measure(), Measure(0.01), Measure(0.001)
_SYMBOLS = {"epsilon": "ε", "n_wedge": r"$N_\wedge$", "kappa": "κ", "delta": "δ", "xi": "ξ"}
# Algorithms in the paper's order: colour (a palette for colour-blind readers), marker, line.
_STYLES = {
    "Basic RL": ("#000000", "x", "-"),
    "RaMDP": ("#d55e00", "P", "-"),
    "R-MIN": ("#d55e00", "p", "--"),
    "MBIE": ("#999999", ">", "--"),
    "DUIPI": ("#8c6d31", "d", "-"),
    "Robust MDP": ("#999999", "v", "-"),
    "Robust MDP untested": ("#999999", "v", "--"),
    "HCPI": ("#cc79a7", "^", "-"),
    "HCPI cautious": ("#cc79a7", "^", "--"),
    "Pi_b-SPIBB": ("#56b4e9", "s", "-"),
    "Pi_<=b-SPIBB": ("#0072b2", "D", "-"),
    "Exact-Soft-SPIBB 1-step": ("#e69f00", "o", "--"),
    "Exact-Soft-SPIBB": ("#e69f00", "o", "-"),
    "Approx-Soft-SPIBB 1-step": ("#009e73", "*", "--"),
    "Approx-Soft-SPIBB": ("#009e73", "*", "-"),
    "Exact-Adv-Soft-SPIBB": ("#e69f00", "<", "-."),
    "Adv-Approx-Soft-SPIBB": ("#009e73", "<", "-."),
    "Exact-Lower-Soft-SPIBB": ("#e69f00", "8", ":"),
    "Lower-Approx-Soft-SPIBB": ("#009e73", "8", ":"),
    "Double-DQN": ("#8c6d31", "h", "-"),
    "": ("#8c6d31", "h", ":"),
}
# What names end with where unobserved pairs end for nothing, beside others where they do not.
ENDS = " (unseen end)"
GREY = "#4a5568"
_RED, _YELLOW, _GREEN = "#b3001b", "#fff7b2", "#00795f"
# The curves of unsafe algorithms would press all others together.
_LOWEST = -1.0
# Parts of red, green and blue in the lightness of a colour, and where white letters read better.
_LUMINANCE, _DARK = np.array([0.30, 0.59, 0.11]), 0.5
_MINUS = "\N{MINUS SIGN}"
_LONG_TITLE = 40
_LETTERS = 98  # of a title, in a line of the narrowest figure
_MARKS = 28  # letters of the sizes that have room under half a figure
_SCALE = "normalised performance\n(0: baseline, 1: optimum)"


class Drawing(NamedTuple):
    """A figure and what to say about it.

    Attributes:
        stem: Name of its files, without the ending.
        title: What it shows, in one line.
        caption: How to read it.
        figure: The picture.
    """

    stem: str
    title: str
    caption: str
    figure: Figure


def label_of(setting: Setting, form: str = "{title}, {symbol} = {value:g}") -> str:
    """Return the algorithm, with the mathematics in its name and that of its hyper-parameter.

    Args:
        setting: The algorithm.
        form: What to say of one that has a hyper-parameter: its title, symbol and value.
    """
    title = setting.name.replace("$", r"\$")
    title = title.replace("Pi_b", r"$\Pi_b$").replace("Pi_<=b", r"$\Pi_{\leq b}$")
    symbol = _SYMBOLS.get(setting.parameter, setting.parameter.replace("$", r"\$"))
    form = form if setting.parameter else "{title}"
    return form.format(title=title, symbol=symbol, value=setting.value)


def style_of(setting: Setting) -> tuple[str, str, str]:
    """Return colour, marker and line; dotted where unobserved pairs end for nothing."""
    colour, marker, line = list(_STYLES.values())[_rank(setting)]
    return colour, marker, ":" if setting.name.endswith(ENDS) else line


def _rank(setting: Setting) -> int:
    """Return the place of a setting's style in the paper's order."""
    styles = list(_STYLES)
    return styles.index(max(filter(setting.name.startswith, styles), key=len))


class Panel(NamedTuple):
    """One heatmap: values of shape (rows, columns), and the runs behind the fewest of them."""

    measure: Measure
    title: str
    axis: str
    rows: Sequence[float]
    values: NDArray[Any]
    n_runs: int

    @property
    def is_thin(self) -> bool:
        """Whether it shows a CVaR of too few runs for an interval."""
        return bool(self.measure.remark(self.n_runs))


@dataclass(frozen=True, eq=False)
class View:
    """Results, and the part of them that figures show.

    Attributes:
        results: The results; what they vary beside rows and columns has one value.
        rows: The factor that heatmaps have as rows, such as the strength of the baseline.
        columns: The factor that figures are drawn over, such as the size of the log.
        chosen: The value that stands for a family of settings where one must, by the beginning of
            "parameter: family".
        remarks: What to say on every figure that shows a hyper-parameter, by its name.
    """

    results: Results[Any]
    rows: str
    columns: str
    chosen: Mapping[str, float] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)

    @property
    def x(self) -> tuple[Any, ...]:
        """Where figures have values."""
        return tuple(self.results.plan.factors[self.columns])

    @property
    def every_row(self) -> tuple[Any, ...]:
        """What the rows have values of."""
        return tuple(self.results.plan.factors[self.rows])

    def title(self, factor: str) -> str:
        """Return what figures call a factor."""
        return str(self.results.plan.declared()[factor].title)

    def algorithms(self) -> list[Setting]:
        """Return the settings in the paper's order."""
        settings = self.results.plan.settings
        return sorted(settings, key=lambda one: (_rank(one), one.name, one.value))

    def families(self, parameter: str) -> list[list[Setting]]:
        """Return the algorithms that the plan runs with several values of a parameter."""
        meant = (one for one in self.algorithms() if one.parameter == parameter)
        families = [list(family) for _, family in groupby(meant, lambda one: one.name)]
        return [family for family in families if len(family) > 1]

    def benchmark(self) -> list[Setting]:
        """Return one setting of each algorithm: the one that was chosen, or the only one."""
        algorithms = self.algorithms()
        names = [one.name for one in algorithms]
        return [
            one for one in algorithms
            if not one.parameter or names.count(one.name) == 1 or self._is_chosen(one)
        ]  # fmt: skip

    def _is_chosen(self, one: Setting) -> bool:
        group = f"{one.parameter}: {one.name}"
        return any(group.startswith(k) and one.value == v for k, v in self.chosen.items())

    def by_row(self, measure: Measure, one: Setting) -> Panel:
        """Return the panel of one setting: rows against columns."""
        values, n_runs = self.results.of(measure, one.label).value, self.n_runs(one)
        title = f"{measure.name}: {label_of(one)}{self.note(n_runs)}"
        return Panel(measure, title, self.title(self.rows), self.every_row, values, n_runs)

    def by_value(self, measure: Measure, family: list[Setting], row: float) -> Panel:
        """Return the panel of one family: value of the hyper-parameter against columns."""
        cell, first, rows = {self.rows: row}, family[0], [one.value for one in family]
        values = np.stack([self.results.of(measure, one.label, **cell).value for one in family])
        n_runs = min(self.n_runs(one, **cell) for one in family)
        name = label_of(first, "{title}")
        title = f"{measure.name}: {name}, {self.title(self.rows)} = {row:.12g}{self.note(n_runs)}"
        return Panel(measure, title, label_of(first, "{symbol}"), rows, values, n_runs)

    def searched(
        self, families: Iterable[list[Setting]], rows: Iterable[float], *measures: Measure
    ) -> list[Panel]:
        """Return the panels of families: row by row, a family's measures side by side."""
        every = product(rows, families, measures)
        return [self.by_value(measure, family, row) for row, family, measure in every]

    def n_runs(self, one: Setting, **cell: Any) -> int:
        """Return the fewest runs of a setting."""
        return int(self.results.n_runs(one.label, **cell).min())

    def having(self, *wanted: float) -> list[float]:
        """Return those of some rows that the plan has."""
        return [row for row in wanted if row in self.every_row]

    def note(self, n_runs: int) -> str:
        """Say how many runs a part has if it has fewer than others."""
        return f" ({n_runs:,} runs)" if n_runs < self.results.aggregates.n.max() else ""

    def remark(self, parameters: set[str]) -> str:
        """Return what to say about hyper-parameters."""
        return "".join(f" {self.remarks[one]}" for one in sorted(parameters) if one in self.remarks)

    def head(self, title: str, shown: Sequence[tuple[Measure, int]]) -> str:
        """Return a figure's title: what, of which plan and how many runs, and what these allow.

        The plan's name is its maker's: dollars in it are no mathematics.
        """
        remarks = dict.fromkeys(measure.remark(n) for measure, n in shown)
        plan = self.results.plan
        runs = describe_runs([n for _, n in shown], plan)
        lines = "; ".join([f"{plan.name}, {runs}", *filter(None, remarks)])
        return f"{title}\n" + textwrap.fill(lines, _LETTERS)


def draw_curves(view: View, stem: str, title: str, settings: list[Setting], row: float) -> Drawing:
    """Draw mean and 1 %-CVaR of some settings against the columns, for one row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5.6), layout="constrained")
    n_runs = [view.n_runs(one, **{view.rows: row}) for one in settings]
    for axes, measure in zip(figure.subplots(1, 2), (MEAN, CVAR), strict=True):
        for one, n in zip(settings, n_runs, strict=True):
            estimate = view.results.of(measure, one.label, **{view.rows: row})
            draw_curve(axes, view.x, estimate, one, note=view.note(n))
        low, high = axes.get_ylim()
        cut = f", cut off at {_MINUS}1" if low < _LOWEST else ""
        if low < 0:  # else it is far below
            axes.axhline(0, color=GREY, linewidth=1, linestyle=":", label="baseline")
        # Nothing is better than the optimum.
        axes.set(title=measure.name + cut, ylim=(max(low, _LOWEST), min(high, 1.0)), xscale="log",
                 xlabel=view.title(view.columns), ylabel=_SCALE)  # fmt: skip
        mark_sizes(axes, view.x)
    shown = [(measure, n) for measure in (MEAN, CVAR) for n in n_runs]
    add_head(figure, view.head(title, shown), 3)
    caption = "Shaded: 95 % intervals, where the runs allow one."
    remark = view.remark({one.parameter for one in settings})
    return Drawing(stem, title, caption + remark, figure)


def add_head(figure: Figure, title: str, n_columns: int) -> None:
    """Write the title above a figure, and one legend for all panels below it."""
    figure.suptitle(title, fontsize=11, parse_math=False)
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=n_columns,
                  fontsize="small", frameon=False)  # fmt: skip


def mark_sizes(axes: Axes, sizes: Sequence[int], form: str = "d") -> None:
    """Mark sizes on a logarithmic axis, slanted where they would run into each other.

    Args:
        axes: Where.
        sizes: The sizes.
        form: How numbers are written; "," sets thousands apart.
    """
    labels = [f"{size:{form}}" for size in sizes]
    rotation = 40 if sum(map(len, labels)) > _MARKS else 0
    axes.set_xticks(sizes, labels, rotation=rotation)
    axes.minorticks_off()
    axes.grid(color="#e2e8f0", linewidth=0.6)


def draw_line(
    axes: Axes, x: Sequence[float], estimate: IntervalEstimate, style: tuple[str, str, str],
    label: str, note: str = "", *, size: float = 5, alpha: float = 0.12,
) -> Line2D:  # fmt: skip
    """Draw values with their intervals, if there are such.

    Args:
        axes: Where.
        x: The abscissas.
        estimate: The values; None for the ends of intervals where there are none.
        style: Colour, marker and line.
        label: What the legend says; one that begins with _ would be left out.
        note: What follows on it.
        size: Of the markers.
        alpha: How dark intervals are.
    """
    colour, marker, line = style
    label = f" {label}" if label.startswith("_") else label
    (drawn,) = axes.plot(x, estimate.value, color=colour, marker=marker, linestyle=line,
                         markersize=size, linewidth=1.4, label=label + note)  # fmt: skip
    if estimate.low is not None:
        axes.fill_between(x, estimate.low, estimate.high, color=colour, alpha=alpha, linewidth=0)
    return drawn


def draw_curve(
    axes: Axes, x: Sequence[float], found: IntervalEstimate, one: Setting, **more: Any
) -> Line2D:
    """Draw the values of a setting in its style; ``more`` as for ``draw_line``."""
    return draw_line(axes, x, found, style_of(one), **{"label": label_of(one), **more})


def draw_heatmaps(
    view: View, stem: str, title: str, panels: list[Panel], parameters: set[str]
) -> Iterator[Drawing]:
    """Draw panels on one scale, two in a row; nothing without any.

    Args:
        view: What they show.
        stem: Name of the file.
        title: What they show, in one line.
        panels: The panels; those of other runs than most are drawn paler.
        parameters: The hyper-parameters that are named in them.
    """
    from matplotlib.figure import Figure

    if not panels:
        return
    n_rows = -(-len(panels) // 2)
    # A panel has room for its titles also where it has few cells.
    width = 1.2 + 0.44 * max(6, len(view.x))
    height = 0.8 + 0.25 * max(6, *(len(panel.rows) for panel in panels))
    figure = Figure(figsize=(2 * width, n_rows * height + 0.8), layout="constrained")
    grid = figure.subplots(n_rows, 2, squeeze=False).ravel().tolist()
    for axes in grid[len(panels) :]:
        axes.remove()
    values = np.concatenate([panel.values.ravel() for panel in panels])
    # Colours end where values do, with the baseline in between.
    finite = values[np.isfinite(values)]
    low = max(-1.0, min(float(finite.min(initial=0)), -0.1))
    high = min(1.0, max(float(finite.max(initial=0)), 0.1))
    for axes, panel in zip(grid, panels, strict=False):
        mesh = _fill(axes, panel, view, (low, high))
    marks = [x for x in (-1, -0.5, -0.1, 0, 0.1, 0.5, 1) if low <= x <= high]
    figure.colorbar(mesh, ax=grid[: len(panels)], extend="min" if values.min() < low else "neither",
                    aspect=40, label=_SCALE, ticks=marks)  # fmt: skip
    shown = [(panel.measure, panel.n_runs) for panel in panels]
    figure.suptitle(view.head(title, shown), fontsize=11, parse_math=False)
    caption = "Red and underlined: below the baseline; yellow: at it; green: above it."
    if any(panel.is_thin for panel in panels):
        caption += f" Pale: a CVaR of fewer than {MIN_TAIL} runs."
    yield Drawing(stem, title, caption + view.remark(parameters), figure)


def _fill(axes: Axes, panel: Panel, view: View, limits: tuple[float, float]) -> QuadMesh:
    from matplotlib.colors import FuncNorm, LinearSegmentedColormap, to_rgb

    # Square roots show on which side of the baseline a small difference is.
    scale = FuncNorm((lambda x: np.sign(x) * np.sqrt(np.abs(x)), lambda y: y * np.abs(y)), *limits)
    # As dark as the scale reaches: a small loss stays pale where there are no large ones.
    parts, ends = np.sqrt(np.abs(limits))[:, None], np.array([to_rgb(_RED), to_rgb(_GREEN)])
    red, green = (parts * ends + (1 - parts) * np.array(to_rgb(_YELLOW))).tolist()
    stops = [(0.0, red), (float(scale(0.0)), _YELLOW), (1.0, green)]
    colours = LinearSegmentedColormap.from_list("baseline", stops)
    values = np.ma.masked_invalid(panel.values)
    mesh = axes.pcolormesh(values, cmap=colours, norm=scale, edgecolors="white", linewidth=0.5,
                           alpha=0.4 if panel.is_thin else 1.0)  # fmt: skip
    shades = mesh.to_rgba(values)[..., :3]
    if panel.is_thin:
        shades = 0.4 * shades + 0.6
    is_dark = shades @ _LUMINANCE < _DARK
    inks = np.where(is_dark, "white", "black")
    for place in map(tuple, np.argwhere(~np.isnan(panel.values))):
        axes.text(place[1] + 0.5, place[0] + 0.5, _in_digits(float(values[place])), ha="center",
                  va="center", fontsize=7, color=str(inks[place]), in_layout=False)  # fmt: skip
    for ink, cells in (("black", ~is_dark), ("white", is_dark)):
        _underline(axes, np.argwhere(cells & (panel.values < 0)), ink)
    # Two panels stand side by side: a long title would run into its neighbour's.
    size = 10.0 if len(panel.title) < _LONG_TITLE else min(8.3, 420 / len(panel.title))
    axes.set_title(panel.title, fontsize=size)
    axes.set_xticks(np.arange(len(view.x)) + 0.5, [f"{x}" for x in view.x], fontsize=8)
    axes.set_yticks(np.arange(len(panel.rows)) + 0.5, [f"{x:g}" for x in panel.rows], fontsize=8)
    axes.set(xlabel=view.title(view.columns), ylabel=panel.axis)
    axes.tick_params(length=0)
    return mesh


def _in_digits(value: float) -> str:
    """Return a number for a cell; what rounds to nothing has no sign.

    Example:
        >>> _in_digits(-0.001), _in_digits(0.25)
        ('0.00', '0.25')
    """
    text = f"{value:.{2 if value > -9.995 else 0}f}"
    return "0.00" if text == "-0.00" else text.replace("-", _MINUS)


def _underline(axes: Axes, cells: NDArray[np.int64], ink: str) -> None:
    """Draw a stroke at the foot of cells (row, column), all as one line: small files."""
    strokes = np.array([[0.25, 0.12], [0.75, 0.12], [np.nan, np.nan]])
    x, y = (cells[:, None, ::-1] + strokes).reshape(-1, 2).T
    axes.plot(x, y, color=ink, linewidth=0.9, scalex=False, scaley=False, in_layout=False)
