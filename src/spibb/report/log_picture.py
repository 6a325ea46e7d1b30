"""The picture of a log on a page: how often pairs were seen, how long episodes are, and the fit.

Drawn here, in the page's own colours: a library that draws everything takes longer to be loaded
than a log of a million rows to be read. `spibb.report.inspection.write_picture` uses one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from spibb.inspection.inspect import Inspection
from spibb.report.drawings import Scale
from spibb.words import number, percent

_WIDTH, _HEIGHT = 300.0, 230.0
# Where the axes are: room on the left for numbers, below for numbers and a title.
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 292.0, 12.0, 184.0
_MOST_BINS, _MOST_STATES, _MOST_TICKS = 30, 2_000, 5


def log_picture(found: Inspection) -> str:
    """Draw what there is to draw of a log, side by side, as SVG."""
    panels = [_coverage(found)]
    panels += [] if found.lengths is None else [_lengths(found.lengths)]
    panels += [] if found.fit is None else [_fit(found)]
    width = _WIDTH * len(panels)
    parts = [
        f'<g transform="translate({_WIDTH * k:.0f} 0)">{panel}</g>'
        for k, panel in enumerate(panels)
    ]
    return (
        f'<svg class="log" width="{width:.0f}" viewBox="0 0 {width:.0f} {_HEIGHT:.0f}">'
        f"{''.join(parts)}</svg>"
    )


def _coverage(found: Inspection) -> str:
    pairs = np.array([part["pairs"] for part in found.coverage], dtype=np.float64)
    seen = [str(part["seen"]) for part in found.coverage]
    shares = {
        "rows": pairs / max(1.0, float(pairs.sum())),
        "base": np.array([part["share_of_visits"] for part in found.coverage]),
    }
    up = _Upright(max(float(share.max()) for share in shares.values()))
    step = (_RIGHT - _LEFT) / len(seen)
    bars = [
        up.bar(_LEFT + step * (place + (0.1 if kind == "rows" else 0.5)), 0.4 * step, value, kind)
        for kind, share in shares.items()
        for place, value in enumerate(share.tolist())
    ]
    names = [_below(_LEFT + step * (place + 0.5), name) for place, name in enumerate(seen)]
    key = "".join(
        f'<rect class="{kind}" x="{_LEFT + 8:.0f}" y="{_TOP + 14 * k:.0f}" width="12" height="8"/>'
        f'<text x="{_LEFT + 25:.0f}" y="{_TOP + 14 * k + 8:.0f}">{escape(name)}</text>'
        for k, (kind, name) in enumerate((("rows", "pairs"), ("base", found.visits_of)))
    )
    marks = [*bars, *names, up.ticks(percent), key, _title("times that a pair was seen")]
    return "".join(marks)


def _lengths(lengths: NDArray[np.int64]) -> str:
    least, most = int(lengths.min()), int(lengths.max())
    n, edges = np.histogram(lengths, bins=min(_MOST_BINS, max(1, most - least + 1)))
    across, up = (
        Scale(float(edges[0]), float(edges[-1]), _RIGHT - _LEFT, 0.0),
        _Upright(float(n.max())),
    )
    places = [_LEFT + across.at(float(edge)) for edge in edges]
    bars = [
        up.bar(left, right - left, float(value), "rows")
        for left, right, value in zip(places[:-1], places[1:], n.tolist(), strict=True)
    ]
    ticks = [tick for tick in across.ticks() if tick == round(tick)]
    names = [_below(_LEFT + across.at(tick), number(tick)) for tick in _few(ticks)]
    title = _title("rows of an episode")
    return "".join([*bars, *names, up.ticks(number), title, _aside("episodes")])


def _fit(found: Inspection) -> str:
    """Draw, for each state, its rows and how far the baseline is from what was done there."""
    fit, n = found.fit, found.n_sa.sum(axis=1)
    assert fit is not None, "there is a baseline"
    n_met = int((n > 0).sum())
    met = np.argsort(-n, kind="stable")[: min(_MOST_STATES, n_met)]
    off = fit.by_state[met]
    powers = np.log10(n[met])
    low, high = (float(powers.min()), float(powers.max())) if n_met else (0.0, 0.0)
    room = 0.05 * (high - low or 1.0)
    across = Scale(low - room, high + room, _RIGHT - _LEFT, 0.0)
    up = _Upright(1.0, min(-0.1, float(off.min(initial=0.0)) - 0.05))
    dots = [
        f'<circle class="base" cx="{_LEFT + across.at(x):.1f}" cy="{up.at(y):.1f}" r="2"/>'
        for x, y in zip(powers.tolist(), off.tolist(), strict=True)
    ]
    decades = [float(k) for k in range(math.ceil(low), math.floor(high) + 1)]
    marked = _few(decades) if len(decades) > 1 else sorted({low, high})
    names = [_below(_LEFT + across.at(power), number(10.0**power)) for power in marked]
    zero = f'<path class="zero" d="M{_LEFT} {up.at(0.0):.1f}H{_RIGHT}"/>'
    left_out = f" ({len(met):,} of {n_met:,} drawn)" if len(met) < n_met else ""
    title = _title(f"rows of a state{left_out}")
    aside = _aside("baseline off by, beyond chance")
    return "".join([zero, *dots, *names, up.ticks(number), title, aside])


class _Upright:
    """Numbers from below, 0 unless one is given, to above."""

    def __init__(self, high: float, low: float = 0.0) -> None:
        self._scale = Scale(low, high if high > low else low + 1.0, _BOTTOM - _TOP, 0.0)

    def at(self, value: float) -> float:
        return _BOTTOM - self._scale.at(value)

    def bar(self, left: float, width: float, value: float, kind: str) -> str:
        top = self.at(value)
        return (
            f'<rect class="{kind}" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" '
            f'height="{_BOTTOM - top:.1f}"/>'
        )

    def ticks(self, told: Callable[[float], str]) -> str:
        lines = f'<path class="axis" d="M{_LEFT} {_TOP}V{_BOTTOM}H{_RIGHT}"/>'
        return lines + "".join(
            f'<line class="axis" x1="{_LEFT - 4}" x2="{_LEFT}" y1="{self.at(tick):.1f}" '
            f'y2="{self.at(tick):.1f}"/><text x="{_LEFT - 7}" y="{self.at(tick) + 4:.1f}" '
            f'text-anchor="end">{told(tick)}</text>'
            for tick in _few(self._scale.ticks())
        )


def _few(ticks: Sequence[float]) -> Sequence[float]:
    return ticks[:: -(-len(ticks) // _MOST_TICKS) or 1]


def _below(x: float, name: str) -> str:
    return f'<text x="{x:.1f}" y="{_BOTTOM + 16}" text-anchor="middle">{escape(name)}</text>'


def _title(words: str) -> str:
    x, y = (_LEFT + _RIGHT) / 2, _BOTTOM + 36
    return f'<text x="{x}" y="{y}" text-anchor="middle">{escape(words)}</text>'


def _aside(words: str) -> str:
    """Write along the axis that goes up."""
    turned = f'transform="translate(11 {(_TOP + _BOTTOM) / 2}) rotate(-90)"'
    return f'<text {turned} text-anchor="middle">{escape(words)}</text>'
