"""Studies that are folded while they run: in any order, killed at any moment, in pieces."""

import json
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import folded_study
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from folded_study import KEEPING, PLAN, KeptPlan, content, make_rows, record
from hypothesis import given, settings
from hypothesis import strategies as st

from spibb.errors import DataError, OutputError, SettingsError
from spibb.runner.store import Store
from spibb.studies.results.aggregates import Aggregates, aggregate
from spibb.studies.results.cell_aggregates import Kept, Retention
from spibb.studies.results.recording import (
    Recorder,
    find_piece,
    jobs_of_piece,
    read_results,
    read_rows,
)
from spibb.studies.results.run_set import RunSet

PROGRAM = [sys.executable, folded_study.__file__]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The files of the study, run in order and without a break."""
    return content(record(PLAN, tmp_path_factory.mktemp("whole") / "study"))


def test_a_folded_study_has_no_parts_left(whole):
    assert sorted(whole) == [
        "compact/0000080/cells.parquet", "compact/0000080/worst-000.parquet", "plan.toml",
    ]  # fmt: skip


def test_it_is_folded_while_it_runs(tmp_path):
    folded, parts = [], []
    with Recorder.open(PLAN, tmp_path / "study", resume=False, keeping=KEEPING) as recorder:
        for name, first, last in recorder.jobs:
            recorder.write(name, make_rows(PLAN, first, last))
            folded.append(recorder.store.folded())
            parts.append(len(recorder.store.files()))
            assert recorder.finished() == ({job[0] for job in recorder.jobs[: len(parts)]}, set())
    assert folded == [None] * 2 + ["0000024"] * 3 + ["0000048"] * 3 + ["0000072", "0000080"]
    assert parts == [1, 2, 0, 1, 2, 0, 1, 2, 0, 0]


def test_a_kind_of_study_that_needs_its_rows_keeps_them(tmp_path):
    plan = KeptPlan.from_toml(PLAN.to_toml())
    store = Store(record(plan, tmp_path / "study"))
    assert store.folded() is None
    assert read_rows(store, plan).num_rows == 80 * 8
    with pytest.raises(DataError, match=r"keeps no rows but the worst.*in another folder"):
        read_rows(Store(record(PLAN, tmp_path / "folded")), plan)


def test_a_small_study_keeps_its_rows(tmp_path):
    for keeping in (None, replace(KEEPING, rows=80)):
        out = record(PLAN, tmp_path / f"{keeping}", keeping=keeping)
        assert sorted(content(out)) == [*(f"parts/{job[0]}.parquet" for job in PLAN.jobs()),
                                        "plan.toml"]  # fmt: skip
        assert Store(out).read().num_rows == 80 * 8


@given(st.permutations(range(10)), st.lists(st.integers(0, 10), max_size=4), st.integers(1, 90))
@settings(max_examples=25, deadline=None)
def test_neither_order_nor_breaks_nor_groups_matter(whole, tmp_path_factory, order, stops, every):
    """Jobs finish in any order; the study is left off and resumed after some of them."""
    out = tmp_path_factory.mktemp("some") / "study"
    keeping = replace(KEEPING, every=every)
    jobs = PLAN.jobs()
    for stop in (*stops, len(jobs)):
        with Recorder.open(PLAN, out, resume=True, keeping=keeping) as recorder:
            done, _ = recorder.finished()
            left = [jobs[place] for place in order if jobs[place][0] not in done]
            for name, first, last in left[:stop]:
                recorder.write(name, make_rows(PLAN, first, last))
    assert content(out) == whole


def test_jobs_of_another_size_are_folded_to_the_same(whole, tmp_path):
    out = record(replace(PLAN, runs_per_job=5), tmp_path / "study")
    worst = "compact/0000080/worst-000.parquet"
    assert content(out)[worst] == whole[worst]
    cells = "compact/0000080/cells.parquet"
    ours, theirs = (pq.read_table(pa.py_buffer(files[cells])) for files in (content(out), whole))
    assert ours.to_pylist() == theirs.to_pylist()


@pytest.mark.skipif(not hasattr(sys, "addaudithook") or sys.platform == "win32", reason="forks")
def test_killed_at_every_step(tmp_path):
    done = subprocess.run(
        [*PROGRAM, "kill", str(tmp_path)], capture_output=True, text=True, check=True, timeout=300
    )
    found = json.loads(done.stdout)
    assert found["wrong"] == 0
    assert found["steps"] > 40


def test_killed_with_its_workers(whole, tmp_path):
    out = tmp_path / "study"
    moments, ends = random.Random(20191118), []
    for n_kills in range(4):
        process = subprocess.Popen([*PROGRAM, "run", str(out), str(1 + n_kills % 2)])
        before, end = _progress(out), time.monotonic() + 60
        while process.poll() is None and _progress(out) == before and time.monotonic() < end:
            time.sleep(0.002)
        time.sleep(moments.uniform(0.0, 0.03))
        process.send_signal(signal.SIGKILL)
        ends.append(process.wait(timeout=60))
    assert ends.count(-signal.SIGKILL) > 2
    subprocess.run([*PROGRAM, "run", str(out), "2"], check=True, timeout=120)
    assert content(out) == whole


def _progress(out: Path):
    return sorted(path.name for path in out.glob("*/*") if path.suffix != ".unfinished")


def test_a_part_that_was_folded_counts_for_nothing(whole, tmp_path):
    """The moment between folding parts and deleting them."""
    out = record(PLAN, tmp_path / "study")
    store = Store(out)
    store.write("0000008", make_rows(PLAN, 8, 16))
    assert store.finished() == (set(), set())
    assert read_results(store, PLAN, KEEPING).n.max() == 80
    record(PLAN, out)
    assert content(out) == whole


def test_an_older_state_counts_for_nothing(whole, tmp_path):
    """The moment between folding and deleting what was folded before."""
    out = record(PLAN, tmp_path / "study")
    (out / "compact" / "0000072").mkdir()
    (out / "compact" / "0000072" / "cells.parquet").write_bytes(b"half of it is deleted")
    (out / "compact" / "0000099.77.unfinished").mkdir()
    assert read_results(Store(out), PLAN, KEEPING).n.max() == 80
    record(PLAN, out)
    assert content(out) == whole


def test_a_damaged_part_is_computed_again(whole, tmp_path):
    out = tmp_path / "study"
    record(PLAN, out, order=lambda jobs: jobs[1:4])
    file = out / "parts" / "0000016.parquet"
    file.write_bytes(file.read_bytes()[:-9])
    with Recorder.open(PLAN, out, resume=True, keeping=KEEPING) as recorder:
        assert recorder.finished() == ({"0000008", "0000024"}, {"0000016"})
    record(PLAN, out)
    assert content(out) == whole


def test_results_of_a_study_that_is_not_finished(tmp_path):
    """Some of it folded, some not yet."""
    out = record(PLAN, tmp_path / "study", order=lambda jobs: [*jobs[:4], jobs[7]])
    runs = [*range(32), *range(56, 64)]
    found = read_results(Store(out), PLAN, KEEPING)
    assert found.runs == (RunSet.of(runs),) * 2
    table = pa.concat_tables([make_rows(PLAN, run, run + 1) for run in runs])
    expected = aggregate(Kept.of_table(table, PLAN), PLAN)
    of_study = Aggregates.of_study(out, PLAN)
    np.testing.assert_array_equal(of_study.n, expected.n)
    np.testing.assert_array_equal(of_study.mean, expected.mean)


def test_rows_of_a_folded_study_are_gone(tmp_path):
    out = record(PLAN, tmp_path / "study")
    with pytest.raises(DataError, match="keeps no rows but the worst"):
        Store(out).read()


def test_a_score_that_is_no_number_stops_the_study(tmp_path):
    table = make_rows(PLAN, 0, 8)
    scores = table["score"].to_numpy().copy()
    scores[11] = np.nan
    wrong = table.set_column(4, "score", [scores])
    with (
        Recorder.open(PLAN, tmp_path, resume=False, keeping=replace(KEEPING, every=1)) as recorder,
        pytest.raises(DataError, match=r"not a number \(first at row 11, run 1\)"),
    ):
        recorder.write("0000000", wrong)
    assert Store(tmp_path).folded() is None


def test_pieces():
    assert [find_piece(PLAN, f"{n}/3") for n in (1, 2, 3)] == [(0, 24), (24, 48), (48, 80)]
    assert [job[0] for job in jobs_of_piece(PLAN, (24, 48))] == ["0000024", "0000032", "0000040"]
    assert jobs_of_piece(PLAN, None) == PLAN.jobs()
    for text in ("2", "0/2", "3/2", "a/b", "1/", "-1/2", "1/2/3", "1/" + "9" * 5_000, "1/2\n"):
        with pytest.raises(SettingsError, match="expected such as 2/4"):
            find_piece(PLAN, text)
    with pytest.raises(SettingsError, match="the piece 1/11 is empty; expected at most 10 pieces"):
        find_piece(PLAN, "1/11")


def test_a_piece_is_resumed_as_what_it_is(tmp_path):
    out = tmp_path / "study"
    record(PLAN, out, piece=(24, 48), order=lambda jobs: jobs[:2])
    with (
        pytest.raises(OutputError, match="begun with the runs 24 to 47; expected all runs"),
        Recorder.open(PLAN, out, resume=True),
    ):
        pass
    record(PLAN, out, piece=(24, 48))
    assert sorted(content(out)) == [
        "compact/0000048/cells.parquet", "compact/0000048/worst-000.parquet", "piece.toml",
        "plan.toml",
    ]  # fmt: skip
    # Of the whole plan's runs, not of the piece's.
    assert read_results(Store(out), PLAN, KEEPING).n_kept.tolist() == [8] * 8


def test_the_default_is_two_percent():
    assert Retention().n_worst(100_000) == Retention().n_waiting(100_000) == 2_000
