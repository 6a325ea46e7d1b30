"""One CSV file as an Arrow table: nothing is guessed, names stay as they are written.

The reader would guess what a column holds: 007 and 7 become one episode, 0x10 becomes 16, and
numbers beyond 2^53 are rounded together. So every column that matters is read as text or as a
number, as its meaning has it, and the others are not read at all.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from spibb.errors import DataError
from spibb.tables.columns import check_once, without_unnamed
from spibb.tables.csv_delimiters import DELIMITERS, find_delimiter
from spibb.tables.csv_quotes import scan_quotes
from spibb.tables.packing import opened
from spibb.tables.source import NotStreamedError, StreamedSource, Wanted

if TYPE_CHECKING:
    import pyarrow as pa

# How a whole number is written; anything else, "007" or "1e1", is a name and stays as it is.
_WHOLE = r"^(-?[1-9][0-9]{0,17}|0)$"
_UNEVEN = re.compile(r"Row #(\d+): Expected (\d+) columns?, got (\d+)")
# Bytes that are read at a time.
_BLOCK = 1 << 24
# Longer names of columns are no names.
_LONGEST_HEADER = 1 << 20
# Lines that tell what separates fields, beside the header.
_N_LINES = 20


class CsvLayout(NamedTuple):
    """How a CSV file is written.

    Attributes:
        names: The names of its columns, as they stand there.
        has_newlines: Whether fields go over lines.
        delimiter: What separates fields.
    """

    names: list[str]
    has_newlines: bool
    delimiter: str


class CsvSource(StreamedSource):
    """Text files whose fields commas, semicolons, tabs or vertical bars separate."""

    title = "CSV"
    suffixes = (".csv", ".tsv")
    may_be_packed = True
    advice = "check that it is text in UTF-8, separated by commas, with a header, and complete"
    has_texts = True

    def read(self, file: Path, wanted: Wanted) -> pa.Table:
        """Read the columns that are wanted."""
        found = read_csv(file, what=wanted.what, names=wanted.names, numbers=wanted.numbers)
        return without_unnamed(found, file)

    def head(self, file: Path, what: str) -> pa.Table:
        """Return the columns of a file as a table without rows."""
        import pyarrow as pa

        layout = csv_layout(file, what)
        if layout.has_newlines:
            raise NotStreamedError("fields that go over lines")
        text = pa.dictionary(pa.int32(), pa.string())
        return pa.table({name.strip(): pa.array([], text) for name in layout.names})

    def batches(
        self, file: Path, texts: Collection[str], numbers: Collection[str], n_rows: int
    ) -> Iterator[tuple[Any, float]]:
        """Yield batches of rows, each with the share of the file that is read by then."""
        import pyarrow as pa

        layout, n_bytes = csv_layout(file, "log"), file.stat().st_size
        text = pa.dictionary(pa.int32(), pa.string())
        kinds = {
            name: text if name.strip() in texts else pa.float64()
            for name in layout.names
            if name.strip() in {*texts, *numbers}
        }
        try:
            for table, n_read in csv_blocks(file, layout, kinds, _BLOCK):
                for batch in table.to_batches(max_chunksize=n_rows):
                    yield batch, n_read / n_bytes
        except (pa.ArrowException, OSError, UnicodeError) as error:
            raise NotStreamedError(str(error)) from None


def read_csv(
    file: Path, *, what: str, names: Collection[str], numbers: Collection[str] = ()
) -> pa.Table:
    """Read some columns of a CSV file; the others are there, but empty.

    The first row that has too many or too few fields is refused, and so is a quotation mark that is
    never closed: it swallows every row that follows.

    Args:
        file: The file.
        what: What it is to the user, for messages.
        names: Columns that are kept as written.
        numbers: Columns of numbers. Where one is none, the column is text.
    """
    import pyarrow as pa

    layout = csv_layout(file, what)
    header = [name.strip() for name in layout.names]
    text = pa.dictionary(pa.int32(), pa.string())
    kinds: dict[str, Any] = {name: text for name in header if name in names}
    kinds |= {name: pa.float64() for name in header if name in numbers}
    try:
        table = _read(file, what, layout, kinds)
    except pa.ArrowInvalid as error:
        if "conversion error to double" not in str(error):
            raise
        # Only text can say which row is wrong.
        kinds |= dict.fromkeys(set(numbers) & set(header), text)
        table = _read(file, what, layout, kinds)
    columns = [table[name] if name in kinds else pa.nulls(len(table)) for name in header]
    return pa.table(columns, names=header)


def csv_layout(file: Path, what: str) -> CsvLayout:
    """Find out how a file is written: nothing is there twice, and quotation marks are closed."""
    _check_encoding(file, what)
    names, delimiter = _header(file, what)
    return CsvLayout(names, scan_quotes(file, what, delimiter), delimiter)


def csv_blocks(
    file: Path, layout: CsvLayout, kinds: Mapping[str, Any], n_bytes: int
) -> Iterator[tuple[pa.Table, int]]:
    """Read columns of a CSV file whose fields stay on their lines, block by block.

    What is wrong with the file raises Arrow's errors, which know nothing of other blocks.

    Args:
        file: The file.
        layout: How it is written.
        kinds: What is read, by names as they stand there.
        n_bytes: Size of a block, or of a line, if that is longer.

    Yields:
        Tables with the place in the file, packed or not, up to which they go.
    """
    import pyarrow as pa
    import pyarrow.csv

    convert = pyarrow.csv.ConvertOptions(
        strings_can_be_null=True, null_values=[""], column_types=dict(kinds),
        include_columns=list(kinds),
    )  # fmt: skip
    parse = pyarrow.csv.ParseOptions(delimiter=layout.delimiter)
    names: list[str] | None = None
    with opened(file) as (stream, raw):
        while block := stream.read(n_bytes):
            block += stream.readline()
            if not block.strip():
                continue
            options = pyarrow.csv.ReadOptions(column_names=names)
            table = pyarrow.csv.read_csv(pa.BufferReader(block), options, parse, convert)
            names = layout.names
            yield table, raw.tell()


def _check_encoding(file: Path, what: str) -> None:
    with opened(file) as (stream, _):
        start = stream.read(4096)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\x00" in start:
        raise DataError(
            f"cannot read the {what} {file}: it is not text in UTF-8, but UTF-16 or so",
            expected="text in UTF-8, fields separated by commas or the like",
            hint="save it as CSV in UTF-8",
        )


def _header(file: Path, what: str) -> tuple[list[str], str]:
    """Return the names of the columns as they stand there, each once, and what separates them."""
    import pyarrow as pa
    import pyarrow.csv

    lines = b""
    with opened(file) as (stream, _):
        # Names in quotation marks may go over several lines.
        while len(lines) < _LONGEST_HEADER:
            line = stream.readline(_LONGEST_HEADER)
            lines += line
            if not line or (lines.strip() and lines.count(b'"') % 2 == 0):
                break
        more = b"".join(stream.readline(_LONGEST_HEADER) for _ in range(_N_LINES))
    if not lines.strip(b"\xef\xbb\xbf \t\r\n"):
        raise DataError(
            f"cannot read the {what} {file}: it is empty",
            expected="a header with the names of the columns",
        )
    delimiter = find_delimiter(lines + more, file, what)
    parse = pyarrow.csv.ParseOptions(delimiter=delimiter)
    try:
        text = io.BytesIO(lines.rstrip(b"\r\n") + b"\n")
        found = pyarrow.csv.read_csv(text, parse_options=parse).column_names
    except pa.ArrowInvalid:
        # A file of one line without an end, or of old Macintosh line ends.
        found = pyarrow.csv.open_csv(file, parse_options=parse).schema.names
    check_once([name.strip() for name in found], file)
    return list(found), delimiter


def _read(file: Path, what: str, layout: CsvLayout, kinds: dict[str, Any]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.csv

    chosen = {raw: kinds[raw.strip()] for raw in layout.names if raw.strip() in kinds}

    def read(use_threads: bool) -> pa.Table:
        return pyarrow.csv.read_csv(
            file,
            read_options=pyarrow.csv.ReadOptions(use_threads=use_threads),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=layout.delimiter, newlines_in_values=layout.has_newlines
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                # An empty cell is a missing value in every column; "NA" may be a label.
                strings_can_be_null=True,
                null_values=[""],
                column_types=chosen,
                include_columns=list(chosen) or [layout.names[0]],
            ),
        )

    try:
        try:
            table = read(use_threads=True)
        except pa.ArrowInvalid:
            # Only a single thread knows which row is wrong; it is worth reading twice to say so.
            table = read(use_threads=False)
    except pa.ArrowInvalid as error:
        if "Empty CSV file" in str(error):
            # A header without an end of line, and nothing else.
            return pa.table({name: pa.nulls(0) for name in kinds})
        uneven = _UNEVEN.search(str(error))
        if uneven is None:
            raise
        raise _uneven(uneven, file, what, DELIMITERS[layout.delimiter]) from None
    return table.rename_columns([name.strip() for name in table.column_names])


def _uneven(found: re.Match[str], file: Path, what: str, marks: str) -> DataError:
    row, n_expected, n_found = (int(number) for number in found.groups())
    return DataError(
        f"cannot read the {what} {file}: a row has {n_found} field{'' if n_found == 1 else 's'}",
        # The header is the first row of the file, but not of the table.
        where=f"row {row - 1}",
        expected=f"{n_expected}, as in the header, separated by {marks}",
        hint=f"complete the row, or put quotation marks around fields that contain {marks}",
    )


def numbers_or_names(
    columns: Mapping[str, Sequence[Any]], may_lack: Collection[str] = ()
) -> dict[str, list[Any]]:
    """Turn columns of texts that share their names into whole numbers, if all of them are.

    One decision for all of them, whatever files they come from: else a state would be a number here
    and a name there. Spaces around a name, and the empty fraction that data frames give to the
    whole numbers of a column with empty cells, are left out: of two files, one may have such cells
    and the other not. Where two names of one column of one file would become one, they are names,
    and everything stays as it is written.

    Args:
        columns: By name, the column of each file, of dictionaries.
        may_lack: Columns with empty cells, for which some programs write nan among numbers.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = {
        name: [part.unify_dictionaries() for part in parts] for name, parts in columns.items()
    }
    known = [_texts(part) for parts in columns.values() for part in parts]
    is_safe = all(len(pc.unique(_tidied(texts))) == len(texts) for texts in known)

    def names(texts: Any) -> Any:
        return _tidied(texts) if is_safe else texts

    def numbers(name: str, texts: Any) -> Any:
        found = names(texts)
        if name in may_lack:
            found = pc.if_else(pc.is_in(found, pa.array(["nan", "NaN"])), None, found)
        return found

    are_whole = all(
        # A column of empty cells alone holds no name.
        pc.all(pc.match_substring_regex(numbers(name, _texts(part)), _WHOLE), min_count=0).as_py()
        for name, parts in columns.items()
        for part in parts
    )

    def decided(name: str, texts: Any) -> Any:
        return numbers(name, texts).cast(pa.int64()) if are_whole else names(texts)

    return {
        name: [_mapped(part, partial(decided, name)) for part in parts]
        for name, parts in columns.items()
    }


def _texts(column: Any) -> Any:
    """Return the different texts of a column of dictionaries."""
    import pyarrow as pa

    return column.chunk(0).dictionary if column.num_chunks else pa.array([], pa.string())


def _tidied(texts: Any) -> Any:
    import pyarrow.compute as pc

    trimmed = pc.ascii_trim_whitespace(texts)
    trimmed = pc.if_else(pc.equal(trimmed, ""), texts, trimmed)  # a name of spaces alone
    return pc.replace_substring_regex(trimmed, r"^(-?[1-9][0-9]*|0)\.0*$", r"\1")


def _mapped(column: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function to the different texts of a column."""
    import pyarrow as pa

    values = function(_texts(column))
    return pa.chunked_array([values.take(part.indices) for part in column.chunks], values.type)
