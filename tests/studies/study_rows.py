"""Rows of studies as the tests compare them."""

import pyarrow as pa

KEYS = ("run", "eta", "size", "setting")


def ordered(table):
    """Return the rows in the order of their keys, as bytes that are equal iff the rows are."""
    names = table.column_names
    table = table.set_column(names.index("setting"), "setting", table["setting"].cast(pa.string()))
    table = table.sort_by([(key, "ascending") for key in KEYS]).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()
