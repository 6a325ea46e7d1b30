"""What the figures of all studies share: names and styles of algorithms, curves and heatmaps.

Heatmaps are red below, yellow at and green above the baseline. For readers who do not tell red from
green, the number stands in every cell and cells below the baseline are hatched.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spibb.studies.aggregate import Aggregates, describe_runs
from spibb.studies.gallery import Drawing
from spibb.studies.metrics import Measure
from spibb.studies.plan import Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh

MEAN, CVAR, RARE = Measure(), Measure(0.01), Measure(0.001)
_SYMBOLS = {
    "epsilon": "ε", "n_wedge": r"$N_\wedge$", "kappa": "κ", "delta": "δ", "xi": "ξ",
}  # fmt: skip
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
# What names end with where pairs never tried end for nothing, beside others where they do not.
ENDS = " (unseen end)"
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


@dataclass(frozen=True)
class FigureSetting:
    """A setting as the figures call it.

    Attributes:
        place: Its place in the plan.
        name: Name of the algorithm.
        parameter: The hyper-parameter that its family varies; empty for none.
        value: The value of that.
    """

    place: int
    name: str
    parameter: str
    value: float

    @property
    def title(self) -> str:
        """The algorithm, with the mathematics in its name."""
        name = self.name.replace("$", r"\$")
        return name.replace("Pi_b", r"$\Pi_b$").replace("Pi_<=b", r"$\Pi_{\leq b}$")

    @property
    def symbol(self) -> str:
        """The letter of the hyper-parameter."""
        return _SYMBOLS.get(self.parameter, self.parameter.replace("$", r"\$"))

    @property
    def label(self) -> str:
        """The algorithm with the value of its hyper-parameter."""
        return f"{self.title}, {self.symbol} = {self.value:g}" if self.parameter else self.title

    @property
    def rank(self) -> int:
        """Place of its style in the paper's order."""
        styles = list(_STYLES)
        return styles.index(max((x for x in styles if self.name.startswith(x)), key=len))

    @property
    def style(self) -> tuple[str, str, str]:
        """Colour, marker and line; dotted where pairs never tried end for nothing."""
        colour, marker, line = list(_STYLES.values())[self.rank]
        return colour, marker, ":" if self.name.endswith(ENDS) else line


@dataclass(frozen=True, eq=False)
class Panel:
    """One heatmap: values of shape (rows, sizes)."""

    measure: Measure
    title: str
    axis: str
    rows: Sequence[float]
    values: NDArray[Any]
    n_runs: int


@dataclass(frozen=True, eq=False)
class StudyView:
    """A plan with its results, and the parts of them that figures show.

    Attributes:
        plan: The plan.
        aggregates: Its results.
        chosen: The value that stands for a family of settings where one must, by the beginning of
            the family's group.
        places: Settings to show, as places in the plan; None: all.
        axis: What the figures call the strength of the baseline.
        unit: What the sizes count.
    """

    plan: Plan
    aggregates: Aggregates
    chosen: dict[str, float] = field(default_factory=dict)
    places: Sequence[int] | None = None
    axis: str = "η"
    unit: str = "trajectories"

    def algorithms(self) -> list[FigureSetting]:
        """Return the settings in the paper's order."""
        found = []
        for place in range(len(self.plan.settings)) if self.places is None else self.places:
            setting = self.plan.settings[place]
            parameter, _, name = setting.group.partition(": ")
            # A label may begin with the process that a plan of several runs it on.
            name = name or setting.label.rpartition(": ")[2]
            found.append(FigureSetting(place, name, parameter, float(setting.value)))
        return sorted(found, key=lambda one: (one.rank, one.name, one.value))

    def families(self, parameter: str) -> list[list[FigureSetting]]:
        """Return the algorithms that the plan runs with several values of a parameter."""
        families: dict[str, list[FigureSetting]] = {}
        for one in self.algorithms():
            if one.parameter == parameter:
                families.setdefault(one.name, []).append(one)
        return [family for family in families.values() if len(family) > 1]

    def benchmark(self) -> list[FigureSetting]:
        """Return one setting of each algorithm: the one that was chosen, or the only one."""
        algorithms = self.algorithms()
        groups = {one.place: self.plan.settings[one.place].group for one in algorithms}
        sizes = list(groups.values())

        def is_chosen(group: str, value: float) -> bool:
            return any(group.startswith(k) and value == v for k, v in self.chosen.items())

        return [
            one for one in algorithms
            if not one.parameter or sizes.count(groups[one.place]) == 1
            or is_chosen(groups[one.place], one.value)
        ]  # fmt: skip

    def by_eta(self, measure: Measure, one: FigureSetting) -> Panel:
        """Return the panel of one setting: strength of the baseline against size."""
        values = self.aggregates.of(measure).value[:, :, one.place]
        n_runs = int(self.aggregates.n[:, :, one.place].min())
        title = f"{measure.name}: {one.label}{self.note(n_runs)}"
        return Panel(measure, title, self.axis, self.plan.etas, values, n_runs)

    def by_value(self, measure: Measure, family: list[FigureSetting], eta: float) -> Panel:
        """Return the panel of one family: value of the hyper-parameter against size."""
        row, places = self.plan.etas.index(eta), [one.place for one in family]
        values = self.aggregates.of(measure).value[row][:, places].T
        n_runs = int(self.aggregates.n[row][:, places].min())
        title = f"{measure.name}: {family[0].title}, {self.axis} = {eta:.12g}{self.note(n_runs)}"
        rows = [one.value for one in family]
        return Panel(measure, title, family[0].symbol, rows, values, n_runs)

    def etas(self, *wanted: float) -> list[float]:
        """Return those of some strengths that the plan has."""
        return [eta for eta in wanted if eta in self.plan.etas]

    def note(self, n_runs: int) -> str:
        """Say how many runs a part has if it has fewer than others."""
        return f" ({n_runs:,} runs)" if n_runs < self.aggregates.n.max() else ""

    def head(self, title: str, shown: Sequence[tuple[Measure, int]]) -> str:
        """Return a figure's title: what, of which plan and how many runs, and what these allow.

        The plan's name is its maker's: dollars in it are no mathematics.
        """
        remarks = dict.fromkeys(measure.remark(n) for measure, n in shown)
        runs = describe_runs([n for _, n in shown], self.plan)
        lines = "; ".join([f"{self.plan.name}, {runs}", *filter(None, remarks)])
        return f"{title}\n" + textwrap.fill(lines, _LETTERS)


def draw_curves(
    study: StudyView, stem: str, title: str, algorithms: list[FigureSetting], eta: float
) -> Drawing:
    """Draw mean and 1 %-CVaR of some settings against the size, for one strength."""
    from matplotlib.figure import Figure

    row = study.plan.etas.index(eta)
    figure = Figure(figsize=(10, 5.6), layout="constrained")
    for axes, measure in zip(figure.subplots(1, 2), (MEAN, CVAR), strict=True):
        for one in algorithms:
            _curve(axes, study, one, measure, row)
        lowest = axes.get_ylim()[0]
        cut = f", cut off at {_LOWEST:g}" if lowest < _LOWEST else ""
        axes.axhline(0, color="#4a5568", linewidth=1, linestyle=":")
        axes.set(title=measure.name + cut, ylim=(max(lowest, _LOWEST), 1.02), xscale="log",
                 xlabel=study.unit, ylabel=_SCALE)  # fmt: skip
        mark_sizes(axes, study.plan.sizes)
    n_runs = [int(study.aggregates.n[row, :, one.place].min()) for one in algorithms]
    shown = [(measure, n) for measure in (MEAN, CVAR) for n in n_runs]
    figure.suptitle(study.head(title, shown), fontsize=11, parse_math=False)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3,
                  fontsize="small", frameon=False)  # fmt: skip
    caption = "Shaded: 95 % intervals, where the runs allow one. Dotted: the baseline."
    return Drawing(stem, title, caption, figure)


def legend_name(label: str) -> str:
    """Return a label as a legend shows it: one that begins with _ would be left out."""
    return f" {label}" if label.startswith("_") else label


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


def _curve(axes: Axes, study: StudyView, one: FigureSetting, measure: Measure, row: int) -> None:
    sizes, n_runs = study.plan.sizes, int(study.aggregates.n[row, :, one.place].min())
    value, low, high = (part[row, :, one.place] for part in study.aggregates.of(measure))
    colour, marker, line = one.style
    axes.plot(sizes, value, color=colour, marker=marker, linestyle=line, markersize=5,
              linewidth=1.4, label=legend_name(one.label) + study.note(n_runs))  # fmt: skip
    axes.fill_between(sizes, low, high, color=colour, alpha=0.12, linewidth=0)


def draw_heatmaps(
    study: StudyView, stem: str, title: str, panels: list[Panel]
) -> Iterator[Drawing]:
    """Draw panels on one scale, two in a row; nothing without any."""
    from matplotlib.figure import Figure

    if not panels:
        return
    n_rows = -(-len(panels) // 2)
    # A panel has room for its titles also where it has few cells.
    width = 1.2 + 0.44 * max(6, len(study.plan.sizes))
    height = 0.8 + 0.25 * max(6, *(len(panel.rows) for panel in panels))
    figure = Figure(figsize=(2 * width, n_rows * height + 0.8), layout="constrained")
    grid = figure.subplots(n_rows, 2, squeeze=False).ravel().tolist()
    for axes in grid[len(panels) :]:
        axes.remove()
    for axes, panel in zip(grid, panels, strict=False):
        mesh = _fill(axes, panel, study.plan.sizes, study.unit)
    figure.colorbar(mesh, ax=grid[: len(panels)], extend="min", aspect=40, label=_SCALE,
                    ticks=[-1, -0.5, -0.1, 0, 0.1, 0.5, 1])  # fmt: skip
    shown = [(panel.measure, panel.n_runs) for panel in panels]
    figure.suptitle(study.head(title, shown), fontsize=11, parse_math=False)
    caption = "Red and hatched: below the baseline; yellow: at it; green: above it."
    yield Drawing(stem, title, caption, figure)


def _fill(axes: Axes, panel: Panel, sizes: Sequence[int], unit: str) -> QuadMesh:
    from matplotlib.colors import FuncNorm, LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("baseline", [_RED, _YELLOW, _GREEN])
    # Square roots show on which side of the baseline a small difference is.
    scale = FuncNorm((lambda x: np.sign(x) * np.sqrt(np.abs(x)), lambda y: y * np.abs(y)), -1, 1)
    values = np.ma.masked_invalid(panel.values)
    mesh = axes.pcolormesh(values, cmap=colours, norm=scale, edgecolors="white", linewidth=0.5)
    is_dark = mesh.to_rgba(values)[..., :3] @ _LUMINANCE < _DARK
    for ink, cells in (("black", ~is_dark), ("white", is_dark)):
        _hatch(axes, np.argwhere(cells & (panel.values < 0)), ink)
        for row, column in np.argwhere(cells & ~np.isnan(panel.values)):
            text = f"{values[row, column]:.{2 if values[row, column] > -9.995 else 0}f}"
            axes.text(column + 0.5, row + 0.5, text.replace("-", _MINUS), ha="center", va="center",
                      fontsize=7, color=ink, in_layout=False)  # fmt: skip
    # Two panels stand side by side: a long title would run into its neighbour's.
    size = "medium" if len(panel.title) < _LONG_TITLE else "small"
    axes.set_title(panel.title, fontsize=size)
    axes.set_xticks(np.arange(len(sizes)) + 0.5, [f"{size}" for size in sizes], fontsize=8)
    axes.set_yticks(np.arange(len(panel.rows)) + 0.5, [f"{x:g}" for x in panel.rows], fontsize=8)
    axes.set(xlabel=unit, ylabel=panel.axis)
    axes.tick_params(length=0)
    return mesh


def _hatch(axes: Axes, cells: NDArray[np.int64], ink: str) -> None:
    """Draw diagonals through cells (row, column), all as one line: small files, any backend."""
    starts = np.array([[0, 2 / 3], [0, 1 / 3], [0, 0], [1 / 3, 0], [2 / 3, 0]])
    strokes = np.stack([starts, 1 - starts[:, ::-1], np.full_like(starts, np.nan)], axis=1)
    x, y = (cells[:, None, ::-1] + strokes.reshape(-1, 2)).reshape(-1, 2).T
    axes.plot(x, y, color=ink, alpha=0.35, linewidth=0.6, scalex=False, scaley=False,
              in_layout=False)  # fmt: skip
