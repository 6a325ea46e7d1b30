"""Windows of rows from all of a large log, for tests of what follows what."""

from __future__ import annotations

import numpy as np

from spibb.data.log import Log

# Rows that are looked at, in windows of so many; more would make a test slower than reading.
_ROWS, _WINDOW = 200_000, 2_000


def windows(log: Log) -> tuple[Log, str]:
    """Return a log of bearable size: windows of rows in a row, chosen evenly."""
    if len(log) <= _ROWS or log.episode is None:
        return log, ""
    starts = np.linspace(0, len(log) - _WINDOW, _ROWS // _WINDOW).astype(np.int64)
    rows = np.unique(starts[:, None] + np.arange(_WINDOW))
    # Pieces of one episode that do not meet must not follow each other.
    piece = np.cumsum(
        np.append(True, np.diff(rows) != 1) | np.append(True, np.diff(log.episode[rows]) != 0)
    )
    columns = {
        name: getattr(log, name)[rows]
        for name in ("state", "action", "reward", "next_state", "terminated", "truncated")
    }
    step = rows if log.given_step is None else log.given_step[rows]
    part = Log(**columns, episode=piece, step=step, n_states=log.n_states, n_actions=log.n_actions)
    return part, f"on {len(rows):,} rows, windows of {_WINDOW:,} from all of the log"
