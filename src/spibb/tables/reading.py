"""The files of a table read as one Arrow table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spibb.errors import DataError
from spibb.tables.columns import first_line, is_dictionary, plain
from spibb.tables.csv_files import numbers_or_names
from spibb.tables.files import find_files, partition_of
from spibb.tables.registry import source_of
from spibb.tables.source import Wanted

if TYPE_CHECKING:
    import pyarrow as pa


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
            table = _read_file(file, Wanted(what, {*texts, *chain(*names)}, numbers, whole))
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

    source = source_of(file)
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise DataError(
            f"cannot read the {what} {file}: {first_line(error)}",
            hint=source.advice if source else None,
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


def _read_file(file: Path, wanted: Wanted) -> pa.Table:
    what = wanted.what
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
    source = source_of(file)
    assert source is not None  # find_files takes no others
    return source.read(file, wanted)


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
            f"the files of the {what} {path} do not fit together: {first_line(error)}",
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


def _text(column: Any) -> Any:
    import pyarrow as pa

    return plain(column).cast(pa.string())
