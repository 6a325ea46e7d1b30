"""Tables of other libraries: pandas, polars, and whatever speaks Arrow."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spibb.errors import DataError
from spibb.tables.columns import decoded

if TYPE_CHECKING:
    import pyarrow as pa

# A value that Arrow could not convert, which may be the id of an episode.
_VALUE = re.compile(r"Could not convert .*? with type", re.DOTALL)
# What messages call a table that is no file.
FRAME = "the data frame"


def arrow_table(frame: Any) -> pa.Table:
    """Return a pandas, polars or Arrow table as an Arrow table."""
    import pyarrow as pa

    try:
        if isinstance(frame, pa.Table):
            return frame
        if hasattr(frame, "collect_schema") and hasattr(frame, "collect"):  # polars, not yet run
            frame = frame.collect()
        if hasattr(frame, "to_arrow"):
            return frame.to_arrow()
        if hasattr(frame, "__arrow_c_stream__") and not hasattr(frame, "iloc"):
            return pa.table(frame)
        return pa.Table.from_pandas(_with_index(frame), preserve_index=False)
    except (pa.ArrowException, AttributeError, TypeError, ValueError) as error:
        is_path = isinstance(frame, str | Path)
        told = _VALUE.sub("Could not convert a value with type", str(error))
        raise DataError(
            f"{str(frame)!r} is no table" if is_path else f"cannot read the data frame: {told}",
            expected="a pandas, polars or Arrow table whose columns hold one kind of value",
            hint="read a file by spibb.read_log or TabularPolicy.read" if is_path else None,
        ) from None


def _with_index(frame: Any) -> Any:
    """Make columns of what an index of pandas names; the numbers of rows have no name."""
    names = frame.index.names
    levels = [
        level
        for level, name in enumerate(names)
        if (name is not None or len(names) > 1) and name not in frame.columns
    ]
    return frame.reset_index(level=levels) if levels else frame


def as_text(table: pa.Table, names: Collection[str], path: str | Path) -> pa.Table:
    """Undo encodings of the columns that are read: dictionaries, bytes, views."""
    import pyarrow as pa

    for place, name in enumerate(table.column_names):
        if name in names:
            try:
                table = table.set_column(place, name, decoded(table.column(place), name))
            except pa.ArrowException as error:
                raise DataError(
                    f"cannot read the text of {path}: {error}", expected="text in UTF-8"
                ) from None
    return table
