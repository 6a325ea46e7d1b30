"""What would not fit in memory is said before it is asked for."""

from __future__ import annotations

from pathlib import Path

from spibb.errors import SpibbError

# Below this nobody is asked: reading how much is free takes longer than taking it.
_SMALL = 2**28
_MEMINFO = Path("/proc/meminfo")


class TooLargeError(SpibbError, MemoryError):
    """Something would need more memory than there is."""


def available_bytes() -> int | None:
    """Return how much memory may be taken without swapping; None where nobody says."""
    try:
        lines = _MEMINFO.read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) * 1024 if found else None


def check_fits(n_bytes: int, what: str, hint: str = "group states, or use more memory") -> None:
    """Refuse what needs more memory than is free.

    Args:
        n_bytes: How much it needs.
        what: What needs it, in words.
        hint: What to do about it.
    """
    if n_bytes < _SMALL:
        return
    free = available_bytes()
    if free is not None and n_bytes > free:
        raise TooLargeError(
            f"{what} need {n_bytes / 2**30:,.1f} GiB",
            expected=f"at most the {free / 2**30:,.1f} GiB that are free",
            hint=hint,
        )
