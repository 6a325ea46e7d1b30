"""Logs in files and databases, with labels, renamed columns and missing ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spibb.data.behaviour_columns import with_acted
from spibb.data.chunked_reader import LogRows, Progress
from spibb.data.features import checked_feature_names, encode_features
from spibb.data.groups import encode_groups
from spibb.data.log import UNKNOWN, Log
from spibb.data.log_columns import (
    ACTED,
    FALSE,
    OF_AN_ACTION,
    OPTIONAL,
    REQUIRED,
    TRUE,
    check_column,
    named_columns,
)
from spibb.data.minari_sets import is_minari, refuse_beside_minari
from spibb.errors import MOST_WHOLE, DataError
from spibb.tables.columns import check_filled, read_numbers, without_unnamed
from spibb.tables.data_frames import as_text
from spibb.tables.databases import read_query
from spibb.tables.label_columns import check_size, encode, encode_together
from spibb.tables.reading import read_table
from spibb.tables.source import NotStreamedError

if TYPE_CHECKING:
    import pyarrow as pa

# Columns that share their names, and columns of texts.
_NAMES = (("state", "next_state"), ("action",), ("episode",), ("policy",))
_TEXTS = ("step", "terminated", "truncated")


def read_log(
    path: Any,
    columns: Mapping[str, str] | None = None,
    by: str | None = None,
    *,
    query: str | None = None,
    n_states: int | None = None,
    n_actions: int | None = None,
    costs: Sequence[str] = (),
    features: Sequence[str] = (),
    minimize: bool = False,
    progress: Progress | None = None,
) -> Log:
    """Read a log from files, a database or a table.

    Files are in CSV, JSON lines, Parquet or Arrow: one, a folder of them, or a glob. Columns
    ``state, action, reward`` and, if present, ``episode, step, next_state, terminated, truncated``,
    and the behaviour policy: ``propensity, target_probability, policy`` and ``propensity_ACTION``
    of every action. States and actions are integers or labels; those that occur are numbered in
    their order.

    Args:
        path: Where the log is; or the log as a pandas, polars or Arrow table; or
            ``"minari:NAME"`` for a data set of Minari.
        columns: Where to find a column that is called differently: ``{"state": "ward"}``.
        by: A column of groups that reports tell apart.
        query: The SELECT that finds the rows, where ``path`` is a file of DuckDB or SQLite.
        n_states: Number of states, where they are the integers from 0, whichever occur.
        n_actions: Number of actions, likewise.
        costs: Columns of costs, which limits may speak of.
        features: Raw columns beside the state, numbers or texts: policies are judged in finer
            states made of them, and do not depend on them.
        minimize: Whether the column of rewards holds costs, of which less is better. The log then
            has rewards that are these costs with their sign turned.
        progress: Told how many rows were read, and which share of all.
    """
    given: dict[str, Any] = {"n_states": n_states, "n_actions": n_actions}
    if not isinstance(path, str | Path):
        return Log.from_dataframe(
            path, columns, by, costs=costs, features=features, minimize=minimize, **given
        )
    if is_minari(path):
        asked = {"columns": columns, "by": by, "query": query, "costs": costs or None,
                 "features": features or None}  # fmt: skip
        refuse_beside_minari(path, **asked, **given)
        return Log.from_minari(path, minimize=minimize)
    if by is None and query is None and not costs and not features:
        with suppress(NotStreamedError):
            found, sizes, _ = streamed_columns(path, columns, progress, with_acted=True, **given)
            return Log.of_columns(
                found, **sizes, reward_column=_reward_column(columns), minimize=minimize
            )
    # All rows at once, to be read as what they are, or to say what is wrong with which.
    table = _table(path, columns, by, query, costs, checked_feature_names(features))
    return log_from_table(table, columns, path, by, costs, features, minimize, **given)


def streamed_columns(
    path: str | Path,
    columns: Mapping[str, str] | None,
    progress: Progress | None = None,
    n_states: int | None = None,
    n_actions: int | None = None,
    *,
    with_acted: bool = False,
) -> tuple[dict[str, Any], dict[str, Any], NDArray[Any] | None]:
    """Read a log chunk by chunk, so that nothing but its numbers is ever in memory.

    Returns:
        Columns, sizes and labels, as `Log.of_columns` takes them, and the names of episodes, where
        these are numbered anew.
    """
    rows = LogRows(path, columns)
    if with_acted and rows.says_who_acted:
        raise NotStreamedError("the behaviour policy is read with the whole table")
    found = rows.gathered(progress)
    to_state, n_states, state_labels = rows.states.decided(n_states)
    to_action, n_actions, action_labels = rows.actions.decided(n_actions)
    check_size(n_states, n_actions, path)
    for name, known in (("state", to_state), ("next_state", to_state), ("action", to_action)):
        if name in found:
            # The last place is that of -1, which stands for no state.
            np.append(known, UNKNOWN).take(found[name], out=found[name], mode="wrap")
    names = None
    if rows.episodes is not None:
        known = rows.episodes.identifiers()
        if known.dtype.kind != "i":
            names, known = np.unique(known, return_inverse=True)
        found["episode"] = known[found["episode"]]
    sizes = {"n_states": n_states, "n_actions": n_actions}
    return found, {**sizes, "state_labels": state_labels, "action_labels": action_labels}, names


def read_columns(
    path: str | Path, columns: Mapping[str, str] | None, query: str | None = None
) -> tuple[dict[str, Any], NDArray[Any] | None, bool]:
    """Read what a log says, for those who complete and count it themselves.

    Returns:
        What `Log.from_arrays` takes; the names of episodes, where these are numbered anew; and
        whether steps are counted, not times.
    """
    import pyarrow as pa

    table = _table(path, columns, query=query)
    given, ours = given_columns(table, columns, path), _ours(table, columns, path)
    names = None
    if "episode" in given and not _are_numbers(ours["episode"]):
        names = np.array(_known(ours["episode"]).cast(pa.string()).to_pylist())
    is_counted = "step" in given and pa.types.is_integer(_ordered(ours["step"], path).type)
    return with_acted(given, ours, path), names, is_counted


def _table(
    path: str | Path,
    columns: Mapping[str, str] | None,
    by: str | None = None,
    query: str | None = None,
    costs: Sequence[str] = (),
    features: Sequence[str] = (),
) -> pa.Table:
    columns = columns or {}

    def theirs(*known: str) -> list[str]:
        return [columns.get(name, name) for name in known]

    whole = columns.get("episode", "episode")
    texts = [*theirs(*_TEXTS), *([] if by is None else [by]), *features]

    def read(*more: str) -> pa.Table:
        if query is not None:
            wanted = {*theirs(*chain(*_NAMES), "reward", *ACTED), *costs, *texts, *more}
            return read_query(
                path, query, what="log", wanted=wanted, whole=whole, ordered=theirs("step")[0]
            )
        return read_table(
            path, what="log", names=[theirs(*group) for group in _NAMES],
            may_lack=theirs("next_state"), texts=texts,
            numbers=[*theirs("reward", *ACTED[:2]), *costs, *more], whole=whole,
            ordered=columns.get("step", "step"),
        )  # fmt: skip

    table = read()
    renamed = [column for name, column in columns.items() if name.startswith(OF_AN_ACTION)]
    # Columns are there by name, though they were not read: what they are called says what they are.
    every = [name for name in table.column_names if name.startswith(OF_AN_ACTION)]
    return read(*every, *renamed) if every or renamed else table


def log_from_table(
    table: pa.Table,
    columns: Mapping[str, str] | None,
    path: str | Path,
    by: str | None = None,
    costs: Sequence[str] = (),
    features: Sequence[str] = (),
    minimize: bool = False,
    **sizes: Any,
) -> Log:
    """Build a log from an Arrow table; sizes are those of :func:`read_log`."""
    groups = {} if by is None else encode_groups(without_unnamed(table, path), by, path)
    given = with_acted(
        given_columns(table, columns, path, **sizes), _ours(table, columns, path), path
    )
    told = {name: size for name, size in sizes.items() if size is not None}
    more: dict[str, Any] = {
        "cost": {name: _cost(table, name, path) for name in costs},
        "reward_column": _reward_column(columns),
        "minimize": minimize,
    }
    if not features:
        return Log.from_arrays(**{**given, **told}, **groups, **more)
    names, used = checked_feature_names(features), {*_used(table, columns), *costs}
    raw = encode_features(without_unnamed(table, path), names, path, used)
    log = Log.from_arrays(**{**given, **told}, **groups, **more, features=raw)
    if log.episode is None:
        raise DataError(
            f"features need to know which row follows which, and {path} has no column 'episode'",
            expected="a column 'episode', and 'step' where rows are not in order",
            hint="say --columns episode=COLUMN if it is called otherwise, or leave out --features",
        )
    return log


def _reward_column(columns: Mapping[str, str] | None) -> str:
    return (columns or {}).get("reward", "reward")


def _used(table: pa.Table, columns: Mapping[str, str] | None) -> set[str]:
    """Return the columns of a table, under their own names, that the log is made of."""
    columns = columns or {}
    ours = {columns.get(name, name) for name in (*REQUIRED, *OPTIONAL, *ACTED)}
    of_actions = {name for name in table.column_names if name.startswith(OF_AN_ACTION)}
    return {*ours, *columns.values(), *of_actions}


def _cost(table: pa.Table, name: str, path: str | Path) -> NDArray[np.float64]:
    check_column(table, name, path, "for a cost", "--cost")
    return _rewards(table[name], path, name)


def given_columns(
    table: pa.Table,
    columns: Mapping[str, str] | None,
    path: str | Path,
    n_states: int | None = None,
    n_actions: int | None = None,
) -> dict[str, Any]:
    """Return what a table says, as `Log.from_arrays` takes it."""
    table = _ours(table, columns, path)
    present = [name for name in OPTIONAL if name in table.column_names]
    places = {name: table[name] for name in ("state", "next_state") if name in table.column_names}
    codes, state_labels = encode_together(
        places, path, missing_allowed=("next_state",), are_indices=n_states is not None
    )
    action, action_labels = encode(
        table["action"], "action", path, are_indices=n_actions is not None
    )
    found: dict[str, Any] = dict(zip(places, codes, strict=True))
    for name in ("terminated", "truncated"):
        if name in present:
            found[name] = _flags(table[name], name, path)
    if "episode" in present:
        found["episode"] = _episodes(table["episode"], path)
        if "step" in present:
            found["step"] = _steps(table["step"], found["episode"], path)
    check_size(_size(codes, state_labels), _size([action], action_labels), path)
    reward = _rewards(table["reward"], path)
    labels = {"state_labels": state_labels, "action_labels": action_labels}
    return {**found, "action": action, "reward": reward, **labels}


def _ours(table: pa.Table, columns: Mapping[str, str] | None, path: str | Path) -> pa.Table:
    return as_text(named_columns(table, columns, path), (*REQUIRED, *OPTIONAL, *ACTED), path)


def _size(codes: list[NDArray[np.int64]], labels: tuple[str, ...] | None) -> int:
    if labels is not None:
        return len(labels)
    return 1 + max((int(code.max()) for code in codes if len(code)), default=0)


def _rewards(column: Any, path: str | Path, name: str = "reward") -> NDArray[np.float64]:
    values = read_numbers(column, name, path)
    bad = ~np.isfinite(values)
    if bad.any():
        raise DataError(
            f"the {name} is missing or not finite in {int(bad.sum())} rows",
            where=f"row {int(np.argmax(bad)) + 1} of {path}",
            expected="finite numbers",
            hint="correct those rows or leave them out",
        )
    return values


def _flags(column: Any, name: str, path: str | Path) -> NDArray[np.bool_]:
    """Read true or false, however it is written; an empty cell is false."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_boolean(column.type):
        return np.asarray(column.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.bool_)
    try:
        text = pc.utf8_lower(column.cast(pa.string()).fill_null("false"))
    except pa.ArrowException:
        raise DataError(
            f"column {name!r} of {path} holds values of type {column.type}",
            expected="true or false",
        ) from None
    is_true = pc.is_in(text, value_set=pa.array(TRUE))
    is_false = pc.is_in(text, value_set=pa.array(FALSE))
    known = pc.or_(is_true, is_false).to_numpy(zero_copy_only=False)
    if not known.all():
        row = int(np.argmin(known))
        raise DataError(
            f"column {name!r} holds {column[row].as_py()!r}",
            where=f"row {row + 1} of {path}",
            expected="true or false",
            hint="write true or false, or 1 or 0",
        )
    return np.asarray(is_true.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _episodes(column: Any, path: str | Path) -> NDArray[np.int64]:
    """Keep integers; number anything else, names or dates, in sorted order."""
    check_filled(column, "episode", path)
    if _are_numbers(column):
        return np.asarray(column.to_numpy(), dtype=np.int64)
    return _sorted_places(column)


def _are_numbers(column: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_integer(column.type) and not pa.types.is_uint64(column.type)


def _known(column: Any) -> Any:
    """Return the different values of a column in their order."""
    import pyarrow.compute as pc

    known = pc.unique(column)
    return known.take(pc.sort_indices(known))


def _sorted_places(column: Any) -> NDArray[np.int64]:
    """Return the place of each value among the different ones, in their order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    places = pc.index_in(column, value_set=_known(column))
    if isinstance(places, pa.ChunkedArray):
        places = places.combine_chunks()
    return np.asarray(places.to_numpy(zero_copy_only=False), dtype=np.int64)


def _steps(column: Any, episode: NDArray[np.int64], path: str | Path) -> NDArray[np.int64]:
    """Return whole numbers as they are, and times as places within their episode."""
    import pyarrow as pa

    check_filled(column, "step", path)
    column = _ordered(column, path)
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        values = column.to_numpy()
        if pa.types.is_integer(kind) or _is_whole(values):
            return np.asarray(values, dtype=np.int64)
    # Times say what comes first, not whether anything is missing in between.
    values = _sorted_places(column)
    order = np.lexsort((values, episode))
    is_new = np.append(True, values[order][1:] != values[order][:-1])
    is_first = np.append(True, episode[order][1:] != episode[order][:-1])
    rank = np.cumsum(is_new | is_first)
    first = np.flatnonzero(is_first)
    rank -= np.repeat(rank[first], np.diff(np.append(first, len(rank))))
    steps = np.empty(len(values), dtype=np.int64)
    steps[order] = rank
    return steps


def _is_whole(values: NDArray[np.float64]) -> bool:
    return bool((np.floor(values) == values).all() and (np.abs(values) <= MOST_WHOLE).all())


def _ordered(column: Any, path: str | Path) -> Any:
    """Read numbers or dates out of text, whose own order would put 10 before 2."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds, kind = pa.types, column.type
    if kinds.is_uint64(kind) and pc.max(column).as_py() >= 2**63:
        raise DataError(
            f"column 'step' of {path} goes up to {pc.max(column)}",
            expected="numbers below 2^63",
            hint="number the steps of each episode from 0",
        )
    if kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_temporal(kind):
        return column
    if kinds.is_decimal(kind):
        return column.cast(pa.float64())
    if not kinds.is_string(kind):
        raise DataError(
            f"column 'step' of {path} holds values of type {kind}",
            expected="numbers or dates",
            hint="number the steps of each episode in their order",
        )
    # A reader of whole numbers would take 0x10 for 16.
    is_decimal = pc.all(pc.match_substring_regex(column, r"^\s*-?[0-9]+\s*$")).as_py()
    text = pc.utf8_trim_whitespace(column)
    for wanted in (*((pa.int64(),) if is_decimal else ()), pa.float64(), pa.timestamp("us")):
        try:
            return text.cast(wanted)
        except pa.ArrowException:
            continue
    raise DataError(
        f"column 'step' of {path} holds text, such as {column[0].as_py()!r}",
        expected="numbers, or dates written as 2024-01-31",
        hint="number the steps of each episode in their order, or leave the column out if the "
        "rows are in order",
    )
