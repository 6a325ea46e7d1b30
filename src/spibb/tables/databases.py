"""Rows that a query finds in a DuckDB or SQLite file: one SELECT, and nothing but reading.

The connection is read-only, other files and the network are closed to it, and what is not one
SELECT is refused before anything runs.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spibb.errors import DataError, import_extra
from spibb.tables.columns import check_once
from spibb.tables.files import database_kind
from spibb.tables.row_values import table_of_rows

if TYPE_CHECKING:
    import pyarrow as pa

# What stands before the first word.
_BEFORE = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*", re.DOTALL)
# A value that DuckDB could not convert, which may be the id of an episode.
_VALUE = re.compile(r"string '.*?'(?= )")
_ORDERED = re.compile(r"\border\s+by\b", re.IGNORECASE)
# Parts of a query in which a quotation mark is none, or begins the name of a column.
_QUOTED = re.compile(
    r"""'(?:[^']|'')*'|`(?:[^`]|``)*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/|"((?:[^"]|"")*)\"""", re.DOTALL
)
# A label has fewer characters; a value of SQLite, fewer bytes.
_LONGEST_LABEL, _LONGEST_VALUE = 1 << 16, 1 << 26
_READING = {
    sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE,
}  # fmt: skip
_CLOSED = {
    "enable_external_access": "false", "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false", "python_enable_replacements": "false",
    "lock_configuration": "true",
}  # fmt: skip


def read_query(
    path: str | Path, query: str, *, what: str, wanted: Collection[str], whole: str, ordered: str
) -> pa.Table:
    """Return what a query finds.

    Args:
        path: A file of DuckDB or SQLite.
        query: One SELECT, or WITH ... SELECT.
        what: What the rows are to the user, for messages.
        wanted: Columns whose values matter.
        whole: Column of things whose rows have an order.
        ordered: Column that orders them; without it, the query has to.
    """
    kind = database_kind(path)
    if kind is None:
        is_there = Path(path).exists()
        raise DataError(
            f"{path} is no database" if is_there else f"no such {what}: {path}",
            expected="a file of DuckDB or SQLite, as a query is given",
            hint="leave the query out" if is_there else "check the path",
        )
    first = re.match(r"[a-z]*", query[_BEFORE.match(query).end() :], re.IGNORECASE)  # type: ignore[union-attr]
    if first is None or first[0].upper() not in ("SELECT", "WITH"):
        raise _refused(path, f"it begins with {first[0] if first and first[0] else 'nothing'}")
    table = (_from_sqlite if kind == "sqlite" else _from_duckdb)(path, query, wanted, whole)
    check_once(table.column_names, "the result of the query")
    if table.num_rows == 0:
        raise DataError(
            f"the query finds no rows in {path}",
            expected="at least one row",
            hint="check its conditions",
        )
    for name in set(table.column_names):
        _check_lengths(table[name], name, path)
    names = [name.strip() for name in table.column_names]
    if whole in names and ordered not in names and not _ORDERED.search(query):
        raise DataError(
            f"the query of {path} finds its rows in no order of their own",
            expected=f"a column {ordered!r}, or rows in order, as each {whole} is what comes "
            "after what",
            hint="say ORDER BY, with a column that orders the rows",
        )
    return table


def _refused(path: str | Path, problem: str) -> DataError:
    return DataError(
        f"the query of {path} is refused: {problem}",
        expected="one SELECT, or WITH ... SELECT, that reads this file alone",
        hint="write the rows of the log as one SELECT",
    )


def _failed(path: str | Path, error: BaseException) -> DataError:
    said = " ".join(str(error).split("\n\nLINE")[0].split())
    said = _VALUE.sub("a text", said)
    if any(word in said for word in ("not authorized", "authorization", "Permission Error")):
        return _refused(path, f"it does more than to read ({said})")
    return DataError(
        f"the query of {path} fails: {said.rstrip('.!')}",
        expected="a SELECT over tables and columns that the file has",
        hint="correct the query, or check that the file is whole",
    )


def _from_duckdb(path: str | Path, query: str, wanted: Collection[str], whole: str) -> pa.Table:
    duckdb = import_extra("duckdb", f"{path} is a file of DuckDB, which is not installed", "tables")
    try:
        with closing(duckdb.connect(str(path), read_only=True, config=_CLOSED)) as connection:
            statements = connection.extract_statements(query)
            if len(statements) != 1:
                raise _refused(path, f"it has {len(statements)} statements")
            if statements[0].type != duckdb.StatementType.SELECT:
                raise _refused(path, f"it is a statement of type {statements[0].type.name}")
            return connection.sql(query).to_arrow_table()
    except (duckdb.Error, UnicodeError) as error:
        raise _failed(path, error) from None


def _from_sqlite(path: str | Path, query: str, wanted: Collection[str], whole: str) -> pa.Table:
    # Whoever reads a file with a write-ahead log leaves two files beside it, unless told that
    # nobody writes: which is so where nobody has left such files.
    with Path(path).open("rb") as stream:
        is_ahead = stream.read(20)[18:] == b"\x02\x02" and not Path(f"{path}-wal").exists()
    place = f"{Path(path).resolve().as_uri()}?mode=ro" + "&immutable=1" * is_ahead
    try:
        with closing(sqlite3.connect(place, uri=True)) as connection:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
            connection.set_authorizer(_authorized)
            cursor = connection.execute(_with_names(query))
            names = [column[0] for column in cursor.description]
            check_once([name.strip() for name in names], "the result of the query")
            rows = _rows(cursor, names)
            return table_of_rows(rows, names, wanted, "row", f"the query of {path}", whole)
    except (sqlite3.Error, sqlite3.Warning, UnicodeError) as error:
        if "one statement" in str(error):
            raise _refused(path, "it has several statements") from None
        raise _failed(path, error) from None


def _with_names(query: str) -> str:
    """Return a query in which what stands in double quotation marks can only be a name.

    SQLite takes "nope" for a text where no column is called so: one state for all rows.
    """

    def written(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        name = found[1].replace('""', '"').replace("`", "``")
        return f"`{name}`"

    return _QUOTED.sub(written, query)


def _check_lengths(column: Any, name: str, path: str | Path) -> None:
    """Refuse texts that are no labels."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return
    longest = pc.max(pc.utf8_length(column)).as_py() or 0
    if longest > _LONGEST_LABEL:
        raise DataError(
            f"column {name!r} of the query of {path} holds a text of {longest:,} characters",
            expected=f"labels of at most {_LONGEST_LABEL:,}",
            hint="select the column that names the states or actions",
        )


def _rows(cursor: sqlite3.Cursor, names: list[str]) -> Iterator[dict[str, Any]]:
    for row in cursor:
        yield dict(zip(names, row, strict=True))


def _authorized(code: int, first: str | None, second: str | None, *_: Any) -> int:
    is_reading = code in _READING and second != "load_extension"
    return sqlite3.SQLITE_OK if is_reading else sqlite3.SQLITE_DENY
