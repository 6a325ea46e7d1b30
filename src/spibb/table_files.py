"""Files as Arrow tables."""

from __future__ import annotations

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
from spibb.file_formats import find_files, partition_of, table_format
from spibb.json_lines import read_json_lines
from spibb.names import nearest

if TYPE_CHECKING:
    import pyarrow as pa

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

    The other columns are there by name, but empty. Folders called ``ward=icu`` are columns.

    Args:
        path: A file in CSV, JSON lines, Parquet or Arrow, a folder of such files, or a glob.
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
            table = _read_file(file, what, {*texts, *chain(*names)}, numbers, whole)
        tables[file] = _partitioned(table, partition_of(file, path))
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
    """Make whole numbers or names of columns of texts, as in CSV files, that share them."""
    found = {
        name: {file: tables[file][name] for file in tables if is_dictionary(tables[file], name)}
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

    owner: dict[str, tuple[Path, Any]] = {}

    def place(file: Path, value: Any) -> str:
        column = plain(tables[file][name])
        return f"row {pc.index(column, pa.scalar(value, column.type)).as_py() + 1} of {file}"

    for file, table in tables.items():
        # Lists for cells are refused later.
        if name not in table.column_names or pa.types.is_nested(table[name].type):
            continue
        # As text, which a column is as soon as it is in one of the files.
        for value in pc.unique(plain(table[name])).to_pylist():
            if str(value) in owner:
                raise DataError(
                    f"the same {name} is in two files: {place(*owner[str(value)])}, and "
                    f"{place(file, value)}",
                    expected=f"each {name} in one file, or a column 'step' that orders its rows",
                    hint=f"number the {name}s of all files in one go, or put the files together",
                    episode=value,
                )
            owner[str(value)] = file, value


_ADVICE = {
    "csv": "check that it is text in UTF-8, separated by commas, with a header, and complete",
    "json": "check that it is text in UTF-8, an object on each line, and complete",
    "parquet": "check that the file is complete, and is what its name says",
    "arrow": "check that the file is complete, and is what its name says",
}


def _read_file(
    file: Path, what: str, names: Collection[str], numbers: Collection[str], whole: str | None
) -> pa.Table:
    if file.is_symlink() and not file.exists():
        raise DataError(
            f"cannot read the {what} {file}: it is a link to {file.readlink()}, which is not there",
            expected="a file",
            hint="correct the link, or give the path of the file",
        )
    if not file.is_file():
        raise DataError(
            f"cannot read the {what} {file}: it is no file, but a pipe or a device",
            expected="a file",
            hint="write the table to a file first",
        )
    kind = table_format(file)
    if kind == "csv":
        return without_unnamed(read_csv(file, what=what, names=names, numbers=numbers), file)
    if kind == "json":
        wanted = {*names, *numbers}
        found = read_json_lines(file, what=what, wanted=wanted, hidden=whole)
        return without_unnamed(found, file)
    read = _read_parquet if kind == "parquet" else _read_arrow
    return read(file, what, {*names, *numbers})


def _partitioned(table: pa.Table, values: Mapping[str, str | None]) -> pa.Table:
    """Add what folders say of a file, as a CSV file would; a column of the file itself counts."""
    import pyarrow as pa

    for name, value in values.items():
        if name not in table.column_names:
            known = pa.array([] if value is None else [value], pa.string())
            zeros = np.zeros(len(table), np.int32)
            places = pa.nulls(len(table), pa.int32()) if value is None else pa.array(zeros)
            column = pa.DictionaryArray.from_arrays(places, known)
            table = table.append_column(name, pa.chunked_array([column]))
    return table


def _read_arrow(file: Path, what: str, wanted: Collection[str]) -> pa.Table:
    import pyarrow as pa

    with pa.memory_map(str(file)) as source:
        try:
            whole = pa.ipc.open_file(source).read_all()
        except pa.ArrowInvalid:
            source.seek(0)
            whole = pa.ipc.open_stream(source).read_all()
        check_memory(whole.num_rows, f"the {what} {file}")
        names = without_unnamed(whole, file).column_names
        kept = {name: whole[name] for name in names if name.strip() in wanted}
        # Offsets of a damaged file may lead anywhere.
        pa.table(kept).validate(full=True)
        columns = [
            decoded(kept[name], name) if name in kept else pa.nulls(len(whole)) for name in names
        ]
    return without_unnamed(pa.table(columns, names=[name.strip() for name in names]), file)


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


def plain(column: Any) -> Any:
    """Undo dictionary encoding."""
    import pyarrow as pa

    is_encoded = pa.types.is_dictionary(column.type)
    return column.cast(column.type.value_type) if is_encoded else column


def _text(column: Any) -> Any:
    import pyarrow as pa

    return plain(column).cast(pa.string())


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
