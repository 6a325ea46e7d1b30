"""The figures of the paper on random MDPs, as far as a plan has what they show.

Heatmaps are red below, yellow at and green above the baseline. For readers who do not tell red from
green, the number stands in every cell and cells below the baseline are hatched.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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

# What the paper's benchmark chose, by the beginning of a setting's group.
_CHOSEN = {"epsilon": 2, "n_wedge": 10, "kappa": 0.003, "delta: Robust": 0.001, "delta: HCPI": 0.9}
_SYMBOLS = {"epsilon": "ε", "n_wedge": r"$N_\wedge$", "kappa": "κ", "delta": "δ"}
# Algorithms in the paper's order: colour (a palette for colour-blind readers), marker, line.
_STYLES = {
    "Basic RL": ("#000000", "x", "-"),
    "RaMDP": ("#d55e00", "P", "-"),
    "Robust MDP": ("#999999", "v", "-"),
    "HCPI": ("#cc79a7", "^", "-"),
    "Pi_b-SPIBB": ("#56b4e9", "s", "-"),
    "Pi_<=b-SPIBB": ("#0072b2", "D", "-"),
    "Exact-Soft-SPIBB 1-step": ("#e69f00", "o", "--"),
    "Exact-Soft-SPIBB": ("#e69f00", "o", "-"),
    "Approx-Soft-SPIBB 1-step": ("#009e73", "*", "--"),
    "Approx-Soft-SPIBB": ("#009e73", "*", "-"),
    "": ("#8c6d31", "h", ":"),
}
_MEAN, _CVAR, _RARE = Measure(), Measure(0.01), Measure(0.001)
_RED, _YELLOW, _GREEN = "#b3001b", "#fff7b2", "#00795f"
# The two that the paper sets side by side.
_COMPARED = ("RaMDP", "Approx-Soft-SPIBB")
# The curves of unsafe algorithms would press all others together.
_LOWEST = -1.0
# Parts of red, green and blue in the lightness of a colour, and where white letters read better.
_LUMINANCE, _DARK = np.array([0.30, 0.59, 0.11]), 0.5
_MINUS = "\N{MINUS SIGN}"
_LETTERS = 98  # of a title, in a line of the narrowest figure
_SCALE = "normalised performance\n(0: baseline, 1: optimum)"


@dataclass(frozen=True)
class _Algorithm:
    """A setting as the figures call it, and its place in the plan."""

    place: int
    name: str
    parameter: str
    value: float

    @property
    def title(self) -> str:
        name = self.name.replace("$", r"\$")
        return name.replace("Pi_b", r"$\Pi_b$").replace("Pi_<=b", r"$\Pi_{\leq b}$")

    @property
    def symbol(self) -> str:
        return _SYMBOLS.get(self.parameter, self.parameter)

    @property
    def label(self) -> str:
        return f"{self.title}, {self.symbol} = {self.value:g}" if self.parameter else self.title

    @property
    def style(self) -> str:
        return max((name for name in _STYLES if self.name.startswith(name)), key=len)


@dataclass(frozen=True, eq=False)
class _Panel:
    """One heatmap: values of shape (rows, sizes)."""

    measure: Measure
    title: str
    axis: str
    rows: Sequence[float]
    values: NDArray[Any]
    n_runs: int


@dataclass(frozen=True, eq=False)
class _Study:
    """A plan with its results, and the parts of them that figures show."""

    plan: Plan
    aggregates: Aggregates

    def algorithms(self) -> list[_Algorithm]:
        found = []
        for place, setting in enumerate(self.plan.settings):
            parameter, _, name = setting.group.partition(": ")
            found.append(_Algorithm(place, name or setting.label, parameter, float(setting.value)))
        rank = list(_STYLES).index
        return sorted(found, key=lambda one: (rank(one.style), one.name, one.value))

    def families(self, parameter: str) -> list[list[_Algorithm]]:
        """Return the algorithms that the plan runs with several values of a parameter."""
        families: dict[str, list[_Algorithm]] = {}
        for one in self.algorithms():
            if one.parameter == parameter:
                families.setdefault(one.name, []).append(one)
        return [family for family in families.values() if len(family) > 1]

    def benchmark(self) -> list[_Algorithm]:
        """Return one setting of each algorithm: the one that the paper chose, or the only one."""
        groups = [setting.group for setting in self.plan.settings]

        def is_chosen(group: str, value: float) -> bool:
            return any(group.startswith(k) and value == v for k, v in _CHOSEN.items())

        return [
            one for one in self.algorithms()
            if not one.parameter or groups.count(groups[one.place]) == 1
            or is_chosen(groups[one.place], one.value)
        ]  # fmt: skip

    def by_eta(self, measure: Measure, one: _Algorithm) -> _Panel:
        values = self.aggregates.of(measure).value[:, :, one.place]
        n_runs = int(self.aggregates.n[:, :, one.place].min())
        title = f"{measure.name}: {one.label}{self.note(n_runs)}"
        return _Panel(measure, title, "η", self.plan.etas, values, n_runs)

    def by_value(self, measure: Measure, family: list[_Algorithm], eta: float) -> _Panel:
        row, places = self.plan.etas.index(eta), [one.place for one in family]
        values = self.aggregates.of(measure).value[row][:, places].T
        n_runs = int(self.aggregates.n[row][:, places].min())
        title = f"{measure.name}: {family[0].title}, η = {eta:g}{self.note(n_runs)}"
        rows = [one.value for one in family]
        return _Panel(measure, title, family[0].symbol, rows, values, n_runs)

    def etas(self, *wanted: float) -> list[float]:
        return [eta for eta in wanted if eta in self.plan.etas]

    def note(self, n_runs: int) -> str:
        """Say how many runs a part has if it has fewer than others."""
        return f" ({n_runs:,} runs)" if n_runs < self.aggregates.n.max() else ""

    def head(self, title: str, shown: Sequence[tuple[Measure, int]]) -> str:
        """Return a figure's title: what, of which plan and how many runs, and what these allow."""
        remarks = dict.fromkeys(measure.remark(n) for measure, n in shown)
        runs = describe_runs([n for _, n in shown], self.plan)
        name = self.plan.name.replace("$", r"\$")
        lines = "; ".join([f"{name}, {runs}", *filter(None, remarks)])
        return f"{title}\n" + textwrap.fill(lines, _LETTERS)


def draw_random_mdps(plan: Plan, aggregates: Aggregates) -> list[Drawing]:
    """Draw the figures of the paper whose settings and etas the plan has."""
    study = _Study(plan, aggregates)
    return [*_benchmark_figures(study), *_search_figures(study)]


def _benchmark_figures(study: _Study) -> Iterator[Drawing]:
    algorithms = study.benchmark()
    for eta in study.etas(0.9) if algorithms else []:
        yield _curves(study, algorithms, eta)
    panels = [study.by_eta(_RARE, one) for one in algorithms if one.name in _COMPARED]
    if len(panels) == len(_COMPARED):
        title = "Influence of the baseline's strength"
        yield from _heatmaps(study, "influence-of-eta", title, panels)
    for stem, measure in (("cvar-by-eta", _RARE), ("mean-by-eta", _MEAN)):
        panels = [study.by_eta(measure, one) for one in algorithms]
        title = f"All algorithms by the baseline's strength: {measure.name}"
        yield from _heatmaps(study, stem, title, panels)


def _search_figures(study: _Study) -> Iterator[Drawing]:
    panels = [
        study.by_value(_CVAR, family, eta) for eta in study.etas(0.9)
        for parameter in ("kappa", "epsilon") for family in study.families(parameter)
        if family[0].name in _COMPARED
    ]  # fmt: skip
    if len(panels) == len(_COMPARED):
        title = "Sensitivity to the hyper-parameter"
        yield from _heatmaps(study, "sensitivity-to-hyper-parameter", title, panels)
    for stem, measure in (("epsilon-search-mean", _MEAN), ("epsilon-search-cvar", _CVAR)):
        panels = [
            study.by_value(measure, family, eta)
            for family in study.families("epsilon") for eta in study.etas(0.1, 0.9)
        ]  # fmt: skip
        yield from _heatmaps(study, stem, f"Search for epsilon: {measure.name}", panels)
    searches = {"n_wedge": (0.9,), "kappa": (0.1, 0.4, 0.6, 0.9), "delta": (0.9,)}
    for parameter, wanted in searches.items():
        families = study.families(parameter)
        panels = [
            study.by_value(measure, family, eta)
            for eta in study.etas(*wanted) for measure in (_MEAN, _CVAR) for family in families
        ]  # fmt: skip
        if parameter == "n_wedge":
            chosen = [one for family in families for one in family if one in study.benchmark()]
            panels += [study.by_eta(_CVAR, one) for one in chosen]
        title = f"Search for {parameter}: mean and {_CVAR.name}"
        yield from _heatmaps(study, f"{parameter.replace('_', '-')}-search", title, panels)


def _curves(study: _Study, algorithms: list[_Algorithm], eta: float) -> Drawing:
    from matplotlib.figure import Figure

    row = study.plan.etas.index(eta)
    figure = Figure(figsize=(10, 5.6), layout="constrained")
    for axes, measure in zip(figure.subplots(1, 2), (_MEAN, _CVAR), strict=True):
        for one in algorithms:
            _curve(axes, study, one, measure, row)
        lowest = axes.get_ylim()[0]
        cut = f", cut off at {_LOWEST:g}" if lowest < _LOWEST else ""
        axes.axhline(0, color="#4a5568", linewidth=1, linestyle=":")
        axes.set(title=measure.name + cut, ylim=(max(lowest, _LOWEST), 1.02), xscale="log",
                 xlabel="trajectories", ylabel=_SCALE)  # fmt: skip
        axes.set_xticks(study.plan.sizes, [f"{size}" for size in study.plan.sizes])
        axes.minorticks_off()
        axes.grid(color="#e2e8f0", linewidth=0.6)
    title = f"Performance against the size of the log, η = {eta:g}"
    n_runs = [int(study.aggregates.n[row, :, one.place].min()) for one in algorithms]
    shown = [(measure, n) for measure in (_MEAN, _CVAR) for n in n_runs]
    figure.suptitle(study.head(title, shown), fontsize=11)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4,
                  fontsize="small", frameon=False)  # fmt: skip
    caption = "Shaded: 95 % intervals, where the runs allow one. Dotted: the baseline."
    return Drawing("performance-by-size", title, caption, figure)


def _curve(axes: Axes, study: _Study, one: _Algorithm, measure: Measure, row: int) -> None:
    sizes, n_runs = study.plan.sizes, int(study.aggregates.n[row, :, one.place].min())
    value, low, high = (part[row, :, one.place] for part in study.aggregates.of(measure))
    colour, marker, line = _STYLES[one.style]
    axes.plot(sizes, value, color=colour, marker=marker, linestyle=line, markersize=5,
              linewidth=1.4, label=one.label + study.note(n_runs))  # fmt: skip
    axes.fill_between(sizes, low, high, color=colour, alpha=0.12, linewidth=0)


def _heatmaps(study: _Study, stem: str, title: str, panels: list[_Panel]) -> Iterator[Drawing]:
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
        mesh = _fill(axes, panel, study.plan.sizes)
    figure.colorbar(mesh, ax=grid[: len(panels)], extend="min", aspect=40, label=_SCALE,
                    ticks=[-1, -0.5, -0.1, 0, 0.1, 0.5, 1])  # fmt: skip
    shown = [(panel.measure, panel.n_runs) for panel in panels]
    figure.suptitle(study.head(title, shown), fontsize=11)
    caption = "Red and hatched: below the baseline; yellow: at it; green: above it."
    yield Drawing(stem, title, caption, figure)


def _fill(axes: Axes, panel: _Panel, sizes: Sequence[int]) -> QuadMesh:
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
    axes.set_title(panel.title, fontsize="medium")
    axes.set_xticks(np.arange(len(sizes)) + 0.5, [f"{size}" for size in sizes], fontsize=8)
    axes.set_yticks(np.arange(len(panel.rows)) + 0.5, [f"{x:g}" for x in panel.rows], fontsize=8)
    axes.set(xlabel="trajectories", ylabel=panel.axis)
    axes.tick_params(length=0)
    return mesh


def _hatch(axes: Axes, cells: NDArray[np.int64], ink: str) -> None:
    """Draw diagonals through cells (row, column), all as one line: small files, any backend."""
    starts = np.array([[0, 2 / 3], [0, 1 / 3], [0, 0], [1 / 3, 0], [2 / 3, 0]])
    strokes = np.stack([starts, 1 - starts[:, ::-1], np.full_like(starts, np.nan)], axis=1)
    x, y = (cells[:, None, ::-1] + strokes.reshape(-1, 2)).reshape(-1, 2).T
    axes.plot(x, y, color=ink, alpha=0.35, linewidth=0.6, scalex=False, scaley=False,
              in_layout=False)  # fmt: skip
