"""What is kept of many runs leads to the same statistics as all of them, in whatever order."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from folded_study import CONFIG, KEEPING, PLAN, make_rows
from hypothesis import given, settings
from hypothesis import strategies as st

from spibb.errors import DataError
from spibb.studies.metrics import Measure
from spibb.studies.plan import Setting
from spibb.studies.results.aggregates import SHARES, aggregate
from spibb.studies.results.cell_aggregates import (
    UNITS,
    Kept,
    Retention,
    from_files,
    merge_all,
    to_files,
)
from spibb.studies.results.cells import checked_rows
from spibb.studies.results.run_set import RunSet

# One cell for each of two settings.
SMALL = replace(PLAN, eta=(0.9,), trajectories=(10,))


def as_table(scores, first=0, plan=SMALL):
    """Return rows of scores (runs, settings)."""
    scores = np.asarray(scores, dtype=np.float32)
    n_runs, n_settings = scores.shape
    labels = [setting.label for setting in plan.settings]
    return pa.table(
        {
            "run": np.repeat(np.arange(first, first + n_runs, dtype=np.int32), n_settings),
            "eta": np.full(scores.size, 0.9),
            "trajectories": np.full(scores.size, 10, dtype=np.int32),
            "setting": pa.array(labels * n_runs).dictionary_encode(),
            "score": scores.ravel(),
        }
    )


@pytest.mark.parametrize(
    ("name", "column", "message"),
    [
        ("run", None, "the results have no column 'run' \\(first at p\\)"),
        ("score", ["1.0", "2.0"], "the column 'score' of the results holds string.*; expected num"),
        ("setting", [None, "RaMDP"], "'setting' of the results holds nothing in some rows"),
        ("setting", [1, 2], "'setting' of the results holds int64.*; expected labels"),
        ("eta", ["a", "b"], "'eta' of the results holds string"),
        ("trajectories", [10.0, 10.0], "'trajectories' .* holds double.*; expected whole numbers"),
        ("run", [0, 80], "the results hold the run 80 .*; expected runs from 0 to 79"),
        ("run", [-1, 3], "the results hold the run -1"),
    ],
)
def test_rows_that_are_not_a_studys(name, column, message):
    table = as_table([[0.0, 1.0]]).drop_columns(name)
    if column is not None:
        table = table.append_column(name, pa.array(column))
    with pytest.raises(DataError, match=message):
        checked_rows(table, SMALL, "p")
    with pytest.raises(DataError, match=message.split(" .*")[0].split(r" \(")[0]):
        Kept.of_table(table, SMALL)


def assert_same(one, other):
    for name in ("n", "worse", "total", "squares", "worst"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert one.runs == other.runs


SCORES = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(SCORES, SCORES), min_size=1, max_size=12))
@settings(deadline=None)
def test_sums_are_exact(scores):
    kept = Kept.of_table(as_table(scores), SMALL)
    for place, column in enumerate(np.asarray(scores, dtype=np.float32).T):
        exact = [Fraction(float(score)) * UNITS for score in column]
        assert kept.total[place] == sum(round(score) for score in exact)
        assert kept.squares[place] == sum(round(score * score / UNITS) for score in exact)
        assert (kept.n[place], kept.worse[place]) == (len(column), (column < 0).sum())


@given(st.lists(st.tuples(SCORES, SCORES), min_size=1, max_size=12), st.integers(1, 14))
@settings(deadline=None)
def test_the_worst_runs_are_those_of_a_slow_sort(scores, n_worst):
    kept = Kept.of_table(as_table(scores, first=5), SMALL, n_worst)
    for place, column in enumerate(np.asarray(scores, dtype=np.float32).T.tolist()):
        expected = sorted((score, run) for run, score in enumerate(column, 5))[:n_worst]
        found = kept.worst_rows(slice(place, place + 1))
        assert list(zip(*(part.tolist() for part in found), strict=True)) == expected


@given(st.randoms(), st.integers(1, 30))
@settings(max_examples=30, deadline=None)
def test_neither_order_nor_grouping_matters(random, n_worst):
    whole = Kept.of_table(make_rows(PLAN, 0, 40), PLAN, n_worst)
    ends = sorted({0, 40, *(random.randrange(40) for _ in range(4))})
    parts = [
        Kept.of_table(make_rows(PLAN, first, last), PLAN, n_worst) for first, last in pairwise(ends)
    ]
    random.shuffle(parts)
    assert_same(merge_all(parts, PLAN, n_worst), whole)
    half = len(parts) // 2
    left, right = (merge_all(some, PLAN, n_worst) for some in (parts[:half], parts[half:]))
    assert_same(left.merge(right, PLAN, n_worst), whole)


@pytest.mark.parametrize(
    ("n_runs", "shares"), [(1_000, ()), (2_001, (0.01,)), (2_600, (0.01,)), (40_000, (0.01, 0.001))]
)
def test_statistics_are_exactly_those_of_all_runs(n_runs, shares):
    """The mean too, because it is computed from sums in both cases."""
    plan, keeping = replace(SMALL, n_runs=n_runs), Retention()
    table = as_table(np.random.default_rng(n_runs).standard_t(3, size=(n_runs, 2)))
    of_all = aggregate(Kept.of_table(table, plan), plan)
    of_kept = aggregate(Kept.of_table(table, plan, keeping.n_worst(n_runs)), plan)
    for measure in (Measure(), Measure(0.01), Measure(0.001)):
        np.testing.assert_array_equal(of_kept.of(measure), of_all.of(measure))
    for share in SHARES[:2]:
        assert np.isfinite(of_kept.cvar[share].low).all() == (share in shares)
    np.testing.assert_array_equal(of_kept.worse, of_all.worse)
    np.testing.assert_array_equal(of_kept.n, of_all.n)
    assert np.isnan(of_kept.cvar[0.1]).all() == (n_runs > keeping.rows)


@given(st.integers(2_001, 1_000_000), st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_enough_is_kept_for_the_resamples(n_runs, seed):
    """Also of a study that is not finished, and for any seed."""
    from spibb.studies.metrics import cvar_interval

    n_worst = Retention().n_worst(n_runs)
    for n in {n_runs, max(n_worst, 3 * n_runs // 4)}:
        for share in (0.01, 0.001):
            cvar_interval(np.zeros(min(n, n_worst)), share, np.random.default_rng(seed), n_runs=n)


def test_equal_scores_have_no_interval():
    found = aggregate(Kept.of_table(as_table(np.full((50, 2), 0.3)), SMALL), SMALL).mean
    np.testing.assert_array_equal(found.value, np.float32(0.3))
    np.testing.assert_allclose(found.high, found.low, atol=1e-9)


def test_a_side_that_kept_less_limits_what_is_known():
    few = Kept.of_table(as_table(np.arange(40).reshape(20, 2)), SMALL, 3)
    more = Kept.of_table(as_table(np.arange(60).reshape(30, 2), first=20), SMALL, 8)
    both = few.merge(more, SMALL, 10)
    assert both.n_kept.tolist() == [3, 3]
    assert both.worst_scores(slice(0, 1)).tolist() == [[0, 0, 2]]


def test_a_run_in_both_is_refused():
    one, other = (Kept.of_table(as_table(np.zeros((4, 2)), n), SMALL) for n in (0, 3))
    with pytest.raises(DataError, match="a run is there twice: run 3 of Basic RL"):
        one.merge(other, SMALL, 10)


@pytest.mark.parametrize(("score", "what"), [(np.nan, "not a number"), (-np.inf, "infinite")])
def test_scores_must_be_finite(score, what):
    with pytest.raises(DataError, match=rf"a score is {what} \(first at row 3, run 8\)"):
        Kept.of_table(as_table([[0, 0], [0, score]], first=7), SMALL)


@pytest.mark.parametrize("n_rows", [1, 30, 1_000])
def test_files_are_read_back(tmp_path, n_rows):
    kept = Kept.of_table(make_rows(PLAN, 3, 30), PLAN, 10)
    files = to_files(kept, PLAN, n_rows=n_rows)
    # Cells have ten rows each, and are not split.
    assert len(files) - 1 == {1: 8, 30: 3, 1_000: 1}[n_rows]
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    again = from_files(tmp_path, PLAN)
    assert_same(again, kept)
    assert again.runs == (RunSet(((3, 30),)),) * 2
    assert {name: bytes(part) for name, part in to_files(again, PLAN, n_rows=n_rows).items()} == {
        name: bytes(part) for name, part in files.items()
    }


def test_the_worst_runs_are_rows_like_all_others(tmp_path):
    import pyarrow.parquet as pq

    table = make_rows(PLAN, 0, 30)
    file = tmp_path / "worst.parquet"
    file.write_bytes(to_files(Kept.of_table(table, PLAN, 30), PLAN)["worst-000.parquet"])
    found = pq.read_table(file)
    assert found.schema.names == table.schema.names
    names = ["eta", "trajectories", "setting", "run", "score"]

    def as_rows(some):
        return sorted(zip(*(some[name].to_pylist() for name in names), strict=True))

    assert as_rows(found) == as_rows(table)


def test_files_of_another_plan_or_without_some_rows_are_refused(tmp_path):
    kept = Kept.of_table(make_rows(PLAN, 0, 30), PLAN, 10)
    for name, content in to_files(kept, PLAN, n_rows=30).items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match="does not belong to the plan beside it"):
        from_files(tmp_path, replace(PLAN, seed=2))
    (tmp_path / "worst-001.parquet").unlink()
    with pytest.raises(DataError, match="lacks some of its worst runs"):
        from_files(tmp_path, PLAN)
    (tmp_path / "cells.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"is damaged.*run the study again in another folder"):
        from_files(tmp_path, PLAN)


def test_scores_that_no_file_can_hold():
    kept = Kept.of_table(as_table([[3e38, 0]]), SMALL)
    with pytest.raises(DataError, match=r"too large to be kept; expected below 10\^7"):
        to_files(kept, SMALL)


def test_a_plan_with_more_settings():
    more = Setting("HCPI", CONFIG, "HCPI", "delta", 0.9)
    larger = replace(PLAN, settings=(PLAN.settings[1], more, PLAN.settings[0]))
    few, all_of_it = make_rows(PLAN, 0, 20), make_rows(larger, 0, 20)
    placed = Kept.of_table(few, PLAN, 5).in_plan(PLAN, larger)
    expected = Kept.of_table(all_of_it, larger, 5)
    ours = np.tile([True, False, True], 4)
    for name in ("n", "worse", "total", "squares", "worst"):
        np.testing.assert_array_equal(getattr(placed, name)[ours], getattr(expected, name)[ours])
    assert not placed.n[~ours].any()
    assert [len(runs) for runs in placed.runs] == [20, 0, 20]


def test_how_much_is_kept():
    assert [KEEPING.n_worst(n) for n in (8, 10, 11, 20, 80)] == [8, 10, 5, 5, 8]
    assert [KEEPING.n_waiting(n) for n in (80, 1_000)] == [20, 100]
