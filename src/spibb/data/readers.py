"""Log files: CSV or Parquet, with labels, renamed columns and missing ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spibb.data.log import Log
from spibb.errors import DataError
from spibb.tables import encode, encode_together, read_table, require_columns

if TYPE_CHECKING:
    import pyarrow as pa

REQUIRED = ("state", "action", "reward")
OPTIONAL = ("episode", "step", "next_state", "terminated", "truncated")


def read_log(path: str | Path, columns: Mapping[str, str] | None = None) -> Log:
    """Read a log from CSV or Parquet: a file, a folder of files, or a glob.

    Columns ``state, action, reward`` and, if present, ``episode, step, next_state, terminated,
    truncated``. States and actions are integers from 0 or labels.

    Args:
        path: Where the log is.
        columns: Where to find a column that is called differently: ``{"state": "ward"}``.
    """
    return log_from_table(read_table(path, what="log"), columns, path)


def log_from_table(table: pa.Table, columns: Mapping[str, str] | None, path: str | Path) -> Log:
    """Build a log from an Arrow table."""
    table = _renamed(table, columns or {}, path)
    require_columns(table.column_names, REQUIRED, path)
    present = [name for name in OPTIONAL if name in table.column_names]
    _suggest_optional(table.column_names, present, path)
    places = {name: table[name] for name in ("state", "next_state") if name in table.column_names}
    codes, state_labels = encode_together(places, path, missing_allowed=("next_state",))
    action, action_labels = encode(table["action"], "action", path)
    found: dict[str, Any] = dict(zip(places, codes, strict=True))
    for name in ("terminated", "truncated"):
        if name in present:
            found[name] = _flags(table[name], name, path)
    if "episode" in present:
        found["episode"] = _episodes(table["episode"], path)
        if "step" in present:
            found["step"] = _steps(table["step"], path)
    return Log.from_arrays(
        action=action,
        reward=_rewards(table["reward"], path),
        state_labels=state_labels,
        action_labels=action_labels,
        **found,
    )


def _renamed(table: pa.Table, columns: Mapping[str, str], path: str | Path) -> pa.Table:
    for name in columns:
        if name not in (*REQUIRED, *OPTIONAL):
            raise DataError(
                f"columns renames {name!r}", expected=f"one of {', '.join((*REQUIRED, *OPTIONAL))}"
            )
    require_columns(table.column_names, columns.values(), path)
    theirs = {column: name for name, column in columns.items()}
    # A column that is replaced by a renamed one must not stay under the same name.
    kept = [c for c in table.column_names if c in theirs or c not in columns]
    return table.select(kept).rename_columns([theirs.get(column, column) for column in kept])


def _suggest_optional(names: list[str], present: list[str], path: str | Path) -> None:
    """Refuse a log without episodes and next states, since nothing can be learnt from it."""
    if "episode" not in present and "next_state" not in present:
        require_columns(names, ("episode",), path)


def _rewards(column: Any, path: str | Path) -> NDArray[np.float64]:
    import pyarrow as pa

    try:
        values = column.cast(pa.float64()).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(
            f"column 'reward' of {path} holds something that is not a number ({reason})"
        ) from None
    return np.asarray(values, dtype=np.float64)


def _flags(column: Any, name: str, path: str | Path) -> NDArray[np.bool_]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_null(column.type):
        return np.zeros(len(column), dtype=np.bool_)
    if pa.types.is_boolean(column.type):
        return np.asarray(column.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.bool_)
    text = pc.utf8_lower(column.cast(pa.string()).fill_null("false"))
    is_true = pc.is_in(text, value_set=pa.array(["true", "1", "1.0", "yes"]))
    is_false = pc.is_in(text, value_set=pa.array(["false", "0", "0.0", "no"]))
    known = pc.or_(is_true, is_false).to_numpy(zero_copy_only=False)
    if not known.all():
        row = int(np.argmin(known))
        raise DataError(
            f"column {name!r} holds {column[row].as_py()!r}",
            where=f"row {row + 1} of {path}",
            expected="true or false",
        )
    return np.asarray(is_true.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _episodes(column: Any, path: str | Path) -> NDArray[np.int64]:
    """Keep integers; number anything else, names or dates, in sorted order."""
    import pyarrow as pa

    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy()))
        raise DataError(f"column 'episode' of {path} has an empty cell", where=f"row {row + 1}")
    if pa.types.is_integer(column.type):
        return np.asarray(column.to_numpy(), dtype=np.int64)
    return np.unique(column.to_numpy(), return_inverse=True)[1].astype(np.int64)


def _steps(column: Any, path: str | Path) -> NDArray[np.int64]:
    """Turn anything that has an order (numbers, dates) into ranks."""
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy()))
        raise DataError(f"column 'step' of {path} has an empty cell", where=f"row {row + 1}")
    values = column.to_numpy()
    if values.dtype.kind in "iu":
        return np.asarray(values, dtype=np.int64)
    return np.unique(values, return_inverse=True)[1].astype(np.int64)
