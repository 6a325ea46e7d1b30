"""CSV and Parquet files as Arrow tables, and their columns of names as integers."""

from __future__ import annotations

import glob
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spibb.csv_reader import check_once, numbers_or_names, read_csv
from spibb.errors import DataError, SpibbError
from spibb.names import nearest

if TYPE_CHECKING:
    import pyarrow as pa

Labels = tuple[str, ...] | None

_FORMATS = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet"}
_MISSING = -1
# A table of this many states by one action is 80 MB; beyond it integers are surely identifiers.
LARGEST_INDEX = 10_000_000
# Four gigabytes for one table of numbers, of which an algorithm needs several.
_LARGEST_TABLE = 500_000_000
# Integers from 0 to the largest of which fewer than one in so many occur are identifiers.
_SPARSEST, _SMALLEST_SPARSE = 100, 100_000
# What a row of a log takes while it is read, sorted and counted.
_BYTES_A_ROW = 120


def read_table(
    path: str | Path,
    *,
    what: str,
    names: Sequence[Collection[str]],
    may_lack: Collection[str] = (),
    texts: Collection[str] = (),
    numbers: Collection[str] = (),
    whole: str | None = None,
    ordered: str | None = None,
) -> pa.Table:
    """Read some columns of a file, of the files of a folder, or of those matching a glob.

    The other columns are there by name, but empty.

    Args:
        path: A ``.csv`` or ``.parquet`` file, a folder of such files, or a glob.
        what: What the file is to the user, for messages: "log", "policy".
        names: Columns of integers or labels, those together that share them, as state and next
            state: a CSV file does not say which of the two they are, but all of them are the same.
        may_lack: Of these, columns that may have empty cells.
        texts: Columns of a CSV file that are kept as written.
        numbers: Columns of numbers.
        whole: Column of things that no two files may share: files that each count their episodes
            from 0 would otherwise make one episode of two.
        ordered: Column that orders their rows and so allows to share them.
    """
    tables: dict[Path, pa.Table] = {}
    for file in find_files(path, what=what):
        with naming(file, what):
            tables[file] = _read_file(file, what, {*texts, *chain(*names)}, numbers)
    for group in names:
        _decide(tables, group, may_lack)
    is_ordered = all(ordered in one.column_names for one in tables.values())
    if whole is not None and len(tables) > 1 and not is_ordered:
        _check_unshared(tables, whole)
    table = united(list(tables.values()), path, what, list(tables))
    if table.num_rows == 0:
        raise DataError(
            f"the {what} {path} has no rows",
            expected="at least one row",
            hint="check that this is the right file",
        )
    return table


@contextmanager
def naming(file: Path, what: str) -> Iterator[None]:
    """Say which file cannot be read, and what to do, where Arrow or the system fails."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise DataError(
            f"cannot read the {what} {file}: {_first_line(error)}", hint=_ADVICE[table_format(file)]
        ) from None


def _decide(
    tables: dict[Path, pa.Table], group: Collection[str], may_lack: Collection[str]
) -> None:
    """Make whole numbers or names of columns of CSV files that share them."""
    files = [file for file in tables if table_format(file) == "csv"]
    found = {
        name: {file: tables[file][name] for file in files if is_dictionary(tables[file], name)}
        for name in group
    }
    decided = numbers_or_names(
        {name: list(part.values()) for name, part in found.items() if part}, may_lack
    )
    for name, columns in decided.items():
        for file, column in zip(found[name], columns, strict=True):
            place = tables[file].column_names.index(name)
            tables[file] = tables[file].set_column(place, name, column)


def is_dictionary(table: pa.Table, name: str) -> bool:
    """Whether a table has a column of texts by number, as CSV files are read."""
    import pyarrow as pa

    return name in table.column_names and pa.types.is_dictionary(table[name].type)


def _check_unshared(tables: Mapping[Path, pa.Table], name: str) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    owner: dict[Any, Path] = {}
    for file, table in tables.items():
        # Lists for cells are refused later.
        if name not in table.column_names or pa.types.is_nested(table[name].type):
            continue
        # As text, which a column is as soon as it is in one of the files.
        for value in map(str, pc.unique(_plain(table[name])).to_pylist()):
            if value in owner:
                raise DataError(
                    f"{name} {value!r} is in {owner[value]} and in {file}",
                    expected=f"each {name} in one file, or a column 'step' that orders its rows",
                    hint=f"number the {name}s of all files in one go, or put the files together",
                )
            owner[value] = file


_ADVICE = {
    "csv": "check that it is text in UTF-8, fields separated by commas, with a header",
    "parquet": "check that the file is complete, and is what its name says",
}


def find_files(path: str | Path, *, what: str) -> list[Path]:
    """Return the table files that a path, folder or glob stands for, sorted by name."""
    root = Path(path)
    nothing = f"no such {what}: {path}"
    try:
        if root.is_dir():
            files = sorted(file for file in root.iterdir() if table_format(file))
            nothing += " is a folder without tables"
        elif root.exists():
            files = [root]
        else:
            files = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
    except OSError as error:
        raise DataError(f"cannot read the {what} {path}: {error.strerror}") from None
    if not files:
        raise DataError(
            nothing,
            expected="a CSV or Parquet file, folder or glob",
            hint="check the path; for files in sub-folders, give a glob as 'logs/**/*.csv'",
        )
    for file in files:
        if not table_format(file):
            raise DataError(
                f"cannot tell the format of the {what} {file}",
                expected="a name in .csv or .parquet",
                hint="save the table as CSV or Parquet",
            )
    return files


def table_format(file: Path) -> str:
    """Return csv or parquet, by the name of a file; an empty text for other files."""
    return _FORMATS.get(file.suffix.lower(), "")


def _read_file(file: Path, what: str, names: Collection[str], numbers: Collection[str]) -> pa.Table:
    if not file.is_file():
        raise DataError(
            f"cannot read the {what} {file}: it is no file, but a pipe or a device",
            expected="a file",
            hint="write the table to a file first",
        )
    if table_format(file) == "parquet":
        return _read_parquet(file, what, {*names, *numbers})
    return without_unnamed(read_csv(file, what=what, names=names, numbers=numbers), file)


def _read_parquet(file: Path, what: str, wanted: Collection[str]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet

    source = pyarrow.parquet.ParquetFile(file)
    check_memory(source.metadata.num_rows, f"the {what} {file}")
    schema = source.schema_arrow
    # Checked before anything is read: a name twice could not be told apart.
    kept = without_unnamed(schema.empty_table(), file).column_names
    places = [name for name in kept if name.strip() in wanted]
    # As dictionaries, since a file of few bytes may hold a long text a million times.
    texts = [name for name in places if _is_text(schema.field(name).type)]
    table = pyarrow.parquet.read_table(file, columns=places, read_dictionary=texts)
    for name in texts:
        _check_lengths_of_texts(table[name], f"the {what} {file}")
    columns = [
        decoded(table[name], name) if name in places else pa.nulls(len(table)) for name in kept
    ]
    return without_unnamed(pa.table(columns, names=[name.strip() for name in kept]), file)


def decoded(column: Any, name: str) -> Any:
    """Make text of bytes, whatever way they are stored, and say so where they are none."""
    import pyarrow as pa

    column, kinds = _plain(column), pa.types
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
        raise pa.ArrowInvalid(f"column {name!r}: {_first_line(error)}") from None


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _check_lengths_of_texts(column: Any, what: str) -> None:
    """Refuse texts that do not fit into memory when each row has its own."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type):
        return
    lengths = [pc.max(pc.binary_length(part.dictionary)).as_py() or 0 for part in column.chunks]
    longest = max(lengths, default=0)
    check_memory(len(column), what, _BYTES_A_ROW + 2 * longest)


def check_memory(
    n_rows: int,
    what: str,
    n_bytes: int = _BYTES_A_ROW,
    hint: str = "use a larger machine, or a part of the rows",
) -> None:
    """Refuse a table that cannot fit into the memory that is free, where the system tells it.

    Args:
        n_rows: Its rows.
        what: What it is, for the message.
        n_bytes: What each of them takes.
        hint: What to do about it.
    """
    free = _free_memory()
    needed = n_rows * n_bytes
    if free is not None and needed > free:
        raise DataError(
            f"{what} has {n_rows:,} rows, which take about {needed / 1e9:.1f} GB",
            expected=f"what fits into the {free / 1e9:.1f} GB that are free",
            hint=hint,
        )


def _free_memory() -> int | None:
    """Return the bytes that can be had without swapping; None where nobody says."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except (OSError, ValueError):
        return None
    found = re.search(r"MemAvailable:\s+(\d+) kB", text)
    return None if found is None else 1024 * int(found[1])


def without_unnamed(table: pa.Table, path: str | Path) -> pa.Table:
    """Drop columns without a name, which spreadsheets leave behind; refuse one name twice."""
    names = table.column_names
    check_once(names, path)
    return table.select([place for place, name in enumerate(names) if name])


def united(
    tables: list[pa.Table], path: str | Path, what: str, files: Sequence[Path] | None = None
) -> pa.Table:
    """Append tables; a column that is a number here and a name there becomes a name.

    Args:
        tables: The tables.
        path: What they were read from, for messages.
        what: What that is to the user.
        files: The file of each.
    """
    import pyarrow as pa

    first = tables[0].column_names
    for place, table in enumerate(tables):
        odd = set(table.column_names) ^ set(first)
        if odd:
            raise DataError(
                f"the files of the {what} {path} have different columns: not all of them have "
                f"{_listed(odd)}",
                where=None if files is None else _difference(first, table, files[0], files[place]),
                expected="the same columns in each",
                hint="give files of one kind only",
            )
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        as_text = [_with_text_where_mixed(table, tables) for table in tables]
    try:
        return pa.concat_tables(as_text, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(
            f"the files of the {what} {path} do not fit together: {_first_line(error)}",
            expected="the same kind of values in each",
        ) from None


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(names)))


def _difference(names: Sequence[str], table: pa.Table, file: Path, other: Path) -> str:
    lacking, more = set(names) - set(table.column_names), set(table.column_names) - set(names)
    said = [f"lacks {_listed(lacking)}"] * bool(lacking) + [f"has {_listed(more)}"] * bool(more)
    return f"{other} {' and '.join(said)}, unlike {file}"


def _with_text_where_mixed(table: pa.Table, tables: list[pa.Table]) -> pa.Table:
    import pyarrow as pa

    for place, name in enumerate(table.column_names):
        kinds = {_plain_type(other[name]) for other in tables} - {pa.null()}
        if pa.string() in kinds or pa.bool_() in kinds:
            table = table.set_column(place, name, _text(table.column(place)))
    return table


def _plain_type(column: Any) -> Any:
    import pyarrow as pa

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return pa.string() if pa.types.is_large_string(kind) else kind


def _plain(column: Any) -> Any:
    """Undo dictionary encoding."""
    import pyarrow as pa

    is_encoded = pa.types.is_dictionary(column.type)
    return column.cast(column.type.value_type) if is_encoded else column


def _text(column: Any) -> Any:
    import pyarrow as pa

    return _plain(column).cast(pa.string())


def _first_line(error: BaseException) -> str:
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
        if len(present) == 1 and any(mark in present[0] for mark in ";\t|"):
            hint = "separate the fields by commas"
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
        numbers = _plain(column).cast(pa.float64(), safe=safe)
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

    for row, cell in enumerate(_plain(column)):
        try:
            cell.cast(pa.float64())
        except pa.ArrowException:
            return row, cell.as_py() if pa.types.is_string(cell.type) else str(cell)
    return 0, str(column.type)


def encode(column: Any, name: str, path: str | Path) -> tuple[NDArray[np.int64], Labels]:
    """Turn one column of integers or labels into integer codes; see :func:`encode_together`."""
    (codes,), labels = encode_together({name: column}, path)
    return codes, labels


def encode_together(
    columns: dict[str, Any], path: str | Path, *, missing_allowed: Sequence[str] = ()
) -> tuple[list[NDArray[np.int64]], Labels]:
    """Turn columns that share one set of names into integer codes.

    Integers stand for themselves. Anything else is a label; labels are sorted, and a code is the
    label's place in that order.

    Args:
        columns: Arrow columns by name.
        path: The file they come from, for messages.
        missing_allowed: Names of columns that may have empty cells, which become -1.

    Returns:
        The codes of each column, and the labels, or None where the columns hold integers.
    """
    columns = {name: _plain(column) for name, column in columns.items()}
    for name, column in columns.items():
        if name not in missing_allowed:
            check_filled(column, name, path)
    integers = [_as_integers(column) for column in columns.values()]
    if all(codes is not None for codes in integers):
        found = [codes for codes in integers if codes is not None]
        for name, codes in zip(columns, found, strict=True):
            _check_index(name, codes, path, missing_allowed=name in missing_allowed)
        _check_dense(next(iter(columns)), found, path)
        return found, None
    return _as_labels(columns, path)


def _as_integers(column: Any) -> NDArray[np.int64] | None:
    """Return the integers of a column with -1 for empty cells, or None if it holds labels."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), _MISSING, dtype=np.int64)
    if pa.types.is_floating(kind) or pa.types.is_uint64(kind):
        values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        whole = np.isnan(values) | (values == np.floor(values))
        if not whole.all() or np.isinf(values).any():
            return None
        # The limits only have to survive the cast; both are refused as out of range later.
        limited = np.clip(np.where(np.isnan(values), _MISSING, values), -(2.0**62), 2.0**62)
        return limited.astype(np.int64)
    if pa.types.is_integer(kind):
        return np.asarray(column.cast(pa.int64()).fill_null(_MISSING).to_numpy(), dtype=np.int64)
    return None


def _check_index(
    name: str, codes: NDArray[np.int64], path: str | Path, *, missing_allowed: bool
) -> None:
    lowest = _MISSING if missing_allowed else 0
    bad = (codes < lowest) | (codes >= LARGEST_INDEX)
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"{name} {codes[row]} is out of range",
            where=f"row {row + 1} of {path}",
            expected=f"an integer from 0 to {LARGEST_INDEX - 1}, or a label",
            hint="number them from 0, or write identifiers as text",
        )


def _check_dense(name: str, found: list[NDArray[np.int64]], path: str | Path) -> None:
    """Refuse integers that are identifiers: a table up to the largest would be nearly empty."""
    largest = max((int(codes.max()) for codes in found if len(codes)), default=0)
    if largest < _SMALLEST_SPARSE:
        return
    n_met = len(np.unique(np.concatenate(found)))
    if not are_dense(n_met, largest):
        raise DataError(
            f"the {name}s of {path} go up to {largest}, and only {n_met} of them occur",
            expected="integers from 0 without large gaps, or labels",
            hint=f"number the {name}s from 0, or write them as text, as s{largest}",
        )


def are_dense(n_met: int, largest: int) -> bool:
    """Whether integers up to the largest, of which so many occur, may be numbers and not names."""
    return largest < _SMALLEST_SPARSE or n_met * _SPARSEST >= largest


def check_size(n_states: int, n_actions: int, path: str | Path) -> None:
    """Refuse numbers of states and actions whose table would not fit into memory."""
    if n_states * n_actions > _LARGEST_TABLE:
        raise DataError(
            f"{path} has {n_states} states and {n_actions} actions, counted up to the largest",
            expected=f"at most {_LARGEST_TABLE} pairs",
            hint="number states and actions from 0 without gaps, or write identifiers as text",
        )


def _as_labels(columns: dict[str, Any], path: str | Path) -> tuple[list[NDArray[np.int64]], Labels]:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        texts = [column.cast(pa.string()).combine_chunks() for column in columns.values()]
    except pa.ArrowException as error:
        raise DataError(
            f"{', '.join(columns)} of {path} cannot be read as text: {_first_line(error)}",
            expected="integers, or labels in UTF-8",
        ) from None
    # combine_chunks() of an empty chunked array may itself be chunked; concatenation is not.
    seen = pc.unique(pa.chunked_array(texts, type=pa.string())).drop_null()
    labels = tuple(sorted(seen.to_pylist()))
    known = pa.array(labels, type=pa.string())
    codes = [
        np.asarray(pc.index_in(text, value_set=known).fill_null(-1).to_numpy(zero_copy_only=False))
        for text in texts
    ]
    return [code.astype(np.int64) for code in codes], labels
