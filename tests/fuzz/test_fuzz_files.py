"""Logs and policies in files: refused with a message, or read as a second reader reads them."""

import datetime
import io
import re
import sqlite3
import warnings
from collections import Counter
from contextlib import closing
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fuzzing import NASTY, cases, cells, limited, mutated, numbers
from hypothesis import example, given
from hypothesis import strategies as st

from spibb import TabularPolicy, read_log
from spibb.errors import SpibbError

HEAD = ["episode", "step", "state", "action", "reward", "next_state", "terminated", "note"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


def quoted(cell, how):
    """Write a cell as CSV has it: quoted, as it is, or badly."""
    if how == "raw":
        return cell
    if how == "open":
        return '"' + cell
    return '"' + cell.replace('"', '""') + '"'


@st.composite
def csv_logs(draw):
    """Text that is nearly a log: usual columns, some odd cells, sometimes broken on the way."""
    names = draw(st.permutations(HEAD))
    names = [name for name in names if name in ("state", "action", "reward") or draw(st.booleans())]
    usual = {
        "episode": st.integers(0, 3).map(str), "step": st.integers(0, 9).map(str),
        "state": st.sampled_from(["0", "1", "a", "b"]), "action": st.sampled_from(["0", "1"]),
        "reward": numbers.map(str), "next_state": st.sampled_from(["0", "1", ""]),
        "terminated": st.sampled_from(["true", "false", "0", "1"]), "note": cells,
    }  # fmt: skip
    how_often = draw(st.sampled_from([0, 0, 1, 3]))
    rows = []
    for _ in range(draw(st.integers(0, 8))):
        row = [
            draw(cells if how_often and draw(st.integers(0, 9)) < how_often else usual[name])
            for name in names
        ]
        ways = st.sampled_from(["quoted", "quoted", "quoted", "raw", "open"])
        rows.append(",".join(quoted(cell, draw(ways)) for cell in row))
    ends = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    text = ends.join([",".join(names), *rows]) + draw(st.sampled_from(["", ends]))
    data = text.encode(draw(st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "latin-1", "utf-16"])),
                       "replace")  # fmt: skip
    return mutated(data, draw) if draw(st.integers(0, 4)) == 0 else data


def plain(text):
    """Return a name as both readers agree on it: whole numbers without decoration."""
    text = text.strip(" \t\r\n\v\f")
    if re.fullmatch(r"(-?[1-9][0-9]*|0)\.0*", text):
        return text.partition(".")[0]
    return text


def as_pandas(data):
    """Return the rows as a second reader finds them, every cell as text; None where it cannot."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            frame = pd.read_csv(
                io.BytesIO(data), dtype=str, keep_default_na=False, na_filter=False,
                index_col=False, skipinitialspace=False, encoding_errors="replace",
            )  # fmt: skip
    except (ValueError, pd.errors.ParserError, UnicodeError):
        return None
    return frame.rename(columns=str.strip)


CORPUS = [
    b"episode,state,action,reward\n9007199254740992,0,0,1\n9007199254740993,0,0,1\n",
    b"episode,state,action,reward\n007,0,0,1\n7,0,0,1\n",
    b"episode,state,action,reward\n1e1,0,0,1\n10,0,0,1\n",
    b'episode,state,action,reward,note\n0,0,0,1,a\n0,1,0,2,"b\n0,2,0,3,c\n0,0,0,1,d\n',
    b"episode,state,action,reward\n0,0,0,0x10\n",
    b"episode,state,action,reward\n0,0,0,9007199254740993\n",
    b"episode,state,action,reward\n0,9999999,0,1\n",
    "episode,state,action,reward\n0,K\u00e4lte,0,1\n4\n".encode("latin-1"),
]


@given(csv_logs())
@cases(150)
@example(CORPUS[0])
@example(CORPUS[1])
@example(CORPUS[2])
@example(CORPUS[3])
@example(CORPUS[4])
@example(CORPUS[5])
@example(CORPUS[6])
@example(CORPUS[7])
def test_csv_logs(folder, data):
    path = folder / "log.csv"
    path.write_bytes(data)
    try:
        with limited():
            log = read_log(path)
    except SpibbError:
        return
    frame = as_pandas(data)
    assert frame is not None, "read, though a second reader finds no table"
    assert len(log) == len(frame)
    if "episode" in frame:
        assert log.n_episodes == len(set(frame["episode"])), "as many as there are texts"
    for name, labels, codes in (
        ("state", log.state_labels, log.state),
        ("action", log.action_labels, log.action),
    ):
        mine = [str(code) if labels is None else plain(labels[code]) for code in codes.tolist()]
        assert Counter(mine) == Counter(plain(text) for text in frame[name])
    np.testing.assert_array_equal(
        np.sort(log.reward), np.sort([float(text) for text in frame["reward"]])
    )


KINDS = [
    pa.int8(), pa.int32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.string(),
    pa.large_string(), pa.binary(), pa.bool_(), pa.date32(), pa.time32("s"), pa.time64("ns"),
    pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.duration("s"), pa.decimal128(10, 2),
    pa.dictionary(pa.int32(), pa.string()), pa.list_(pa.int64()), pa.null(),
]  # fmt: skip


@st.composite
def parquet_logs(draw):
    """Tables with the columns of a log, of any type."""
    n = draw(st.integers(0, 6))
    columns = {}
    for name in HEAD:
        if name not in ("state", "action", "reward") and not draw(st.booleans()):
            continue
        usual = pa.float64() if name == "reward" else pa.int64()
        kind = usual if draw(st.integers(0, 3)) else draw(st.sampled_from(KINDS))
        raw = [draw(st.integers(0, 4)) for _ in range(n)]
        values = [None if draw(st.integers(0, 30)) == 0 else value for value in raw]
        columns[name] = converted(values, kind)
    return pa.table(columns)


def converted(values, kind):
    if pa.types.is_list(kind):
        return pa.array([None if value is None else [value] for value in values], kind)
    if pa.types.is_null(kind):
        return pa.nulls(len(values))
    if pa.types.is_dictionary(kind):
        return converted(values, kind.value_type).dictionary_encode()
    texts = [None if value is None else str(value) for value in values]
    if pa.types.is_binary(kind) or "string" in str(kind):
        return pa.array(texts).cast(kind)
    if pa.types.is_boolean(kind):
        return pa.array([None if value is None else bool(value) for value in values])
    if pa.types.is_decimal(kind):
        return pa.array([None if text is None else Decimal(text) for text in texts], kind)
    if pa.types.is_date(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if kind == pa.time64("ns"):  # whole microseconds, which is what pandas can show
        values = [None if value is None else 1_000 * value for value in values]
    return pa.array(values, pa.int32() if kind == pa.time32("s") else pa.int64()).cast(kind)


def in_order(step):
    """Return a step as something that pandas can sort."""
    if isinstance(step, bytes | str):
        return float(step)
    return step.isoformat() if isinstance(step, datetime.date | datetime.time) else step


@given(parquet_logs(), st.data())
@cases(120)
def test_parquet_logs(folder, table, data):
    path = folder / "log.parquet"
    pq.write_table(table, path)
    if data.draw(st.integers(0, 5)) == 0:
        path.write_bytes(mutated(path.read_bytes(), data.draw))
    try:
        with limited():
            log = read_log(path)
    except SpibbError:
        return
    # What has no meaning here is not read, and may be damaged.
    wanted = [name for name in pq.read_schema(path).names if name in HEAD and name != "note"]
    frame = pq.read_table(path, columns=wanted).to_pandas()
    assert len(log) == len(frame)
    if "episode" in frame:
        assert log.n_episodes == frame["episode"].nunique()
    rewards = pd.to_numeric(frame["reward"].map(lambda one: one.decode() if isinstance(one, bytes)
                                                else one)).astype(float)  # fmt: skip
    np.testing.assert_allclose(np.sort(log.reward), np.sort(rewards))
    if "episode" in frame and "step" in frame and len(frame):
        # Rows of an episode are in the order of their steps, however those are stored.
        steps = frame["step"].map(in_order)
        if steps.is_unique:
            order = np.lexsort((steps.rank(), frame["episode"].rank()))
            np.testing.assert_allclose(log.reward, rewards.to_numpy()[order])


@st.composite
def csv_policies(draw):
    rows = ["state,action,probability"]
    for state in range(draw(st.integers(1, 3))):
        shares = draw(st.sampled_from([("0.5", "0.5"), ("1", "0"), ("0.3333333", "0.6666667")]))
        for action, share in enumerate(shares):
            parts = [str(state), str(action), share]
            if draw(st.integers(0, 12)) == 0:
                parts[draw(st.integers(0, 2))] = draw(cells)
            rows.append(",".join(parts))
    data = "\n".join(rows).encode()
    return mutated(data, draw) if draw(st.integers(0, 5)) == 0 else data


@given(csv_policies())
@cases(100)
def test_policies(folder, data):
    path = folder / "policy.csv"
    path.write_bytes(data)
    try:
        with limited():
            policy = TabularPolicy.read(path)
    except SpibbError:
        return
    np.testing.assert_allclose(policy.probabilities.sum(axis=1), 1.0, atol=1e-12)


@given(
    st.lists(st.one_of(st.sampled_from([x for x in NASTY if x.strip()]), st.text(
        st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=5)),
        min_size=1, max_size=4, unique=True),
    st.sampled_from([".csv", ".parquet"]),
)  # fmt: skip
@cases(60)
def test_policies_come_back_as_they_went(folder, labels, suffix):
    labels = [label for label in labels if "\x00" not in label]
    if not labels:
        return
    policy = TabularPolicy(np.full((len(labels), 2), 0.5), labels, ["x", "y"])
    policy.write(folder / f"back{suffix}")
    try:
        found = TabularPolicy.read(folder / f"back{suffix}")
    except SpibbError:  # names that are numbers, in a format that does not tell them apart
        assert suffix == ".csv"
        return
    names = {found.states[x] for x in range(found.n_states)}
    assert names == set(labels) or {plain(name) for name in names} == {plain(x) for x in labels}


WHOLE = pa.table(
    {"episode": [0, 0, 1], "step": [0, 1, 0], "state": ["a", "b", "a"], "action": [0, 1, 1],
     "reward": [0.5, 1.0, 2.0]}
)  # fmt: skip


def other_files(folder):
    """Return the bytes of one log in every other format, by what its name ends in."""
    found = {}
    frame, path = WHOLE.to_pandas(), folder / "whole"
    for suffix, kind in ((".arrow", pa.ipc.new_file), (".ipc", pa.ipc.new_stream)):
        sink = pa.BufferOutputStream()
        with kind(sink, WHOLE.schema) as writer:
            writer.write(WHOLE)
        found[suffix] = sink.getvalue().to_pybytes()
    found[".jsonl"] = frame.to_json(orient="records", lines=True).encode()
    for suffix, packing in ((".csv.gz", "gzip"), (".csv.zst", "zstd")):
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, packing) as stream:
            stream.write(frame.to_csv(index=False).encode())
        found[suffix] = sink.getvalue().to_pybytes()
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        frame.to_sql("log", connection, index=False)
    found[".db"] = path.read_bytes()
    return found


@given(st.sampled_from([".arrow", ".ipc", ".jsonl", ".csv.gz", ".csv.zst", ".db"]), st.data())
@cases(150)
def test_other_files_are_read_or_refused(folder, suffix, data):
    path = folder / f"log{suffix}"
    path.write_bytes(mutated(other_files(folder)[suffix], data.draw))
    try:
        with limited():
            log = read_log(path, query="SELECT * FROM log" if suffix == ".db" else None)
    except SpibbError:
        return
    assert len(log) >= 1
