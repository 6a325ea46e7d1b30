"""The columns of a log file: which there are, what they may be called, which must be there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from spibb.errors import DataError
from spibb.names import nearest
from spibb.tables.columns import require_columns, without_unnamed

if TYPE_CHECKING:
    import pyarrow as pa

REQUIRED = ("state", "action", "reward")
OPTIONAL = ("episode", "step", "next_state", "terminated", "truncated")
# The behaviour policy, and how likely it acted so.
ACTED = ("propensity", "target_probability", "policy")
OF_AN_ACTION = "propensity_"
# How flags are written.
TRUE, FALSE = ("true", "1", "1.0", "yes"), ("false", "0", "0.0", "no")


def named_columns(table: pa.Table, columns: Mapping[str, str] | None, path: str | Path) -> pa.Table:
    """Return the table with columns under the names they have here; refuse one that is no log.

    Args:
        table: A table, perhaps without rows.
        columns: Where to find a column that is called differently.
        path: The file, for messages.
    """
    table = _renamed(without_unnamed(table, path), columns or {}, path)
    require_columns(table.column_names, REQUIRED, path, taken=(*REQUIRED, *OPTIONAL))
    _check_connected(table.column_names, path)
    return table


def says_who_acted(names: Iterable[str]) -> bool:
    """Whether columns, under the names they have here, may describe the behaviour policy."""
    return any(name in ACTED or name.startswith(OF_AN_ACTION) for name in names)


def check_column(table: pa.Table, name: str, path: str | Path, use: str, option: str) -> None:
    """Refuse a table without a column that an option asks for, and say which it might be."""
    if name in table.column_names:
        return
    near = nearest(name, table.column_names)
    raise DataError(
        f"there is no column {name!r} in {path} {use}",
        expected=f"one of {', '.join(table.column_names)}",
        hint=f"write {option} {near}" if near else None,
    )


def _renamed(table: pa.Table, columns: Mapping[str, str], path: str | Path) -> pa.Table:
    for name, column in columns.items():
        known = (*REQUIRED, *OPTIONAL, *ACTED)
        if name not in known and not name.startswith(OF_AN_ACTION):
            near = nearest(name, known)
            raise DataError(
                f"columns renames {name!r}",
                expected=f"one of {', '.join(known)}",
                hint=f"write {near}={column}" if near else "write NAME=YOUR_COLUMN",
            )
        if column not in table.column_names:
            near = nearest(column, table.column_names)
            raise DataError(
                f"columns says that {name} is in column {column!r}, which {path} does not have",
                expected=f"one of {', '.join(table.column_names)}",
                hint=f"write {name}={near or 'YOUR_COLUMN'}",
            )
    theirs = {column: name for name, column in columns.items()}
    if len(theirs) < len(columns):
        raise DataError(
            f"columns gives {len(columns)} names to {len(theirs)} columns of {path}",
            expected="one name for each column",
        )
    # A column that is replaced by a renamed one must not stay under the same name.
    kept = [c for c in table.column_names if c in theirs or c not in columns]
    return table.select(kept).rename_columns([theirs.get(column, column) for column in kept])


def _check_connected(names: list[str], path: str | Path) -> None:
    """Refuse a log that does not say what follows a row, unless nothing speaks of steps at all.

    Then each row is a decision of its own: see `spibb.data.episodes.complete_episodes`.
    """
    if "episode" in names or "next_state" in names:
        return
    others = [name for name in names if name not in (*REQUIRED, *OPTIONAL)]
    near = {name: nearest(name, others) for name in ("episode", "next_state")}
    meant = [f"{name}={column}" for name, column in near.items() if column]
    spoken = [name for name in OPTIONAL if name in names]
    if not meant and not spoken:
        return
    raise DataError(
        f"{path} has neither a column 'episode' nor 'next_state'",
        expected=f"one of them among {', '.join(names)}",
        hint=f"rename the column, or say --columns {(meant or ['episode=COLUMN'])[0]}; if each row "
        f"is a decision of its own, leave out {', '.join(spoken) or meant[0].partition('=')[2]}",
    )
