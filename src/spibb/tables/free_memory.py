"""Whether a table fits into the memory that is free."""

from __future__ import annotations

import re
from pathlib import Path

from spibb.errors import DataError

# What a row of a log takes while it is read, sorted and counted.
BYTES_A_ROW = 120


def check_memory(
    n_rows: int,
    what: str,
    n_bytes: int = BYTES_A_ROW,
    hint: str = "use a larger machine, or a part of the rows",
) -> None:
    """Refuse a table that cannot fit into the memory that is free, where the system tells it.

    Args:
        n_rows: Its rows.
        what: What it is, for the message.
        n_bytes: What each of them takes.
        hint: What to do about it.
    """
    free = _free_memory()
    needed = n_rows * n_bytes
    if free is not None and needed > free:
        raise DataError(
            f"{what} has {n_rows:,} rows, which take about {needed / 1e9:.1f} GB",
            expected=f"what fits into the {free / 1e9:.1f} GB that are free",
            hint=hint,
        )


def _free_memory() -> int | None:
    """Return the bytes that can be had without swapping; None where nobody says."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except (OSError, ValueError):
        return None
    found = re.search(r"MemAvailable:\s+(\d+) kB", text)
    return None if found is None else 1024 * int(found[1])
