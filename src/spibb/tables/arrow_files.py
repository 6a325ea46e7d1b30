"""Files of the Arrow format, and of Feather, which is the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from spibb.tables.columns import decoded, without_unnamed
from spibb.tables.free_memory import check_memory
from spibb.tables.source import Source, Wanted

if TYPE_CHECKING:
    import pyarrow as pa


class ArrowSource(Source):
    """Files of the Arrow format."""

    title = "Arrow"
    suffixes = (".arrow", ".feather", ".ipc")

    def read(self, file: Path, wanted: Wanted) -> pa.Table:
        """Read the columns that are wanted."""
        import pyarrow as pa

        with pa.memory_map(str(file)) as source:
            try:
                whole = pa.ipc.open_file(source).read_all()
            except pa.ArrowInvalid:
                source.seek(0)
                whole = pa.ipc.open_stream(source).read_all()
            check_memory(whole.num_rows, f"the {wanted.what} {file}")
            names = without_unnamed(whole, file).column_names
            kept = {name: whole[name] for name in names if name.strip() in wanted.columns}
            # Offsets of a damaged file may lead anywhere.
            pa.table(kept).validate(full=True)
            columns = [
                decoded(kept[name], name) if name in kept else pa.nulls(len(whole))
                for name in names
            ]
        return without_unnamed(pa.table(columns, names=[name.strip() for name in names]), file)
