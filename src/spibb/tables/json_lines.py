"""JSON lines: one object for each row, and nothing else on its line."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spibb.errors import DataError
from spibb.tables.columns import without_unnamed
from spibb.tables.packing import opened
from spibb.tables.row_values import table_of_rows
from spibb.tables.source import Source, Wanted

if TYPE_CHECKING:
    import pyarrow as pa


class JsonLinesSource(Source):
    """Text files with a JSON object on each line."""

    title = "JSON lines"
    suffixes = (".jsonl", ".ndjson")
    may_be_packed = True
    advice = "check that it is text in UTF-8, an object on each line, and complete"

    def read(self, file: Path, wanted: Wanted) -> pa.Table:
        """Read the columns that are wanted."""
        found = read_json_lines(file, what=wanted.what, wanted=wanted.columns, hidden=wanted.hidden)
        return without_unnamed(found, file)


def read_json_lines(
    file: Path, *, what: str, wanted: Collection[str], hidden: str | None = None
) -> pa.Table:
    """Read some columns; the others are there by name, but empty.

    Numbers are numbers and texts are texts, as they are written: dates stay texts.

    Args:
        file: The file.
        what: What it is to the user, for messages.
        wanted: Columns to read.
        hidden: Column whose values no message shows.
    """
    return table_of_rows(_objects(file, what), (), wanted, "line", str(file), hidden)


def _objects(file: Path, what: str) -> Iterator[dict[str, Any]]:
    decode, n_filled = json.JSONDecoder(object_pairs_hook=_object).decode, 0
    with opened(file) as (stream, _):
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            n_filled += 1
            if n_filled < number:  # only the end of a file may be empty lines
                raise _refused(file, what, n_filled, "is empty")
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                found = decode(text)
            except UnicodeDecodeError:
                raise _refused(file, what, number, "is not text in UTF-8") from None
            except _TwiceError as error:
                raise _refused(file, what, number, f"has {error} twice") from None
            except (ValueError, RecursionError):
                raise _refused(file, what, number, "is not JSON") from None
            if not isinstance(found, dict):
                raise _refused(file, what, number, "is no object")
            yield found


class _TwiceError(Exception):
    """A name that an object has twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _TwiceError(repr(next(name for name in names if names.count(name) > 1)))
    return found


def _refused(file: Path, what: str, number: int, problem: str) -> DataError:
    return DataError(
        f"cannot read the {what} {file}: line {number} {problem}",
        expected='an object on each line, as {"state": "fever", "action": "rest", "reward": 1}',
        hint="correct the line or leave it out",
    )
