"""Pictures of a report, as SVG inside the page: colours are the page's own, light or dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from spibb.words import number

_WIDTH, _HEIGHT, _FOOT, _SIDE = 640.0, 150.0, 34.0, 26.0
# Columns of dots, and how many pixels a dot may be wide.
_N_COLUMNS, _WIDEST = 44, 11.0
_N_TICKS = 7
SPAN = 260.0


def scenarios_picture(gains: Sequence[float]) -> str:
    """Draw a dot for each simulated scenario at its gain; those that lose are crosses.

    Dots are heaped in columns that begin at 0, so that no column holds both.
    """
    scale = Scale.of([*gains, 0.0], _WIDTH, _SIDE)
    width = (scale.high - scale.low) / _N_COLUMNS
    heaps: dict[int, int] = {}
    marks = []
    size = min(_WIDEST, (_WIDTH - 2 * _SIDE) / _N_COLUMNS)
    columns = [math.floor(gain / width) for gain in gains]
    tallest = max(columns.count(column) for column in set(columns))
    step = min(size, (_HEIGHT - 14.0) / tallest)
    for gain, column in zip(gains, columns, strict=True):
        heaps[column] = heaps.get(column, 0) + 1
        x, y = scale.at((column + 0.5) * width), _HEIGHT - (heaps[column] - 0.5) * step
        r = 0.42 * min(step, size)
        if gain < 0.0:
            marks.append(
                f'<path class="loses" d="M{x - r:.1f} {y - r:.1f}l{2 * r:.1f} {2 * r:.1f}'
                f'm0 {-2 * r:.1f}l{-2 * r:.1f} {2 * r:.1f}"/>'
            )
        else:
            marks.append(f'<circle class="gains" cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}"/>')
    lost, zero = sum(gain < 0.0 for gain in gains), scale.at(0.0)
    title = f"{lost} of {len(gains)} simulated scenarios lose, {len(gains) - lost} do not"
    side = "end" if zero > _WIDTH / 2 else "start"
    shift = -6.0 if side == "end" else 6.0
    return (
        f'<svg class="scenarios" role="img" aria-label="{escape(title)}" '
        f'viewBox="0 0 {_WIDTH:.0f} {_HEIGHT + _FOOT:.0f}">'
        f'<line class="axis" x1="0" x2="{_WIDTH:.0f}" y1="{_HEIGHT}" y2="{_HEIGHT}"/>'
        f"{''.join(marks)}"
        f'<line class="zero" x1="{zero:.1f}" x2="{zero:.1f}" y1="0" y2="{_HEIGHT + 5}"/>'
        f'<text class="zero" x="{zero + shift:.1f}" y="10" text-anchor="{side}">as today</text>'
        f"{_ticks(scale, _HEIGHT)}</svg>"
    )


class Scale:
    """Numbers from left to right."""

    def __init__(self, low: float, high: float, width: float, side: float) -> None:
        self.low, self.high, self.width, self.side = low, high, width, side

    @classmethod
    def of(cls, values: Sequence[float], width: float = SPAN, side: float = 4.0) -> Scale:
        """Return one that holds all values that are finite."""
        known = [value for value in values if math.isfinite(value)] or [0.0]
        low, high = min(known), max(known)
        room = high - low or abs(high) or 1.0
        return cls(low - 0.02 * room, high + 0.02 * room, width, side)

    def at(self, value: float) -> float:
        """Return where a number stands; one that is not finite at its end."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.side + share * (self.width - 2 * self.side)

    def ticks(self) -> list[float]:
        """Return a few round numbers."""
        rough = (self.high - self.low) / _N_TICKS
        size = 10.0 ** math.floor(math.log10(rough))
        step = size * next(k for k in (1, 2, 5, 10) if k * size >= rough * 0.999)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [k * step for k in range(first, last + 1)]


def _ticks(scale: Scale, y: float) -> str:
    return "".join(
        f'<line class="axis" x1="{scale.at(value):.1f}" x2="{scale.at(value):.1f}" y1="{y}" '
        f'y2="{y + 5}"/><text x="{scale.at(value):.1f}" y="{y + 19}" text-anchor="middle">'
        f"{number(value, '+')}</text>"
        for value in scale.ticks()
    )


def span_picture(
    scale: Scale,
    low: float,
    mid: float,
    high: float,
    at: float = 0.0,
    half: float | None = None,
) -> str:
    """Draw an interval with its middle, beside a line that stands for nothing gained.

    The numbers stand in the table around it, so it is silent for those who listen.

    Args:
        scale: Where numbers stand.
        low: Lower end.
        mid: Middle.
        high: Upper end.
        at: Nothing gained.
        half: Where a second, dashed line stands; None: nowhere.
    """
    ends = f'x1="{scale.at(low):.1f}" x2="{scale.at(high):.1f}"'
    mark = "loses" if mid < at else "gains"
    lines = [_upright(scale, at, "zero")]
    lines += [] if half is None else [_upright(scale, half, "half")]
    return (
        f'<svg class="span" aria-hidden="true" viewBox="0 0 {scale.width:.0f} 16">'
        f"{''.join(lines)}"
        f'<line class="{mark}" {ends} y1="8" y2="8"/>'
        f'<circle class="{mark}" cx="{scale.at(mid):.1f}" cy="8" r="4"/></svg>'
    )


def _upright(scale: Scale, value: float, kind: str) -> str:
    x = f"{scale.at(value):.1f}"
    return f'<line class="{kind}" x1="{x}" x2="{x}" y1="0" y2="16"/>'


def axis_picture(scale: Scale, sign: str = "+") -> str:
    """Draw the numbers above a column of intervals."""
    marks = "".join(
        f'<text x="{scale.at(value):.1f}" y="11" text-anchor="middle">{number(value, sign)}</text>'
        for value in scale.ticks()
        if scale.side + 12 <= scale.at(value) <= scale.width - scale.side - 12
    )
    return f'<svg class="span" aria-hidden="true" viewBox="0 0 {scale.width:.0f} 14">{marks}</svg>'
