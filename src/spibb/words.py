"""Write numbers, shares and intervals as people do."""

from __future__ import annotations

import math
from collections.abc import Iterable


def number(value: float, sign: str = "", figures: int = 3) -> str:
    """Return a number with a few significant figures, and without an exponent where one can.

    Args:
        value: The number.
        sign: "+" to write it before positive ones too.
        figures: How many.

    Example:
        >>> number(1.9687), number(12345.6), number(-0.04), number(2.0, "+"), number(3e-9)
        ('1.97', '12,300', '-0.04', '+2', '3e-09')
    """
    if value == 0.0 or not math.isfinite(value):
        return f"{value + 0.0:g}"
    place = math.floor(math.log10(abs(value)))
    if not -4 <= place < 9:
        return f"{value:{sign}.{figures}g}"
    rounded = round(value, figures - 1 - place)
    text = f"{rounded:{sign},.{max(figures - 1 - place, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def interval(ends: tuple[float, float], sign: str = "") -> str:
    """Return an interval in words."""
    return f"{number(ends[0], sign)} to {number(ends[1], sign)}"


def percent(share: float) -> str:
    """Return a share in per cent; small ones are not made nothing.

    Example:
        >>> percent(0.417), percent(0.004), percent(0.0), percent(0.999), percent(0.0004)
        ('42 %', '0.4 %', '0 %', '99.9 %', '<0.1 %')
    """
    value = 100.0 * share
    if 0.0 < value < 0.05:
        return "<0.1 %"
    if 0.0 < value < 10.0 or 99.0 < value < 100.0:
        return f"{value:.1f} %".replace(".0 %", " %").replace("100 %", ">99.9 %")
    return f"{value:.0f} %"


def several(n: int, one: str, many: str | None = None) -> str:
    """Return a number of things.

    Example:
        >>> several(1, "state"), several(1200, "state")
        ('1 state', '1,200 states')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def said_once(told: Iterable[tuple[str, str]]) -> list[str]:
    """Say what several share once: the same words after different names."""
    names: dict[str, list[str]] = {}
    for name, text in told:
        names.setdefault(text, []).append(name)
    return [f"{', '.join(who)}: {text}" for text, who in names.items()]
