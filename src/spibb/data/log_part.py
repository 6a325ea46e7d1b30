"""Some episodes of a log, whose columns are copied only when they are looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.data.episodes import count_late_starts
from spibb.data.log import Log
from spibb.data.streaming_counts import CHUNK, RowChunk, row_chunk

_COLUMNS = (
    "state", "action", "reward", "next_state", "terminated", "truncated", "episode", "step",
)  # fmt: skip


def holds_whole_episodes(log: Log, rows: NDArray[np.bool_]) -> bool:
    """Whether of every episode all rows are marked or none."""
    is_first = log.is_first
    return is_first is not None and not ((rows[1:] != rows[:-1]) & ~is_first[1:]).any()


class LogPart(Log):
    """Whole episodes of a log.

    Counts of halves, which judge each other, are made without a copy of the rows.
    """

    _whole: Log
    _rows: NDArray[np.bool_]

    def __new__(cls, *columns: Any, **more: Any) -> Any:
        """Make a log of its own: a part with other columns (`dataclasses.replace`) is none."""
        return Log(*columns, **more)

    def __reduce__(self) -> tuple[Any, ...]:
        return LogPart.of, (self._whole, self._rows)

    @classmethod
    def of(cls, log: Log, rows: NDArray[np.bool_]) -> Log:
        """Return the episodes whose rows are marked."""
        part = object.__new__(cls)
        kept = {one.name: getattr(log, one.name) for one in fields(log) if one.name not in _COLUMNS}
        for name in ("group", "cost", "feature_values"):
            if kept[name] is not None:
                kept[name] = kept[name][rows]
        if log.acted is not None:
            kept["acted"] = log.acted.take(rows)
        # Columns are not there until `__getattr__` is asked for them.
        part.__dict__.update(_whole=log, _rows=rows, **kept)
        return part

    def __getattr__(self, name: str) -> Any:
        if name not in _COLUMNS or "_whole" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        column = getattr(self._whole, name)
        found = self.__dict__[name] = None if column is None else column[self._rows]
        return found

    def __len__(self) -> int:
        return int(np.count_nonzero(self._rows))

    @property
    def first_states(self) -> NDArray[np.int64]:
        """The states in which episodes begin."""
        return self._whole.state[self._begins]

    @property
    def given_step(self) -> NDArray[np.int64] | None:
        """Steps as they were given; None where they are places within episodes."""
        return None if self._whole.given_step is None else self.step

    @cached_property
    def is_gap(self) -> NDArray[np.bool_]:
        """Which rows are followed by missing steps of their episode."""
        return self._whole.is_gap[self._rows]

    @cached_property
    def n_gaps(self) -> int:
        """How many times steps of an episode are missing, in it or before its first row."""
        whole, n = self._whole, int(np.count_nonzero(self._whole.is_gap & self._rows))
        step = whole.given_step
        return n if step is None else n + count_late_starts(self._begins, step)

    @property
    def _begins(self) -> NDArray[np.bool_]:
        assert self._whole.is_first is not None
        return self._whole.is_first & self._rows

    def chunks(self, names: Sequence[str]) -> Iterator[RowChunk]:
        """Return some columns, some rows at a time."""
        for first in range(0, len(self._rows), CHUNK):
            here = slice(first, first + CHUNK)
            rows = self._rows[here]
            yield row_chunk(**{name: getattr(self._whole, name)[here][rows] for name in names})
