"""Tables that cannot be read: one message that says what and where, code 2, nothing written."""

import gzip
import sqlite3
from contextlib import closing

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spibb import read_log
from spibb.errors import DataError

HEAD = "episode,step,state,action,reward\n"
GOOD = HEAD + "0,0,fever,drug,1\n0,1,calm,rest,2\n"


def assert_says(message, *fragments):
    for fragment in fragments:
        assert fragment in message, message


def packed(text, packing):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, packing) as stream:
        stream.write(text.encode())
    return sink.getvalue().to_pybytes()


LONG = HEAD + "".join(f"{k},0,fever,drug,{k}.5\n" for k in range(5_000))
WHOLE = gzip.compress(LONG.encode(), mtime=0)
LINES = gzip.compress(b'{"state": 1}\n' * 999, mtime=0)
FLIPPED = WHOLE[:400] + bytes(255 - byte for byte in WHOLE[400:410]) + WHOLE[410:]


@pytest.mark.parametrize(
    ("name", "content", "fragments"),
    [
        ("corrupt.csv.gz", FLIPPED, ["cannot read the log", "inflate", "complete"]),
        ("cut.csv.gz", WHOLE[: len(WHOLE) // 2], ["cannot read the log", "Truncated"]),
        ("cut.csv.zst", packed(LONG, "zstd")[:-20], ["cannot read the log", "Truncated"]),
        ("plain.csv.gz", GOOD.encode(), ["cannot read the log", "incorrect header"]),
        ("plain.csv.zst", GOOD.encode(), ["cannot read the log"]),
        ("cut.jsonl.gz", LINES[:-9], ["Truncated", "each line"]),
        ("no.arrow", b"ARROW1 and no more", ["cannot read the log", "complete"]),
        ("log.parquet.gz", b"", ["cannot tell the format", ".jsonl"]),
        ("log.json", b"[]", ["cannot tell the format", ".jsonl"]),
        ("a.jsonl", '{"state": 1}\n[1, 2]\n', ["line 2 is no object", "an object on each line"]),
        ("b.jsonl", "null\n", ["line 1 is no object"]),
        ("c.jsonl", '{"state": 1}\n{"state": \n', ["line 2 is not JSON", "correct the line"]),
        ("d.jsonl", '{"state": 1, "state": 2}\n', ["line 1 has 'state' twice"]),
        ("e.jsonl", '{"state": 1}\n\n{"state": 2}\n', ["line 2 is empty"]),
        ("f.jsonl", b'{"state": "\xe4"}\n', ["line 1 is not text in UTF-8"]),
        ("g.jsonl", '{"state": 1}\n{"state": "a"}\n',
         ["'state' holds 'a'", "line 2 of", "numbers, as before"]),
        ("h.jsonl", '{"state": {"x": 1}}\n', ["'state' holds {'x': 1}", "line 1 of"]),
        ("i.jsonl", '{"state": 99999999999999999999}\n', ["out of range", "line 1 of", "as text"]),
        ("j.jsonl", "[" * 100_000, ["line 1 is not JSON"]),
        ("k.jsonl", '{"sate": 1, "action": 0}\n', ["no column 'state', but it has 'sate'"]),
        ("l.jsonl", "\n", ["has no rows"]),
        ("marks.csv", "state,episode;action,reward;step\n0,0;0,1;0\n",
         ["cannot tell whether", "commas or semicolons", "the header", "quotation marks"]),
        ("ragged.csv", GOOD.replace(",", ";") + "0;2;calm;rest\n",
         ["a row has 4 fields", "row 3", "expected 5, as in the header, separated by semicolons"]),
        ("comma.csv", GOOD.replace(",", ";").replace(";2\n", ";2,5\n"),
         ["not a number: '2,5'", "row 2", "a point for decimals"]),
        ("spaces.csv", GOOD.replace(",", " "), ["no column 'state'", "semicolons, tabs"]),
        ("quote.csv", GOOD.replace(",", "\t").replace("calm", '"calm'),
         ["a quotation mark is never closed", "row 2"]),
    ],
)  # fmt: skip
def test_files(ward, refused, name, content, fragments):
    path = ward.write(name, content)
    for command in (ward.improve(log=path), ["inspect", path], count(ward, path)):
        assert_says(refused(*command), name, *fragments)


def count(ward, *log):
    return ["count", *log, "--out", ward.folder / "counts.npz"]


def test_a_folder_without_tables(ward, refused):
    (ward.folder / "empty").mkdir()
    (ward.folder / "parts" / "day=1").mkdir(parents=True)
    for folder in ("empty", "parts"):
        message = refused(*ward.improve(log=folder))
        assert_says(message, f"{folder} is a folder without tables", "expected a table in CSV")


def test_a_glob_that_matches_nothing(ward, refused):
    for command in (ward.improve(log="logs/*.csv"), ["inspect", "logs/*.csv"]):
        assert_says(refused(*command), "no such log: logs/*.csv matches no file", "check the path")


ROWS = {"episode": [0, 0], "step": [0, 1], "action": ["drug", "rest"], "reward": [1.0, 2.0],
        "state": ["fever", "calm"]}  # fmt: skip


@pytest.mark.parametrize(
    ("places", "other", "fragments"),
    [
        (("a", "b"), {"ward": ["x", "y"]}, ["different columns", "'ward'", "b/0.parquet has"]),
        (("a", "b"), {"reward": None}, ["different columns", "b/0.parquet lacks 'reward'"]),
        (("a", "b"), {"reward": ["much", "none"]}, ["'reward'", "not a number"]),
        (("day=1", "site=2"), {}, ["different columns", "'day'", "'site'"]),
        (("a", "b"), {"step": [[0], [1]]}, ["do not fit together", "same kind"]),
    ],
)
def test_files_of_a_folder_that_change(ward, refused, places, other, fragments):
    for place, changes in zip(places, ({}, other), strict=True):
        (ward.folder / "parts" / place).mkdir(parents=True)
        rows = {name: part for name, part in {**ROWS, **changes}.items() if part is not None}
        pq.write_table(pa.table(rows), ward.folder / "parts" / place / "0.parquet")
    path = "parts" if "=" in places[0] else "parts/*/*.parquet"
    for command in (ward.improve(log=path), count(ward, path)):
        assert_says(refused(*command), *fragments)


@pytest.fixture(params=["sqlite", "duckdb"])
def shop(request, ward):
    """A database with the log, of either kind."""
    path = ward.folder / "shop.db"
    rows = list(zip(*ROWS.values(), strict=True))
    create = "CREATE TABLE log (episode INT, step INT, action TEXT, reward REAL, state TEXT)"
    if request.param == "sqlite":
        connection = sqlite3.connect(path)
    else:
        module = pytest.importorskip("duckdb", reason="duckdb is not installed")
        connection = module.connect(str(path))
    with closing(connection):
        connection.execute(create)
        connection.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?)", rows)
        connection.commit()
    return path


REFUSED = ["is refused", "one SELECT"]


@pytest.mark.parametrize(
    ("query", "fragments"),
    [
        ("INSERT INTO log SELECT * FROM log", REFUSED),
        ("UPDATE log SET reward = 100", REFUSED),
        ("-- SELECT\nDROP TABLE log", REFUSED),
        ("CREATE TABLE more AS SELECT * FROM log", REFUSED),
        ("WITH a AS (SELECT * FROM log) INSERT INTO log SELECT * FROM a", REFUSED),
        ("ATTACH 'other.db' AS other", REFUSED),
        ("COPY log TO 'log.csv'", REFUSED),
        ("VACUUM INTO 'other.db'", REFUSED),
        ("PRAGMA database_list", REFUSED),
        ("SELECT * FROM log; SELECT * FROM log", [*REFUSED, "statements"]),
        ("SELECT * FROM log; DROP TABLE log", [*REFUSED, "statements"]),
        ("EXPLAIN SELECT * FROM log", REFUSED),
        ("", [*REFUSED, "begins with nothing"]),
        ("SELECT place AS state, * FROM log", ["fails", "place", "correct the query"]),
        ("SELECT * FROM visits", ["fails", "visits", "correct the query"]),
        ("SELECT FROM WHERE", ["fails", "correct the query"]),
        ("SELECT * FROM log WHERE reward > 9", ["finds no rows", "at least one row"]),
        ("SELECT state, state AS state, action FROM log", ["2 columns called 'state'"]),
        ("SELECT episode, state, action FROM log ORDER BY step", ["no column 'reward'"]),
        ("SELECT episode, state, action, reward FROM log", ["no order", "say ORDER BY"]),
    ],
)
def test_queries(ward, refused, shop, query, fragments):
    before = shop.read_bytes()
    for command in (
        ward.improve("--query", query, log=shop),
        ["inspect", shop, "--query", query],
        count(ward, shop, "--query", query),
    ):
        assert_says(refused(*command), *fragments)
    assert shop.read_bytes() == before


def test_a_query_sees_nothing_but_its_file(ward, shop):
    ward.write("secret.csv", GOOD)
    queries = ["SELECT * FROM read_csv('secret.csv')", "SELECT * FROM 'secret.csv'",
               "SELECT * FROM read_text('secret.csv')", "SELECT load_extension('x')",
               "SELECT * FROM pragma_table_info('log')"]  # fmt: skip
    for query in queries:
        with pytest.raises(
            DataError, match=r"is refused: it does more|the query of .* fails|no column"
        ):
            read_log(shop, query=query)


def test_a_query_that_keeps_order(shop):
    log = read_log(shop, query="SELECT episode, state, action, reward FROM log ORDER BY step DESC")
    assert [log.states[x] for x in log.state] == ["calm", "fever"]


def test_a_database_and_its_query_belong_together(ward, refused, shop):
    assert_says(refused(*ward.improve(log=shop)), "shop.db is a database", "--query 'SELECT")
    query = "SELECT * FROM log"
    assert_says(refused(*ward.improve("--query", query)), "log.csv is no database")
    absent = refused(*ward.improve("--query", query, log="absent.db"))
    assert_says(absent, "no such log: absent.db")


def test_columns_of_a_database_that_mix_kinds(ward, refused):
    with closing(sqlite3.connect(ward.folder / "mixed.db")) as connection:
        connection.execute("CREATE TABLE log (episode, step, state, action, reward)")
        rows = [(0, 0, 1, 0, 1.5), (0, 1, "one", 0, 1)]
        connection.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?)", rows)
        connection.commit()
    given = ward.improve("--query", "SELECT * FROM log", log="mixed.db")
    assert_says(refused(*given), "'state' holds 'one'", "row 2 of the query", "numbers, as before")


def test_a_package_that_is_not_there_is_named(ward, refused, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    path = ward.write("shop.duckdb", b"\0" * 8 + b"DUCK" + b"\0" * 100)
    given = ward.improve("--query", "SELECT 1", log=path)
    assert_says(refused(*given), "DuckDB, which is not installed", 'pip install "spibb[tables]"')


@pytest.mark.parametrize("name", ["state", "action"])
@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_measurements_are_no_states(ward, spibb, refused, kind, name):
    values = np.random.default_rng(8).normal(size=60)
    rows = {"episode": np.arange(60), "state": np.zeros(60, int), "action": np.zeros(60, int),
            "reward": np.ones(60), name: values}  # fmt: skip
    path, counts = ward.folder / f"log.{kind}", ward.folder / "counts.npz"
    frame = pa.table(rows).to_pandas()
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records", lines=True)
    assert spibb("count", path, "--out", counts).code == 0
    for log in (path, counts):
        assert_says(refused(*ward.improve("--baseline", "estimate", log=log)),
                    f"the {name} looks continuous: there are 60 different {name}s in 60 rows",
                    f"{name}s that occur again", "group the readings")  # fmt: skip
    inspected = spibb("inspect", path)
    assert inspected.code == 1
    assert "Commands refuse it" in " ".join(inspected.out.split())


def test_fractions_that_repeat_are_states(ward):
    text = HEAD + "".join(f"{k},0,{k % 7 / 4},0,1\n" for k in range(60))
    assert read_log(ward.write("halves.csv", text)).n_states == 7


def test_names_of_databases_are_names(ward, shop):
    path = shop.rename(ward.folder / "b#c%41 d;'.db")
    assert len(read_log(path, query="SELECT * FROM log")) == 2
