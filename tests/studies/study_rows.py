"""Rows of studies as the tests compare them."""

import pyarrow as pa


def keys(plan):
    """Return the columns that tell rows of a plan apart."""
    return ["run", *plan.factors, "setting"]


def ordered(table):
    """Return the rows in the order of their keys, as bytes that are equal iff the rows are."""
    for place, name in enumerate(table.column_names):
        if pa.types.is_dictionary(table.schema.types[place]):
            table = table.set_column(place, name, table[name].cast(pa.string()))
    before = table.column_names[: table.column_names.index("score")]
    table = table.sort_by([(key, "ascending") for key in before]).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()
