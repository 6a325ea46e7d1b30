"""The demo's log through every door: files, folders, databases and frames give the same policy."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import spibb as package
from spibb import ApproxSoftSPIBB, Counts, Log, TabularPolicy, count_log, read_log
from spibb.errors import DataError

DEMO = Path(package.__file__).parent / "cli" / "demo"
TEXT = (DEMO / "log.csv").read_bytes()
QUERY = "WITH visits AS (SELECT * FROM log) SELECT * FROM visits"


def table():
    return pyarrow.csv.read_csv(DEMO / "log.csv")


def wards():
    """The log in four parts, each stay in one of them."""
    stays = table()["episode"].to_numpy()
    return table().append_column("ward", pa.array([f"{stay % 4}/ä" for stay in stays]))


def packed(path, text, packing):
    with pa.CompressedOutputStream(str(path), packing) as stream:
        stream.write(text)
    return [path]


def separated(folder, mark):
    path = folder / "log.csv"
    options = pyarrow.csv.WriteOptions(delimiter=mark)
    pyarrow.csv.write_csv(table(), path, options)
    return [path]


def lines(folder, name):
    table().to_pandas().to_json(folder / name, orient="records", lines=True)
    return [folder / name]


def zst_lines(folder):
    return packed(folder / "log.ndjson.zst", lines(folder, "l.jsonl")[0].read_bytes(), "zstd")


def parquet(folder):
    pq.write_table(table(), folder / "log.parquet")
    return [folder / "log.parquet"]


def folder_of(folder, kind):
    """Files of one kind with the parts of the log."""
    (folder / "parts").mkdir()
    for name, part in wards().to_pandas().groupby("ward"):
        path = folder / "parts" / f"{name[0]}.{kind}"
        if kind == "parquet":
            part.to_parquet(path)
        else:
            part.to_csv(path, index=False)
    return [folder / "parts"]


def hive(folder, pattern=""):
    pyarrow.dataset.write_dataset(
        wards(), folder / "hive", format="parquet", partitioning=["ward"],
        partitioning_flavor="hive",
    )  # fmt: skip
    return [f"{folder / 'hive'}{pattern}"]


def feather(folder):
    pyarrow.feather.write_feather(table(), folder / "log.feather")
    return [folder / "log.feather"]


def arrow(folder, kind):
    with kind(str(folder / "log.arrow"), table().schema) as writer:
        writer.write(table())
    return [folder / "log.arrow"]


def polars_file(folder):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    polars.from_arrow(table()).write_ipc(folder / "log.ipc")
    return [folder / "log.ipc"]


def sqlite(folder, mode="delete"):
    connection = sqlite3.connect(folder / "shop.db")
    connection.execute(f"PRAGMA journal_mode={mode}")
    table().to_pandas().to_sql("log", connection, index=False)
    connection.close()
    return [folder / "shop.db", "--query", QUERY]


def duckdb(folder):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    log = table()  # noqa: F841 - DuckDB finds it by name
    with duckdb.connect(str(folder / "shop.db")) as connection:
        connection.execute("CREATE TABLE log AS SELECT * FROM log")
    return [folder / "shop.db", "--query", QUERY]


FILES = {
    "semicolons": lambda folder: separated(folder, ";"),
    "tabs": lambda folder: separated(folder, "\t"),
    "bars": lambda folder: separated(folder, "|"),
    "csv.gz": lambda folder: packed(folder / "log.csv.gz", TEXT, "gzip"),
    "csv.zst": lambda folder: packed(folder / "log.csv.zst", TEXT, "zstd"),
    "jsonl": lambda folder: lines(folder, "log.jsonl"),
    "jsonl.gz": lambda folder: lines(folder, "log.jsonl.gz"),
    "ndjson.zst": zst_lines,
    "parquet": parquet,
    "folder": lambda folder: folder_of(folder, "parquet"),
    "folder of csv": lambda folder: folder_of(folder, "csv"),
    "hive": hive,
    "glob": lambda folder: hive(folder, "/ward=*/*.parquet"),
    "feather": feather,
    "arrow file": lambda folder: arrow(folder, pa.ipc.new_file),
    "arrow stream": lambda folder: arrow(folder, pa.ipc.new_stream),
    "polars file": polars_file,
    "sqlite": sqlite,
    "sqlite with a write-ahead log": lambda folder: sqlite(folder, "wal"),
    "duckdb": duckdb,
}


def improve(*log):
    return ["improve", *log, "--baseline", DEMO / "baseline.csv", "--gamma", 0.95]


@pytest.fixture(scope="module")
def wanted(tmp_path_factory):
    """The policy of the log as it is shipped, and its hash."""
    log, baseline = read_log(DEMO / "log.csv"), TabularPolicy.read(DEMO / "baseline.csv")
    result = ApproxSoftSPIBB().improve(log, baseline=baseline, gamma=0.95)
    folder = tmp_path_factory.mktemp("wanted") / "out"
    result.write(folder)
    return folder, log


@pytest.mark.parametrize("door", FILES)
def test_every_door_gives_the_same_policy(tmp_path, wanted, spibb, door):
    given = FILES[door](tmp_path)
    before = sorted(tmp_path.rglob("*"))
    ran = spibb(*improve(*given), "--epsilon", 0.5, "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    for name in ("policy.csv", "policy.parquet"):
        assert (tmp_path / "out" / name).read_bytes() == (wanted[0] / name).read_bytes(), name
    shutil.rmtree(tmp_path / "out")
    assert sorted(tmp_path.rglob("*")) == before, "something was left beside the log"
    query = {"query": QUERY} if "--query" in given else {}
    assert read_log(given[0], **query).content_hash == wanted[1].content_hash
    counts = count_log(given[0], **query)
    assert np.array_equal(counts.n_sa, Counts.from_log(wanted[1]).n_sa)


def polars():
    return pytest.importorskip("polars", reason="polars is not installed")


FRAMES = {
    "pandas": lambda: table().to_pandas(),
    "index": lambda: table().to_pandas().set_index("state"),
    "MultiIndex": lambda: table().to_pandas().set_index(["episode", "step"]),
    "arrow": table,
    "batches": lambda: table().to_reader(),
    "polars": lambda: polars().from_arrow(table()),
    "lazy": lambda: polars().from_arrow(table()).lazy(),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_give_the_same_policy(tmp_path, wanted, kind):
    baseline = TabularPolicy.read(DEMO / "baseline.csv")
    ApproxSoftSPIBB().improve(FRAMES[kind](), baseline=baseline, gamma=0.95).write(tmp_path / "out")
    for name in ("policy.csv", "policy.parquet"):
        assert (tmp_path / "out" / name).read_bytes() == (wanted[0] / name).read_bytes(), name


@pytest.mark.parametrize("door", ["csv.zst", "hive", "sqlite", "jsonl"])
def test_every_command_takes_them(tmp_path, spibb, wanted, door):
    given = FILES[door](tmp_path)
    policy = ["--policy", wanted[0] / "policy.csv"]
    rest = improve(*given)[1:]
    for command in (
        ["inspect", *given],
        ["audit", *rest, *policy],
        ["evaluate", *rest, *policy, "--estimator", "wis"],
        ["count", *given, "--out", tmp_path / "counts.npz"],
    ):
        ran = spibb(*command)
        assert ran.code == 0, ran.err


def test_names_of_folders_are_columns(tmp_path):
    (folder,) = hive(tmp_path)
    for path in (folder, f"{folder}/ward=*/*.parquet", f"{folder}/**/*.parquet"):
        log = read_log(path, by="ward")
        assert log.group_labels == tuple(f"{k}/ä" for k in range(4))
        assert (log.episode % 4 == log.group).all()
    # A column of the log itself, too: integers, as all of them are, in their order.
    parts = tmp_path / "by_state"
    for state in (10, 9, 200):
        (parts / f"state={state}").mkdir(parents=True)
        part = pa.table(
            {"action": [0, 1], "reward": [1.0, 2.0], "episode": [10 * state, 10 * state + 1]}
        )
        pq.write_table(part, parts / f"state={state}" / "0.parquet")
    log = read_log(parts)
    assert log.state_labels == ("9", "10", "200")
    assert np.array_equal(count_log(parts).n_sa, Counts.from_log(log).n_sa)
    # What a file says itself counts, and a folder may say that nothing is known.
    (parts / "state=9").rename(parts / "state=__HIVE_DEFAULT_PARTITION__")
    with pytest.raises(DataError, match=r"column 'state' .* has an empty cell"):
        read_log(parts)
    part = pa.table({"action": [0], "reward": [1.0], "episode": [1], "state": [7]})
    pq.write_table(part, parts / "state=__HIVE_DEFAULT_PARTITION__" / "0.parquet")
    assert read_log(parts).state_labels == ("7", "10", "200")


# Ids in steps of 100,000, and the same states numbered from 0.
NUMBERS = np.random.default_rng(3).integers(0, 32, 600)
IDS = pa.table(
    {
        "episode": np.repeat(np.arange(60), 10),
        "step": np.tile(np.arange(10), 60),
        "state": 100_000 * NUMBERS,
        "action": np.random.default_rng(4).integers(0, 3, 600),
        "reward": np.random.default_rng(5).normal(size=600),
    }
)


def ids_in(folder, kind):
    path = folder / f"ids.{kind}"
    if kind == "csv":
        pyarrow.csv.write_csv(IDS, path)
    elif kind == "parquet":
        pq.write_table(IDS, path)
    elif kind == "arrow":
        pyarrow.feather.write_feather(IDS, path)
    elif kind == "jsonl":
        IDS.to_pandas().to_json(path, orient="records", lines=True)
    elif kind == "db":
        with closing(sqlite3.connect(path)) as connection:
            IDS.to_pandas().to_sql("log", connection, index=False)
        return {"path": path, "query": "SELECT * FROM log"}
    else:
        return {"path": {"table": IDS, "pandas": IDS.to_pandas()}[kind]}
    return {"path": path}


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow", "jsonl", "db", "table", "pandas"])
def test_identifiers_are_as_many_states_as_occur(tmp_path, kind):
    given = ids_in(tmp_path, kind)
    log = read_log(**given)
    assert log.n_states == 32
    assert log.state_labels == tuple(str(100_000 * k) for k in range(32))
    assert np.array_equal(log.state, NUMBERS)
    if kind not in ("table", "pandas"):
        assert count_log(**given).state_labels == log.state_labels
    numbered = IDS.set_column(2, "state", pa.array(NUMBERS))
    results = [
        ApproxSoftSPIBB().improve(one, baseline="estimate", gamma=0.9)
        for one in (log, read_log(numbered))
    ]
    same = [result.policy.probabilities.tobytes() for result in results]
    assert same[0] == same[1]
    results[0].write(tmp_path / "out")
    # Integers come back as integers.
    assert pq.read_schema(tmp_path / "out" / "policy.parquet").field("state").type == pa.int64()
    found = TabularPolicy.read(tmp_path / "out" / "policy.parquet")
    assert found.state_labels == log.state_labels


def test_arrays_hold_indices():
    columns = {name: IDS[name].to_numpy() for name in IDS.column_names}
    assert Log.from_arrays(**columns).n_states == int(columns["state"].max()) + 1


def test_the_states_of_the_baseline_are_states():
    log = read_log(pd.DataFrame({"episode": [0, 0, 1], "state": [0, 3, 0], "action": [0, 1, 1],
                                 "reward": [1.0, 2.0, 3.0]}))  # fmt: skip
    assert log.state_labels == ("0", "3")
    rows = {"state": [0, 0, 1, 2, 3], "action": [0, 1, 1, 1, 1],
            "probability": [0.5, 0.5, 1.0, 1.0, 1.0]}  # fmt: skip
    policy = TabularPolicy.from_dataframe(pd.DataFrame(rows))
    problem = package.Problem.of(log, baseline=policy, gamma=0.9)
    assert (problem.counts.n_states, problem.counts.state_labels) == (4, None)
    assert problem.counts.n_sa[:, 1].tolist() == [1, 0, 0, 1]
