"""One CSV file as an Arrow table, with labels kept as they are written."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spibb.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

# How a number is written; anything else, "007" or "True", is a name and stays as it is.
_INTEGER = r"^-?(0|[1-9][0-9]*)$"
_NUMBER = r"^(-?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][-+]?[0-9]+)?|nan|NaN)$"


def read_csv(file: Path, *, what: str, names: Collection[str] = ()) -> pa.Table:
    """Read a CSV file; the first row that has too many or too few fields is refused.

    Args:
        file: The file.
        what: What it is to the user, for messages.
        names: Columns that hold integers or labels. Elsewhere the reader may guess what a column
            holds; here it would turn the label 007 into 7 and True into true.
    """
    import pyarrow as pa

    try:
        table = _read(file, what, names, use_threads=True)
    except pa.ArrowInvalid:
        # Only a single thread knows which row is wrong; it is worth reading twice to say so.
        table = _read(file, what, names, use_threads=False)
    for place, name in enumerate(table.column_names):
        if name in names:
            table = table.set_column(place, name, _numbers_or_names(table.column(place)))
    return table


def _read(file: Path, what: str, names: Collection[str], *, use_threads: bool) -> pa.Table:
    import pyarrow as pa
    import pyarrow.csv

    wrong: list[Any] = []

    def note(row: Any) -> str:
        wrong.append(row)
        return "error"

    text = pa.dictionary(pa.int32(), pa.string())
    # An empty cell is a missing value in every column; "NA" may be a label.
    convert = pyarrow.csv.ConvertOptions(
        strings_can_be_null=True, null_values=[""], column_types=dict.fromkeys(names, text)
    )
    try:
        return pyarrow.csv.read_csv(
            file,
            read_options=pyarrow.csv.ReadOptions(use_threads=use_threads),
            parse_options=pyarrow.csv.ParseOptions(invalid_row_handler=note),
            convert_options=convert,
        )
    except pa.ArrowInvalid:
        if wrong and wrong[0].number is not None:
            raise _uneven(wrong[0], file, what) from None
        raise


def _uneven(row: Any, file: Path, what: str) -> DataError:
    n_found = row.actual_columns
    return DataError(
        f"cannot read the {what} {file}: a row has {n_found} field{'' if n_found == 1 else 's'}",
        # The header is the first row of the file, but not of the table.
        where=f"row {row.number - 1}",
        expected=f"{row.expected_columns}, as in the header",
        hint="complete the row, or put quotation marks around fields that contain commas",
    )


def _numbers_or_names(column: Any) -> Any:
    """Turn a column of texts into numbers if every one of them is written as a number is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = column.unify_dictionaries()
    known = column.chunk(0).dictionary if column.num_chunks else pa.array([], pa.string())
    trimmed = pc.utf8_trim_whitespace(known)
    for pattern, kind in ((_INTEGER, pa.int64()), (_NUMBER, pa.float64())):
        if not pc.all(pc.match_substring_regex(trimmed, pattern)).as_py():
            continue
        try:
            numbers = trimmed.cast(kind)
        except pa.ArrowInvalid:  # an integer of twenty digits
            continue
        parts = [numbers.take(chunk.indices) for chunk in column.chunks]
        return pa.chunked_array(parts, type=kind)
    return column
