"""Parquet files."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spibb.tables.columns import decoded, without_unnamed
from spibb.tables.free_memory import BYTES_A_ROW, check_memory
from spibb.tables.source import StreamedSource, Wanted

if TYPE_CHECKING:
    import pyarrow as pa

_BUFFER = 1 << 20


class ParquetSource(StreamedSource):
    """Parquet files."""

    title = "Parquet"
    suffixes = (".parquet", ".pq")

    def read(self, file: Path, wanted: Wanted) -> pa.Table:
        """Read the columns that are wanted."""
        import pyarrow as pa
        import pyarrow.parquet

        source = pyarrow.parquet.ParquetFile(file)
        check_memory(source.metadata.num_rows, f"the {wanted.what} {file}")
        schema = source.schema_arrow
        # Checked before anything is read: of a name twice, which column is meant is unknown.
        kept = without_unnamed(schema.empty_table(), file).column_names
        places = [name for name in kept if name.strip() in wanted.columns]
        # As dictionaries, since a file of few bytes may hold a long text a million times.
        texts = [name for name in places if _is_text(schema.field(name).type)]
        table = pyarrow.parquet.read_table(file, columns=places, read_dictionary=texts)
        for name in texts:
            _check_lengths_of_texts(table[name], f"the {wanted.what} {file}")
        columns = [
            decoded(table[name], name) if name in places else pa.nulls(len(table)) for name in kept
        ]
        return without_unnamed(pa.table(columns, names=[name.strip() for name in kept]), file)

    def head(self, file: Path, what: str) -> pa.Table:
        """Return the columns of a file as a table without rows."""
        import pyarrow.parquet

        head = pyarrow.parquet.read_schema(file).empty_table()
        return head.rename_columns([name.strip() for name in head.column_names])

    def batches(
        self, file: Path, texts: Collection[str], numbers: Collection[str], n_rows: int
    ) -> Iterator[tuple[Any, float]]:
        """Yield batches of rows, each with the share of the file that is read by then."""
        import pyarrow.parquet

        n, n_all, wanted = 0, self.n_rows(file), {*texts, *numbers}
        schema = pyarrow.parquet.read_schema(file)
        columns = [name for name in schema.names if name.strip() in wanted]
        as_dictionary = [name for name in columns if _is_string(schema.field(name).type)]
        source = pyarrow.parquet.ParquetFile(
            file, read_dictionary=as_dictionary, buffer_size=_BUFFER, pre_buffer=False
        )
        for batch in source.iter_batches(n_rows, columns=columns):
            n += len(batch)
            yield batch, n / n_all

    def n_rows(self, file: Path) -> int:
        """Return the number of rows."""
        import pyarrow.parquet

        return int(pyarrow.parquet.read_metadata(file).num_rows)


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _is_string(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _check_lengths_of_texts(column: Any, what: str) -> None:
    """Refuse texts that do not fit into memory when each row has its own."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type):
        return
    lengths = [pc.max(pc.binary_length(part.dictionary)).as_py() or 0 for part in column.chunks]
    longest = max(lengths, default=0)
    check_memory(len(column), what, BYTES_A_ROW + 2 * longest)
