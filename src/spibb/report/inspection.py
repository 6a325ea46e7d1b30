"""How the log looks: a section of every report, and a picture of its own."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from spibb.atomic_files import write_whole
from spibb.errors import OutputError
from spibb.inspection.inspect import Inspection
from spibb.pictures import own_settings, to_png, to_svg
from spibb.report.log_picture import log_picture
from spibb.words import percent

_ROWS, _BASELINE = "#63b3ed", "#f6ad55"
_MOST_STATES = 2_000
_KINDS = {".svg": lambda figure: to_svg(figure).encode(), ".png": to_png}


@lru_cache(maxsize=1)  # results that are compared share their log
def render_inspection(found: Inspection | None) -> str:
    """Return the section of a page as HTML; nothing where only counts are known."""
    import jinja2
    from markupsafe import Markup

    if found is None:
        return ""
    folder = resources.files("spibb.report")
    source = folder.joinpath("templates/inspection.html").read_text("utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(source).render(
        inspection=found, picture=Markup(log_picture(found)), told=format_place
    )


def format_place(name: str, value: Any) -> str:
    """Return a value of a finding's table in words; what is called "of ..." is a share.

    Example:
        >>> format_place("of actions", 0.031), format_place("in_log", 0.72)
        ('3.1 %', '0.72')
    """
    if isinstance(value, float):
        return percent(value) if name.startswith("of ") else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def check_picture(path: Path, *, overwrite: bool = True) -> None:
    """Refuse a picture whose name does not say of which kind it is, or that is there already."""
    if path.suffix.lower() not in _KINDS:
        raise OutputError(
            f"cannot tell the kind of the picture {path.name}", expected="a name in .svg or .png"
        )
    if path.exists() and not overwrite:
        raise OutputError(f"{path} exists already", hint="choose another file, or say --overwrite")


def write_picture(found: Inspection, path: Path) -> None:
    """Write the picture of an inspection as SVG or PNG, by its name."""
    check_picture(path)
    with own_settings():
        write_whole(path, _KINDS[path.suffix.lower()](inspection_figure(found)))


def inspection_figure(found: Inspection) -> Any:
    """Draw how often pairs were seen, how long episodes are, and where the baseline is off."""
    from matplotlib.figure import Figure

    panels = [_draw_coverage]
    panels += [] if found.lengths is None else [_draw_lengths]
    panels += [] if found.fit is None else [_draw_fit]
    figure = Figure(figsize=(1.0 + 3.4 * len(panels), 3.2))
    for place, draw in enumerate(panels, 1):
        axes = figure.add_subplot(1, len(panels), place)
        draw(axes, found)
        axes.spines[["top", "right"]].set_visible(False)
    # All labels are ours, and of known width: fitting them would take as long as drawing.
    width = float(figure.get_figwidth())
    figure.subplots_adjust(
        left=0.7 / width, right=1.0 - 0.15 / width, bottom=0.17, top=0.95, wspace=0.32
    )
    return figure


def _draw_coverage(axes: Any, found: Inspection) -> None:
    pairs = np.array([part["pairs"] for part in found.coverage], dtype=np.float64)
    visits = [part["share_of_visits"] for part in found.coverage]
    place = np.arange(len(pairs))
    axes.bar(place - 0.2, 100 * pairs / max(1.0, pairs.sum()), 0.4, color=_ROWS, label="pairs")
    axes.bar(place + 0.2, 100 * np.array(visits), 0.4, color=_BASELINE, label=found.visits_of)
    axes.set_xticks(place, [part["seen"] for part in found.coverage])
    axes.set_xlabel("times that a pair was seen")
    axes.set_ylabel("%")
    axes.legend(frameon=False, fontsize=8)


def _draw_lengths(axes: Any, found: Inspection) -> None:
    lengths = found.lengths
    assert lengths is not None, "there are episodes"
    axes.hist(lengths, bins=min(30, max(1, int(lengths.max() - lengths.min()) + 1)), color=_ROWS)
    axes.set_xlabel("rows of an episode")
    axes.set_ylabel("episodes")


def _draw_fit(axes: Any, found: Inspection) -> None:
    """Draw, for each state, its rows and how far the baseline is from what was done there."""
    fit, n = found.fit, found.n_sa.sum(axis=1)
    assert fit is not None, "there is a baseline"
    n_met = int((n > 0).sum())
    met = np.argsort(-n, kind="stable")[: min(_MOST_STATES, n_met)]
    axes.scatter(n[met], fit.by_state[met], s=9, color=_BASELINE)
    axes.axhline(0.0, color="#a0aec0", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_ylim(min(-0.1, float(fit.by_state[met].min(initial=0.0)) - 0.05), 1.0)
    left_out = f" ({len(met):,} of {n_met:,} drawn)" if len(met) < n_met else ""
    axes.set_xlabel(f"rows of a state{left_out}")
    axes.set_ylabel("baseline off by, beyond chance")
