"""Files in which users declare what a log cannot show: where episodes begin, what may follow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from spibb.errors import DataError
from spibb.table_files import encode, read_numbers, read_table, require_columns


def read_start(path: str | Path) -> dict[str, float]:
    """Read a table ``state, probability``: the distribution of the first state."""
    table = read_table(path, what="start distribution", names=[["state"]], numbers=("probability",))
    require_columns(table.column_names, ("state", "probability"), path, can_rename=False)
    names = _names(table["state"], "state", path)
    numbers = read_numbers(table["probability"], "probability", path)
    bad = ~(numbers >= 0.0)
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"probability {numbers[row]}",
            where=f"row {row + 1} of {path}",
            expected="numbers between 0 and 1",
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{path} has the state {twice!r} twice", expected="each state once")
    return dict(zip(names, numbers.tolist(), strict=True))


def read_successors(path: str | Path) -> list[tuple[str, ...]]:
    """Read a table ``state, next_state``, or ``state, action, next_state``: what may follow."""
    table = read_table(path, what="list of successors", names=[["state", "next_state"], ["action"]])
    require_columns(table.column_names, ("state", "next_state"), path, can_rename=False)
    columns = [name for name in ("state", "action", "next_state") if name in table.column_names]
    return list(zip(*(_names(table[name], name, path) for name in columns), strict=True))


def _names(column: Any, name: str, path: str | Path) -> list[str]:
    codes, labels = encode(column, name, path)
    return [str(code) if labels is None else labels[code] for code in codes.tolist()]
