"""Files in which users say what no log shows: where episodes begin, what may follow or be done."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from spibb.data.log_columns import check_column
from spibb.errors import DataError
from spibb.tables.columns import read_numbers, require_columns, without_unnamed
from spibb.tables.data_frames import FRAME, arrow_table, as_text
from spibb.tables.databases import read_query
from spibb.tables.label_columns import encode
from spibb.tables.reading import read_table


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


def read_states(path: str | Path) -> list[str]:
    """Read a table ``state``: states, each once."""
    table = read_table(path, what="list of states", names=[["state"]])
    require_columns(table.column_names, ("state",), path, can_rename=False)
    names = _names(table["state"], "state", path)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{path} has the state {twice!r} twice", expected="each state once")
    return names


def read_allowed(
    path: Any,
    column: str | None = None,
    columns: Mapping[str, str] | None = None,
    *,
    query: str | None = None,
) -> list[tuple[Any, ...]]:
    """Read which actions are allowed in which states, as `spibb.Limits` takes it.

    A file is a table ``state, action`` of what is allowed, or ``state, action, allowed`` of 0 and
    1: without the third column nothing else is allowed, with it everything that is not listed.

    Args:
        path: The file; or, with ``column``, the log: its files, database or table.
        column: A column of the log that names the actions that are allowed in the row's state,
            with | between them.
        columns: Where to find a column of the log that is called differently.
        query: The SELECT that finds the rows of a log in a database.
    """
    if column is not None:
        return _allowed_in_log(path, column, (columns or {}).get("state", "state"), query)
    table = read_table(path, what="mask", names=[["state"], ["action"]], numbers=("allowed",))
    require_columns(table.column_names, ("state", "action"), path, can_rename=False)
    named: list[Any] = [_names(table[name], name, path) for name in ("state", "action")]
    pairs = list(zip(*named, strict=True))
    if len(set(pairs)) < len(pairs):
        twice = next(pair for pair in pairs if pairs.count(pair) > 1)
        raise DataError(f"{path} has {', '.join(twice)} twice", expected="each pair once")
    if "allowed" not in table.column_names:
        return pairs
    flags = read_numbers(table["allowed"], "allowed", path)
    bad = ~np.isin(flags, (0.0, 1.0))
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"allowed is {flags[row]:g}", where=f"row {row + 1} of {path}", expected="0 or 1"
        )
    return [(*pair, flag == 1.0) for pair, flag in zip(pairs, flags.tolist(), strict=True)]


def _allowed_in_log(log: Any, column: str, state: str, query: str | None) -> list[tuple[str, str]]:
    import pyarrow as pa

    path = log if isinstance(log, str | Path) else FRAME
    if path is FRAME:
        table = arrow_table(log)
    elif query is not None:
        table = read_query(log, query, what="log", wanted={state, column}, whole="", ordered="")
    else:
        table = read_table(log, what="log", names=[[state]], texts=[column])
    table = without_unnamed(table, path)
    if column == state:
        raise DataError(
            f"{column!r} is the column of the states", expected="one of what is allowed"
        )
    for name, use in ((state, "of states"), (column, "of what is allowed")):
        check_column(table, name, path, use, "--allowed-column")
    if pa.types.is_nested(table.schema.field(column).type):
        raise DataError(
            f"the column {column!r} of {path} holds {table.schema.field(column).type}",
            expected="names of actions, with | between them",
        )
    table = as_text(table.select([state, column]), (state, column), path)
    different = table.group_by([state, column]).aggregate([])
    found: dict[str, tuple[str, ...]] = {}
    texts = different[column].to_pylist()
    for name, text in zip(_names(different[state], "state", path), texts, strict=True):
        parts = () if text is None else str(text).split("|")
        actions = tuple(sorted({part.strip() for part in parts} - {""}))
        if found.setdefault(name, actions) != actions:
            told = [" | ".join(one) or "nothing" for one in (found[name], actions)]
            raise DataError(
                f"the column {column!r} of {path} allows {told[0]} and {told[1]} in one state",
                where=f"state {name}",
                expected="the same in every row of a state",
                hint="record in the state what decides, or give a table of what is allowed "
                "(--allowed)",
            )
    return [(name, action) for name, actions in found.items() for action in actions]


def _names(column: Any, name: str, path: str | Path) -> list[str]:
    codes, labels = encode(column, name, path)
    return [str(code) if labels is None else labels[code] for code in codes.tolist()]
