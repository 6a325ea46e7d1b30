"""Whatever rows there are, every door reads the log that they are written down from."""

import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spibb import Counts, Log, count_log, read_log
from spibb.errors import DataError

# Names with everything that separates fields, and what other readers take for something else.
WORDS = [
    "a",
    "b;c",
    "d,e",
    "f|g",
    'h"i',
    "tab\there",
    "ä",
    "null",
    "NA",
    "nan",
    "2024-01-31",
    "007",
]
NUMBERS = [0, 1, 2, 9, 10, 300_000, 12_345_678_901]


@st.composite
def tables(draw):
    """A log of a few episodes, by words or by numbers."""
    names = draw(st.sampled_from([WORDS, NUMBERS]))
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    n = sum(lengths)
    some = st.sampled_from(names)
    rows = st.lists(some, min_size=n, max_size=n)
    columns = {
        "episode": [k for k, length in enumerate(lengths) for _ in range(length)],
        "step": [k for length in lengths for k in range(length)],
        "state": draw(rows),
        "action": draw(rows),
        "reward": draw(st.lists(st.integers(-8, 8).map(lambda k: k / 4), min_size=n, max_size=n)),
    }
    if draw(st.booleans()):
        columns["next_state"] = draw(st.lists(some | st.none(), min_size=n, max_size=n))
        kind = pa.int64() if names is NUMBERS else pa.string()
        columns["next_state"] = pa.array(columns["next_state"], kind)
        columns["terminated"] = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    return pa.table(columns)


def plainly(table):
    """Number the names in their order, one by one."""
    columns = table.to_pydict()
    labels = {}
    for name, parts in (("state", ["state", "next_state"]), ("action", ["action"])):
        met = {x for part in parts for x in columns.get(part, []) if x is not None}
        order = sorted(met)
        for part in parts:
            if part in columns:
                places = [-1 if x is None else order.index(x) for x in columns[part]]
                columns[part] = places
        labels[f"{name}_labels"] = [str(x) for x in order]
    return Log.from_arrays(**columns, **labels)


def write_sqlite(table, path):
    with closing(sqlite3.connect(path)) as connection:
        table.to_pandas(integer_object_nulls=True).to_sql("log", connection, index=False)


def write_csv(mark):
    options = pyarrow.csv.WriteOptions(delimiter=mark)
    return lambda table, path: pyarrow.csv.write_csv(table, path, options)


def write_zst(table, path):
    with pa.CompressedOutputStream(str(path), "zstd") as stream:
        pyarrow.csv.write_csv(table, stream)


def write_json(table, path):
    frame = table.to_pandas(integer_object_nulls=True)
    frame.to_json(path, orient="records", lines=True, force_ascii=False)


DOORS = {
    "a.csv": write_csv(","), "b.csv": write_csv(";"), "c.tsv": write_csv("\t"),
    "d.csv": write_csv("|"), "e.csv.zst": write_zst, "f.jsonl": write_json,
    "g.parquet": pq.write_table, "h.arrow": pyarrow.feather.write_feather, "i.db": write_sqlite,
}  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
@settings(max_examples=25, deadline=None)
@given(table=tables())
def test_every_door_reads_the_same_log(door, table):
    wanted = plainly(table)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / door
        DOORS[door](table, path)
        query = {"query": "SELECT * FROM log"} if door == "i.db" else {}
        log = read_log(path, **query)
        assert tuple(log.states) == tuple(wanted.states)
        assert tuple(log.actions) == tuple(wanted.actions)
        assert log.content_hash == wanted.content_hash
        counts = count_log(path, keep_ends=True, **query)
        assert (tuple(counts.states), tuple(counts.actions)) == (
            tuple(log.states),
            tuple(log.actions),
        )
        with suppress(DataError):  # no row leads anywhere
            assert (counts.n_sa == Counts.from_log(log).n_sa).all()
