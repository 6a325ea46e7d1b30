"""A bar that tells how many rows were read, at what rate, and the time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from spibb.cli.printing import console
from spibb.data.row_stream import Progress as Told

# Seconds after which somebody wonders; and after which lines of a file are not too many.
_LONG, _BETWEEN_LINES = 1.0, 10.0


@contextmanager
def row_progress(what: str) -> Iterator[Told]:
    """Show a bar on a terminal, and lines elsewhere, if it takes more than a second.

    Args:
        what: What is done, as "Counting".
    """
    begin, bar, last_line = time.monotonic(), _bar(), 0.0
    task = bar.add_task(what, total=1.0, rate="")

    def tell(n_rows: int, share: float) -> None:
        nonlocal last_line
        seconds = time.monotonic() - begin
        if seconds < _LONG:
            return
        rate = f"{n_rows:,} rows, {n_rows / seconds / 1e6:.2f} million a second"
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
