"""Columns of Arrow tables: which there are, and what they hold."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spibb.errors import DataError, SpibbError
from spibb.names import nearest

if TYPE_CHECKING:
    import pyarrow as pa


def check_once(names: Sequence[str], path: str | Path) -> None:
    """Refuse columns of the same name: which of them is meant is unknown."""
    for name in names:
        if name and names.count(name) > 1:
            raise DataError(
                f"{path} has {names.count(name)} columns called {name!r}",
                expected="each name once",
                hint="rename or remove one of them",
            )


def without_unnamed(table: pa.Table, path: str | Path) -> pa.Table:
    """Drop columns without a name, which spreadsheets leave behind; refuse one name twice."""
    names = table.column_names
    check_once(names, path)
    return table.select([place for place, name in enumerate(names) if name])


def is_dictionary(table: pa.Table, name: str) -> bool:
    """Whether a table has a column of texts by number, as CSV files are read."""
    import pyarrow as pa

    return name in table.column_names and pa.types.is_dictionary(table[name].type)


def plain(column: Any) -> Any:
    """Undo dictionary encoding."""
    import pyarrow as pa

    is_encoded = pa.types.is_dictionary(column.type)
    return column.cast(column.type.value_type) if is_encoded else column


def decoded(column: Any, name: str) -> Any:
    """Make text of bytes, whatever way they are stored, and say so where they are none."""
    import pyarrow as pa

    column, kinds = plain(column), pa.types
    kind = column.type
    is_text = kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind)
    if is_text:
        column.validate(full=True)
    if kinds.is_string(kind) or not (
        is_text or kinds.is_binary(kind) or kinds.is_large_binary(kind)
        or kinds.is_fixed_size_binary(kind) or kinds.is_binary_view(kind)
    ):  # fmt: skip
        return column
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise pa.ArrowInvalid(f"column {name!r}: {first_line(error)}") from None


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says."""
    return (str(error) or type(error).__name__).splitlines()[0].rstrip(" .:")


def require_columns(
    present: Sequence[str],
    needed: Iterable[str],
    path: str | Path,
    *,
    can_rename: bool = True,
    taken: Collection[str] = (),
) -> None:
    """Refuse a table that lacks a column, naming the nearest one it has.

    Args:
        present: Columns that are there.
        needed: Columns that must be.
        path: The file, for messages.
        can_rename: Whether ``--columns`` can say where a column is.
        taken: Columns that have a meaning of their own, and cannot be what was meant.
    """
    for name in needed:
        if name in present:
            continue
        near = nearest(name, [column for column in present if column not in taken])
        hint = "rename the column"
        if can_rename:
            hint += f", or say --columns {name}={near or 'YOUR_COLUMN'}"
        if len(present) == 1 and re.search(r"\W", present[0]):
            hint = "separate the fields by commas, semicolons, tabs or vertical bars"
        raise DataError(
            f"{path} has no column {name!r}" + (f", but it has {near!r}" if near else ""),
            expected=f"it among {', '.join(present)}",
            hint=hint,
        )


def check_filled(column: Any, name: str, path: str | Path) -> None:
    """Refuse a column with empty cells, or with lists for cells."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_nested(column.type):
        raise DataError(
            f"column {name!r} of {path} holds values of type {column.type}",
            expected="one number or label in each row",
        )
    empty = pc.is_null(column, nan_is_null=True).to_numpy()
    if empty.any():
        raise DataError(
            f"column {name!r} of {path} has an empty cell",
            where=f"row {int(np.argmax(empty)) + 1}",
            expected="a value in every row",
            hint="fill it in, or leave the row out",
        )


def read_numbers(
    column: Any, name: str, path: str | Path, *, error: type[SpibbError] = DataError
) -> NDArray[np.float64]:
    """Return a column of numbers, NaN for empty cells."""
    import pyarrow as pa

    try:
        # Whole numbers beyond 2^53 are rounded, as they are when a float is written down.
        safe = not pa.types.is_integer(column.type)
        numbers = plain(column).cast(pa.float64(), safe=safe)
        return np.asarray(numbers.to_numpy(), dtype=np.float64)
    except pa.ArrowException:
        row, value = _first_without_number(column)
        raise error(
            f"column {name!r} of {path} holds something that is not a number: {value!r}",
            where=f"row {row + 1}",
            expected="numbers, with a point for decimals",
            hint="correct the row or leave it out",
        ) from None


def _first_without_number(column: Any) -> tuple[int, Any]:
    import pyarrow as pa

    for row, cell in enumerate(plain(column)):
        try:
            cell.cast(pa.float64())
        except pa.ArrowException:
            return row, cell.as_py() if pa.types.is_string(cell.type) else str(cell)
    return 0, str(column.type)
