"""Counting while reading gives the counts of the log, whatever its columns, files and order."""

import re
import tempfile
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spibb import (
    ApproxSoftSPIBB,
    Counts,
    HoeffdingReturns,
    count_log,
    estimate_baseline,
    read_log,
)
from spibb.data import counting
from spibb.data.chunked_reader import LogRows
from spibb.data.returns import first_visit_returns
from spibb.data.reward_moments import RewardMoments
from spibb.errors import DataError

N_STATES, N_ACTIONS = 5, 3
REWARDS = st.integers(-3, 3).map(float) | st.floats(-1e3, 1e3)
ROW = st.fixed_dictionaries(
    {
        "episode": st.integers(-1, 3),
        "gap": st.sampled_from((1, 1, 1, 1, 2)),
        "state": st.integers(0, N_STATES - 1),
        "action": st.integers(0, N_ACTIONS - 1),
        "reward": REWARDS,
        "next_state": st.none() | st.integers(0, N_STATES - 1),
        "terminated": st.booleans(),
        "truncated": st.sampled_from((False, False, False, True)),
    }
)


def columns_of(rows, *, lacking=(), texts=(), shuffled_by=None, offset=0):
    """Return an Arrow table of rows, whose steps go on within episodes."""
    step, steps = {}, []
    for row in rows:
        step[row["episode"]] = step.get(row["episode"], offset - 1) + row["gap"]
        steps.append(step[row["episode"]])
    table = {name: [row[name] for row in rows] for name in rows[0] if name != "gap"}
    table = {
        name: values for name, values in {**table, "step": steps}.items() if name not in lacking
    }
    order = np.arange(len(rows))
    if shuffled_by is not None:
        np.random.default_rng(shuffled_by).shuffle(order)
    for name in texts:
        for column in ("state", "next_state") if name == "state" else (name,):
            if column in table:
                table[column] = [None if v is None else f"{name[0]}{v}" for v in table[column]]
    kinds = {"next_state": pa.string() if "state" in texts else pa.int64()}
    arrays = {name: pa.array(values, kinds.get(name)) for name, values in table.items()}
    return pa.table(arrays).take(order)


def write(table, folder, *, n_files=1, kind="parquet", cuts=None):
    folder = Path(folder)
    cuts = cuts or [len(table) * k // n_files for k in range(n_files + 1)]
    for k in range(len(cuts) - 1):
        part, file = table.slice(cuts[k], cuts[k + 1] - cuts[k]), folder / f"{k}.{kind}"
        if kind == "csv":
            pyarrow.csv.write_csv(part, file)
        else:
            pyarrow.parquet.write_table(part, file, row_group_size=7)
    return folder


def assert_same(found, wanted, *, exact=True):
    assert found.state_labels == wanted.state_labels
    assert found.action_labels == wanted.action_labels
    for name in ("n_sa", "n_initial", "n_dropped", "n_gaps", "reward_range"):
        assert np.array_equal(getattr(found, name), getattr(wanted, name)), name
    for name in ("n_sas", "n_end"):
        one, other = getattr(found, name), getattr(wanted, name)
        assert one.shape == other.shape
        assert (one != other).nnz == 0, name
        assert one.dtype == other.dtype
        assert (one.data > 0).all(), name
    if exact:
        assert found.reward_sum.tobytes() == wanted.reward_sum.tobytes()
    size = np.abs(wanted.reward_range).max() * np.maximum(wanted.n_sa, 1)
    assert (np.abs(found.reward_sum - wanted.reward_sum) <= 1e-12 * size).all()


def assert_same_spread(found, wanted, size):
    assert np.allclose(found.spread, wanted.spread, rtol=1e-9, atol=1e-12 * size**2)
    off = found.by_successor - wanted.by_successor
    assert np.abs(off).max() <= 1e-9 * size


LACKING = st.sets(st.sampled_from(("episode", "step", "next_state", "terminated", "truncated")))
TEXTS = st.sets(st.sampled_from(("state", "action", "episode")))


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(ROW, min_size=1, max_size=40),
    lacking=LACKING,
    texts=TEXTS,
    shuffled_by=st.none() | st.integers(0, 9),
    n_files=st.integers(1, 3),
    kind=st.sampled_from(("parquet", "csv")),
)
def test_counting_while_reading_is_counting_the_log(
    rows, lacking, texts, shuffled_by, n_files, kind
):
    table = columns_of(rows, lacking=lacking, texts=texts, shuffled_by=shuffled_by)
    with tempfile.TemporaryDirectory() as folder:
        path = write(table, folder, n_files=n_files, kind=kind)
        try:
            log = read_log(path)
            wanted = Counts.from_log(log)
        except DataError as error:
            with pytest.raises(DataError, match=f"^{re.escape(str(error))}$"):
                count_log(path)
            return
        for keep_ends in (False, True):
            counts = count_log(path, keep_ends=keep_ends)
            assert_same(counts, wanted)
            assert_same_spread(counts.paid, RewardMoments.of(log), 1e3)


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(ROW, min_size=2, max_size=40),
    lacking=st.sets(st.sampled_from(("next_state", "terminated", "truncated"))),
    texts=TEXTS,
    shuffled_by=st.none() | st.integers(0, 9),
    day=st.floats(0.0, 1.0),
    kind=st.sampled_from(("parquet", "csv")),
)
def test_tomorrow_s_file_is_added_to_the_counts_of_today(
    rows, lacking, texts, shuffled_by, day, kind
):
    cut = min(max(1, round(day * len(rows))), len(rows) - 1)
    table = columns_of(rows, lacking=lacking, texts=texts)
    if shuffled_by is not None:  # within a day
        order = np.arange(len(rows))
        rng = np.random.default_rng(shuffled_by)
        table = table.take(np.append(rng.permutation(order[:cut]), rng.permutation(order[cut:])))
    with tempfile.TemporaryDirectory() as folder:
        path = write(table, folder, kind=kind, cuts=[0, cut, len(rows)])
        try:
            wanted = count_log(path)
        except DataError:  # there may be nothing to count
            return
        days = [count_log(path / f"{k}.{kind}", keep_ends=True) for k in (0, 1)]
        saved = Path(folder) / "counts.npz"
        days[0].save(saved)
        loaded = Counts.load(saved)
        assert_same(loaded, days[0])
        for found in (
            loaded.update(path / f"1.{kind}"),
            loaded.update(days[1]),
            days[1].update(days[0]),
        ):
            assert_same(found, wanted, exact=False)
            assert_same_spread(found.paid, wanted.paid, 1e3)
        assert len(found.ends) == wanted.n_initial.sum()
        again = Counts.load(saved).update(path / f"1.{kind}")
        again.save(saved)
        for field in fields(again.ends):
            values = [getattr(one.ends, field.name) for one in (again, Counts.load(saved))]
            assert np.array_equal(*values), field.name


def thousand_rows(seed=0, n=1000):
    rng = np.random.default_rng(seed)
    return [
        {
            "episode": k // 10, "gap": 1, "state": int(rng.integers(N_STATES)),
            "action": int(rng.integers(N_ACTIONS)), "reward": float(rng.normal()),
            "next_state": None, "terminated": k % 10 == 9, "truncated": False,
        }
        for k in range(n)
    ]  # fmt: skip


def test_every_way_of_counting_gives_the_same_policy(tmp_path, monkeypatch):
    lacking = ("next_state", "truncated")
    table = columns_of(thousand_rows(), lacking=lacking, texts=("state", "action"))
    shuffled = table.take(np.random.default_rng(1).permutation(len(table)))
    ways = {}
    for name, rows in (("sorted", table), ("shuffled", shuffled)):
        for kind in ("parquet", "csv"):
            for n_files in (1, 3):
                folder = tmp_path / f"{name}-{kind}-{n_files}"
                folder.mkdir()
                write(rows, folder, n_files=n_files, kind=kind)
                ways[folder.name, "log"] = Counts.from_log(read_log(folder))
                ways[folder.name, "stream"] = count_log(folder)
                ways[folder.name, "ends"] = count_log(folder, keep_ends=True)
    by_day = count_log(tmp_path / "sorted-csv-3" / "0.csv", keep_ends=True)
    for k in (1, 2):
        by_day = by_day.update(tmp_path / "sorted-csv-3" / f"{k}.csv")
    ways["days"] = by_day
    monkeypatch.setattr(counting, "LogRows", _refuse)
    ways["whole table"] = count_log(tmp_path / "shuffled-csv-3")
    policies = set()
    for counts in ways.values():
        baseline = estimate_baseline(counts)
        result = ApproxSoftSPIBB().improve(counts, baseline=baseline, gamma=0.9)
        policies.add(result.policy.probabilities.tobytes())
    assert len(policies) == 1


def _refuse(*_):
    raise counting.NotStreamedError


def test_chunks_are_no_borders(tmp_path, monkeypatch):
    table = columns_of(thousand_rows(), lacking=("terminated", "next_state"), texts=("state",))
    whole = count_log(write(table, tmp_path))
    monkeypatch.setattr("spibb.data.chunked_reader.CHUNK", 3)
    assert_same(count_log(tmp_path), whole)


def test_what_never_occurs_is_no_label(tmp_path):
    states = pa.DictionaryArray.from_arrays([0, 2, 2], ["mild", "never met", "severe"])
    table = pa.table(
        {"state": states, "action": ["a"] * 3, "reward": [0.0] * 3, "episode": [0] * 3}
    )
    pyarrow.parquet.write_table(table, tmp_path / "log.parquet")
    assert count_log(tmp_path / "log.parquet").state_labels == ("mild", "severe")


def test_progress_is_told(tmp_path):
    told = []
    write(columns_of(thousand_rows()), tmp_path, n_files=2)
    count_log(tmp_path, progress=lambda *found: told.append(found))
    assert told[-1] == (1000, 1.0)
    assert [share for _, share in told] == sorted(share for _, share in told)


def test_a_corrupt_file_among_good_ones_is_named(tmp_path):
    write(columns_of(thousand_rows()), tmp_path, n_files=3)
    file = tmp_path / "1.parquet"
    content = bytearray(file.read_bytes())
    for broken in (content[: len(content) // 2], b"", content[:100] + bytes(2000) + content[2100:]):
        file.write_bytes(bytes(broken))
        with pytest.raises(DataError, match=r"cannot read the log .*1\.parquet: "):
            count_log(tmp_path)


def test_a_schema_that_changes_is_named_with_the_difference(tmp_path):
    table = columns_of(thousand_rows())
    write(table, tmp_path, n_files=2)
    pyarrow.parquet.write_table(table.drop_columns(["terminated"]), tmp_path / "2.parquet")
    message = r"different columns: not all of them have 'terminated'.*2\.parquet lacks 'terminated'"
    for read in (count_log, read_log):
        with pytest.raises(DataError, match=message):
            read(tmp_path)


def test_an_episode_that_goes_on_is_refused_where_nothing_orders_it(tmp_path):
    table = columns_of(thousand_rows(n=30), lacking=("step", "next_state"))
    write(table, tmp_path, cuts=[0, 15, 30])
    first = count_log(tmp_path / "0.parquet", keep_ends=True)
    with pytest.raises(DataError, match=r"1 episode is in both logs.*a column 'step'") as told:
        first.update(tmp_path / "1.parquet")
    assert told.value.episode == "1"


def test_steps_of_two_days_that_overlap_are_refused(tmp_path):
    table = columns_of(thousand_rows(n=10), lacking=("next_state", "terminated"))
    first, second = table.take([0, 1, 5]), table.take([3, 6])
    write(first, tmp_path)
    counts = count_log(tmp_path, keep_ends=True)
    write(second, tmp_path)
    with pytest.raises(DataError, match=r"an episode has steps 0 to 5 in one log and 3 to 6 in"):
        counts.update(tmp_path)


def test_counts_without_ends_take_no_more_episodes(tmp_path):
    write(columns_of(thousand_rows(n=20), lacking=("next_state",)), tmp_path)
    log = read_log(tmp_path)
    with pytest.raises(DataError, match=r"do not say how their episodes end, .*other log go on"):
        Counts.from_log(log).update(tmp_path)


def test_new_names_of_tomorrow(tmp_path):
    table = columns_of(thousand_rows(n=40), texts=("state", "action"), lacking=("next_state",))
    states = table["state"].to_pylist()
    states[30:] = ["a new one"] * 10
    table = table.set_column(table.column_names.index("state"), "state", pa.array(states))
    write(table, tmp_path, cuts=[0, 25, 40])
    found = count_log(tmp_path / "0.parquet", keep_ends=True).update(tmp_path / "1.parquet")
    assert found.state_labels[0] == "a new one"
    assert_same(found, count_log(tmp_path), exact=False)


def test_damaged_counts_are_refused(tmp_path):
    write(columns_of(thousand_rows(n=50)), tmp_path)
    file, counts = tmp_path / "counts.npz", count_log(tmp_path, keep_ends=True)
    counts.save(file)
    content, n_refused = file.read_bytes(), 0
    for place in range(0, len(content), 11):
        changed = bytearray(content)
        changed[place] ^= 0x55
        file.write_bytes(bytes(changed))
        try:
            found = Counts.load(file)
        except DataError as error:
            n_refused += (
                re.search(r"counts\.npz holds no counts, or is damaged", str(error)) is not None
            )
        else:  # a byte that means nothing, such as a date
            assert_same(found, counts)
    assert n_refused > len(content) // 11 // 3
    file.write_bytes(content[:-30])
    with pytest.raises(DataError, match=r"counts\.npz holds no counts, or is damaged"):
        Counts.load(file)


def test_rows_are_streamed_where_it_is_meant_to(tmp_path):
    """Every kind of column that large logs have, without the way around."""
    for kind in ("parquet", "csv"):
        folder = tmp_path / kind
        folder.mkdir()
        write(columns_of(thousand_rows(), texts=("state", "action", "episode")), folder, kind=kind)
        assert sum(len(chunk.state) for chunk, _ in LogRows(folder).chunks()) == 1000


@settings(max_examples=80, deadline=None)
@given(
    rows=st.lists(ROW, min_size=1, max_size=40),
    lacking=st.sets(st.sampled_from(("step", "next_state", "terminated", "truncated"))),
    texts=TEXTS,
    is_sorted=st.booleans(),
    kind=st.sampled_from(("parquet", "csv")),
    gamma=st.sampled_from((0.0, 0.5, 0.99, 1.0)),
    chunk=st.sampled_from((1, 3, 100)),
)
def test_returns_are_those_of_the_log(rows, lacking, texts, is_sorted, kind, gamma, chunk):
    if is_sorted:
        rows = sorted(rows, key=lambda row: row["episode"])
    table = columns_of(rows, lacking=lacking, texts=texts)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr("spibb.data.chunked_reader.CHUNK", chunk)
        path = write(table, folder, kind=kind)
        try:
            log = read_log(path)
            Counts.from_log(log)
        except DataError:
            return
        counts = count_log(path, gamma=gamma, keep_ends=True)
        counts.save(path / "counts.npz")
        wanted = first_visit_returns(log, gamma)
        for found in (counts.returns, Counts.load(path / "counts.npz").returns):
            returns = found.to_returns()
            assert np.array_equal(returns.n, wanted.n)
            for name in ("mean", "variance", "cut", "cut_square", "completion"):
                one, other = getattr(returns, name), getattr(wanted, name)
                assert np.allclose(one, other, rtol=1e-9, atol=1e-8), name


def test_returns_of_days_merge_and_do_not_go_on(tmp_path):
    rows = thousand_rows()
    table = columns_of(rows, lacking=("next_state",), texts=("state",))
    write(table, tmp_path, cuts=[0, 400, 1000])
    first = count_log(tmp_path / "0.parquet", gamma=0.9, keep_ends=True)
    both, whole = first.update(tmp_path / "1.parquet"), count_log(tmp_path, gamma=0.9)
    for name in ("n", "mean", "variance", "cut"):
        found, wanted = (getattr(one.returns.to_returns(), name) for one in (both, whole))
        assert np.allclose(found, wanted, rtol=1e-12, atol=1e-12), name
    baseline = estimate_baseline(whole)
    asked = {"baseline": baseline, "gamma": 0.9}
    algorithm = ApproxSoftSPIBB(error=HoeffdingReturns())
    policies = [
        algorithm.improve(one, **asked).policy.probabilities
        for one in (both, whole, read_log(tmp_path))
    ]
    assert np.allclose(policies[0], policies[2], atol=1e-9)
    assert np.allclose(policies[1], policies[2], atol=1e-9)
    with pytest.raises(DataError, match="only counts were given"):
        algorithm.improve(whole, baseline=baseline, gamma=0.8)
    write(table, tmp_path, cuts=[0, 405, 1000])
    first = count_log(tmp_path / "0.parquet", gamma=0.9, keep_ends=True)
    with pytest.raises(DataError, match="1 episode goes on in the other log, and the") as told:
        first.update(tmp_path / "1.parquet")
    assert told.value.episode == "40"
