"""Rows of plain values as Arrow columns: what JSON lines and databases without types hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from spibb.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

# Rows that are plain values at a time.
_ROWS = 1 << 16
_KINDS = {bool: "true or false", int: "numbers", float: "numbers", str: "text", bytes: "bytes"}


def table_of_rows(
    rows: Iterable[Mapping[str, Any]], names: Iterable[str], wanted: Collection[str], row: str,
    source: str, hidden: str | None = None,
) -> pa.Table:  # fmt: skip
    """Make a table of rows; of columns that nobody wants, the names alone.

    A column holds one kind of values, and nothing is made of another kind.

    Args:
        rows: A mapping from columns to values for each row; what it leaves out is empty.
        names: Columns that are known before.
        wanted: Columns that are kept.
        row: What messages call a row, as "line".
        source: What they call the source.
        hidden: Column of which they show no values: ids of episodes.
    """
    import pyarrow as pa

    left, n_rows = iter(rows), 0
    columns: dict[str, _Column] = {name: _Column(name, row, source, hidden) for name in names}
    while chunk := list(islice(left, _ROWS)):
        for name in dict.fromkeys(name for one in chunk for name in one):
            columns.setdefault(name, _Column(name, row, source, hidden))
        for name, column in columns.items():
            if name.strip() in wanted:
                column.add([one.get(name) for one in chunk], n_rows)
        n_rows += len(chunk)
    kept = [column.joined(n_rows) for column in columns.values()]
    return pa.table(kept, names=[name.strip() for name in columns])


class _Column:
    """One column, as it comes."""

    def __init__(self, name: str, row: str, source: str, hidden: str | None) -> None:
        self.name, self._row, self._source = name.strip(), row, source
        self._is_hidden = self.name == hidden
        self._kind: str | None = None
        self._parts: list[Any] = []
        self._n_rows = 0

    def add(self, values: list[Any], first: int) -> None:
        """Append values, of rows from ``first`` on."""
        import pyarrow as pa

        for kind in {type(value) for value in values} - {type(None)}:
            self._kind = self._kind or _KINDS.get(kind)
            if self._kind is None or _KINDS.get(kind) != self._kind:
                self._refuse(values, first, kind)
        try:
            part = pa.array(values)
        except (pa.ArrowException, OverflowError):
            large = next(k for k, v in enumerate(values) if isinstance(v, int) and abs(v) >= 2**63)
            told = "a number" if self._is_hidden else str(values[large])
            raise DataError(
                f"{self.name} {told} is out of range",
                where=self._place(first + large),
                expected="numbers below 2^63, or text",
                hint="write identifiers as text",
                episode=values[large] if self._is_hidden else None,
            ) from None
        self._parts += [pa.nulls(first - self._n_rows), part]
        self._n_rows = first + len(values)

    def _refuse(self, values: list[Any], first: int, kind: type) -> None:
        row = next(place for place, value in enumerate(values) if type(value) is kind)
        if self._kind is None or kind not in _KINDS:
            expected = "one number or label in each row"
        else:
            expected = f"{self._kind}, as before"
        told = _KINDS.get(kind, "a list or so") if self._is_hidden else repr(values[row])
        raise DataError(
            f"column {self.name!r} holds {told}",
            where=self._place(first + row),
            expected=expected,
            hint="write all values of a column alike",
            episode=values[row] if self._is_hidden else None,
        )

    def _place(self, row: int) -> str:
        return f"{self._row} {row + 1} of {self._source}"

    def joined(self, n_rows: int) -> Any:
        """Return the column, empty in rows that did not have it."""
        import pyarrow as pa

        if self._kind is None:
            return pa.nulls(n_rows)
        kinds = {part.type for part in self._parts} - {pa.null()}
        # Whole numbers beyond 2^53 are rounded here, and refused as names later.
        kind = pa.float64() if pa.float64() in kinds else kinds.pop()
        parts = [*self._parts, pa.nulls(n_rows - self._n_rows)]
        return pa.chunked_array([part.cast(kind, safe=False) for part in parts], kind)
