"""Tables and paths that are mistaken, damaged, or made to do harm."""

import gzip
import json
import os
import sqlite3
import tracemalloc
from contextlib import closing

import pytest

from spibb.data.readers import read_log
from spibb.errors import DataError


@pytest.fixture
def database(tmp_path):
    """Return a function that makes a file of SQLite with a table of given rows."""

    def make(rows):
        path = tmp_path / "log.sqlite"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(
                'CREATE TABLE log (state TEXT, "the ""act"" taken" TEXT, reward REAL)'
            )
            connection.executemany("INSERT INTO log VALUES (?, ?, ?)", rows)
            connection.commit()
        return path

    return make


ROWS = [("a", "x", 1.0), ("b", "y", 0.0)]


def test_a_misspelt_column_in_quotation_marks_is_no_text(database):
    query = 'SELECT "stat" AS state, "the ""act"" taken" AS action, reward FROM log'
    with pytest.raises(DataError, match="no such column: stat"):
        read_log(database(ROWS), query=query)


def test_what_only_looks_like_a_name_stays(database):
    query = """
        SELECT "state", "the ""act"" taken" AS action, -- it's "reward" that counts
               reward, 'a "b" ''c''' AS [a "d"] FROM "log" /* "nope" */ WHERE state <> 'it''s "z"'
    """
    log = read_log(database(ROWS), query=query)
    assert (log.state_labels, log.action_labels) == (("a", "b"), ("x", "y"))


@pytest.mark.parametrize("size", [100_000, 1 << 27])
def test_a_text_that_is_no_label_is_refused(database, size):
    path, label = database(ROWS), f"state || hex(zeroblob({size // 2}))"
    query = f"SELECT {label} AS state, 'x' AS action, 1 AS reward FROM log"
    tracemalloc.start()
    with pytest.raises(DataError, match=r"100,001 characters|too big"):
        read_log(path, query=query)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e7


@pytest.mark.parametrize("name", ["log.csv.gz", "log.jsonl.gz"])
def test_a_packed_line_that_fills_the_memory_is_refused(tmp_path, name):
    head = b"state,action,reward\n" if "csv" in name else b'{"state": "'
    with gzip.open(tmp_path / name, "wb", compresslevel=1) as stream:
        stream.write(head)
        for _ in range(150):
            stream.write(bytes(1 << 20).replace(b"\0", b"a"))
    tracemalloc.start()
    with pytest.raises(DataError, match=f"a line of .*{name} has more than 64 MB"):
        read_log(tmp_path / name)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3e8


def test_packed_tables_of_many_lines_are_read(tmp_path):
    rows = [{"state": x % 7, "action": x % 2, "reward": 1.0} for x in range(50_000)]
    with gzip.open(tmp_path / "log.jsonl.gz", "wt") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in rows)
    with gzip.open(tmp_path / "log.csv.gz", "wt") as stream:
        stream.write("state,action,reward\n")
        stream.writelines(f"{row['state']},{row['action']},1.0\n" for row in rows)
    assert (
        len(read_log(tmp_path / "log.jsonl.gz")) == len(read_log(tmp_path / "log.csv.gz")) == 50_000
    )


def test_no_path_is_not_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "log.csv").write_text("state,action,reward\n0,0,1\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    assert len(read_log(".")) == 1
    with pytest.raises(DataError, match="the path of the log is empty"):
        read_log("")


def test_a_link_to_nothing_is_called_so(tmp_path):
    link = tmp_path / "log.csv"
    os.symlink("gone.csv", link)
    with pytest.raises(DataError, match=r"log\.csv: it is a link to gone\.csv, which is not there"):
        read_log(link)


@pytest.mark.parametrize("name", ["../..", "toy/../../x-v0", "/etc", "", "a\\b", "toy//x", "."])
def test_data_sets_of_minari_lie_in_its_folder(name):
    with pytest.raises(DataError, match="is no name of a data set of Minari"):
        read_log(f"minari:{name}")
