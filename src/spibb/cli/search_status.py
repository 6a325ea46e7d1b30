"""A line that says where a long search stands: its steps, how far values are off, time left."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from spibb.cli.printing import console
from spibb.progress import Progress, watched

# Seconds before anything but the title is said; and those between lines where is no terminal.
_PATIENCE, _BETWEEN_LINES = 2.0, 10.0


@contextmanager
def search_status(title: str) -> Iterator[None]:
    """Show a title while the block runs, and after two seconds how its searches get on."""
    begun, seen = time.monotonic(), _Seen()
    last_line = begun
    with console.status(title) as status:

        def show(progress: Progress) -> None:
            nonlocal last_line
            seen.add(progress)
            if not console.is_terminal and progress.moment - last_line >= _BETWEEN_LINES:
                last_line = progress.moment
                print(f"{title} {seen.words}", file=sys.stderr, flush=True)
            elif progress.moment - begun >= _PATIENCE:
                status.update(f"{title} {seen.words}")

        with watched(show):
            yield


class _Seen:
    """What a search has told so far, and what follows from it."""

    def __init__(self) -> None:
        self._step = 0
        self._first: Progress | None = None
        self._last: Progress | None = None

    def add(self, progress: Progress) -> None:
        self._step = progress.step or self._step
        if math.isnan(progress.error) and math.isnan(progress.share):
            return
        # A new system, or a search that begins again, is farther from its end than the last.
        before = self._last
        if (
            before is None
            or before.what != progress.what
            or progress.error > before.error
            or progress.share < before.share
        ):
            self._first = progress
        self._last = progress

    @property
    def words(self) -> str:
        """The state of affairs in a few words."""
        parts = [f"step {self._step}"] if self._step else []
        first, last = self._first, self._last
        if first is not None and last is not None:
            parts.append(f"{last.what}, {_distance(last)}")
            left = seconds_left(first, last)
            if left is not None:
                parts.append(f"about {left:.0f} s of it left")
        return "(" + "; ".join(parts) + ")" if parts else ""


def _distance(last: Progress) -> str:
    """Return how far something is."""
    if not math.isnan(last.share):
        return f"{100.0 * last.share:.0f} %"
    aim = "" if math.isnan(last.goal) else f" of at most {last.goal:.0e}"
    return f"error {last.error:.1e}{aim}"


def seconds_left(first: Progress, last: Progress) -> float | None:
    """Return when an error will have fallen to its goal, or all be done; None: unknown.

    Example:
        >>> start = Progress("values", error=1.0, goal=1e-6, moment=0.0)
        >>> round(seconds_left(start, Progress("values", error=1e-2, goal=1e-6, moment=4.0)), 6)
        8.0
    """
    if last.share > first.share:
        rate = (last.share - first.share) / (last.moment - first.moment)
        return (1.0 - last.share) / rate
    is_falling = last.moment > first.moment and 0.0 < last.error < first.error
    if not (is_falling and last.goal > 0.0):
        return None
    digits = math.log(first.error / last.error) / (last.moment - first.moment)
    return max(0.0, math.log(last.error / last.goal) / digits)
