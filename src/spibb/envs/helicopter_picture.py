"""The picture of the helicopter's domain: box, start region, rewards of leaving, flights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.envs.helicopter import Helicopter
from spibb.pictures import own_settings

_BOX, _START, _FLIGHT = "#1f4e9c", "#7fd1c7", "#44546a"
# The rewards are drawn on a frame of this width around the box, where flights end.
_FRAME = 0.13


@own_settings()
def helicopter_figure(
    helicopter: Helicopter,
    trajectories: Sequence[NDArray[np.floating]] = (),
    *,
    side: float = 5.0,
    has_scale: bool = True,
) -> Any:
    """Draw the domain, and flights in it.

    The frame around the box shows the reward of leaving it there; the start region is teal. Every
    flight begins with a dot and ends with a ring filled in the colour of its reward if it left the
    box, with a cross where it flew too fast.

    Args:
        helicopter: The domain.
        trajectories: States of flights, each of shape (steps + 1, 4).
        side: Size of the picture in inches.
        has_scale: Whether axes and colour scale are drawn beside it.

    Returns:
        A matplotlib figure.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    figure = Figure(figsize=(side * 1.2, side * 1.15) if has_scale else (side, side), dpi=100)
    axes = figure.add_axes((0.1, 0.22, 0.7, 0.73) if has_scale else (0.0, 0.0, 1.0, 1.0))
    colours = _draw_rewards(axes, helicopter)
    axes.add_patch(Rectangle((0, 0), 1, 1, facecolor="#f4f7fc", edgecolor="none"))
    start = Rectangle((0, 0), helicopter.start_side, helicopter.start_side, facecolor=_START)
    axes.add_patch(start)
    axes.add_patch(Rectangle((0, 0), 1, 1, fill=False, edgecolor=_BOX, linewidth=2, zorder=3))
    for path in trajectories:
        _draw_flight(axes, helicopter, path, colours)
    axes.set_xlim(-_FRAME, 1 + _FRAME)
    axes.set_ylim(-_FRAME, 1 + _FRAME)
    axes.set_aspect("equal")
    if has_scale:
        middle = helicopter.start_side / 2
        if not len(trajectories):
            axes.text(middle, middle, "start", ha="center", va="center", color="#1c5d55")
        axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        axes.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
        axes.set_xlabel("x")
        axes.set_ylabel("y", rotation=0, labelpad=10)
        axes.spines[:].set_visible(False)
        low, high = helicopter.reward_low, helicopter.reward_high
        ticks = sorted({low, min(max(0.0, low), high), high})
        bar = figure.colorbar(colours, cax=figure.add_axes((0.84, 0.22, 0.03, 0.73)), ticks=ticks)
        bar.set_label("reward of leaving the box")
        bar.outline.set_visible(False)
        if len(trajectories):
            _add_legend(figure)
    else:
        axes.set_axis_off()
    return figure


@own_settings()
def render_rgb(
    helicopter: Helicopter, trajectories: Sequence[NDArray[np.floating]], n_pixels: int = 400
) -> NDArray[np.uint8]:
    """Return the picture as an array of shape (n_pixels, n_pixels, 3)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = helicopter_figure(helicopter, trajectories, side=n_pixels / 100, has_scale=False)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    picture: NDArray[np.uint8] = np.array(canvas.buffer_rgba())[..., :3]
    return picture


def _draw_rewards(axes: Any, helicopter: Helicopter) -> Any:
    """Colour the frame, and return the scale of colours."""
    from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm

    edge = np.linspace(-_FRAME, 1 + _FRAME, 400)
    x, y = np.meshgrid(edge, edge)
    reward = helicopter.exit_reward(np.stack((x, y), axis=-1))
    low, high = helicopter.reward_low, helicopter.reward_high
    # White at a reward of nothing; blue is a loss, red a gain, readable without seeing green.
    norm = TwoSlopeNorm(0.0, min(low, -1e-6), max(high, 1e-6))
    shades = LinearSegmentedColormap.from_list(
        "reward",
        [(0, "#9db8dd"), (0.5, "#ffffff"), (0.62, "#fdc46b"), (0.8, "#e4572e"), (1, "#8c1c13")],
    )
    extent = (-_FRAME, 1 + _FRAME, -_FRAME, 1 + _FRAME)
    return axes.imshow(reward, origin="lower", extent=extent, cmap=shades, norm=norm, zorder=0)


def _add_legend(figure: Any) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    ring: dict[str, Any] = {
        "markerfacecolor": "#f4f7fc",
        "markeredgecolor": "#111111",
        "linestyle": "none",
    }
    handles = [
        Patch(facecolor=_START, label="start region"),
        Line2D([], [], color=_FLIGHT, marker="o", markersize=3, label="a flight, from its dot on"),
        Line2D([], [], marker="o", markersize=8, label="left the box", **ring),
        Line2D([], [], marker="x", color="#111111", linestyle="none", label="flew too fast"),
    ]
    figure.legend(handles=handles, loc="lower center", ncols=2, fontsize="small", frameon=False)


def _draw_flight(
    axes: Any, helicopter: Helicopter, path: NDArray[np.floating], colours: Any
) -> None:
    axes.plot(path[:, 0], path[:, 1], color=_FLIGHT, linewidth=1, alpha=0.8, zorder=4)
    axes.plot(*path[0, :2], marker="o", markersize=3, color=_FLIGHT, zorder=5)
    position, velocity = path[-1, :2], path[-1, 2:]
    if (abs(velocity) >= helicopter.max_speed).any():
        axes.plot(*position, marker="x", markersize=6, color="#111111", zorder=6)
    elif (abs(position - 0.5) >= 0.5).any():
        fill = colours.cmap(colours.norm(helicopter.exit_reward(position)))
        axes.plot(
            *position, marker="o", markersize=8, color=fill, markeredgecolor="#111111", zorder=6
        )
