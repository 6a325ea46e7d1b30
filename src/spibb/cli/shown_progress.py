"""A bar that tells how much of something long is done, at what rate, and the time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from spibb.cli.printing import console
from spibb.data.chunked_reader import Progress as Told

# Seconds after which somebody wonders; and those between lines where there is no terminal.
_LONG, _BETWEEN_LINES = 1.0, 10.0


@contextmanager
def shown_progress(what: str, unit: str) -> Iterator[Told]:
    """Show a bar on a terminal, and lines elsewhere, if it takes long.

    Args:
        what: What is done, as "Counting".
        unit: What is counted, as "rows".
    """
    begin, bar, last_line = time.monotonic(), _bar(), 0.0
    task = bar.add_task(what, total=1.0, rate="")

    def tell(n: int, share: float) -> None:
        nonlocal last_line
        seconds = time.monotonic() - begin
        if seconds < _LONG:
            return
        rate = f"{n:,} {unit}, {n / seconds:,.{0 if n > 100 else 2}f} a second"
        if console.is_terminal:
            bar.start()
            bar.update(task, completed=share, rate=rate)
        elif seconds - last_line > _BETWEEN_LINES:
            last_line, left = seconds, seconds * (1.0 - share) / max(share, 1e-9)
            print(f"{what}: {rate}, {left:.0f} s left", file=sys.stderr, flush=True)

    try:
        yield tell
    finally:
        if bar.live.is_started:  # else it would print an empty line
            bar.stop()


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False), BarColumn(),
        TextColumn("{task.fields[rate]}"), TimeRemainingColumn(), console=console, transient=True,
    )  # fmt: skip
