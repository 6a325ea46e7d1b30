"""Statistics of the cells against a slow loop, and their file."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.stats

from spibb.errors import DataError, OutputError
from spibb.runner.store import Store
from spibb.studies.metrics import Measure
from spibb.studies.plan import Setting
from spibb.studies.random_mdps.plans import RandomMDPPlan
from spibb.studies.results.aggregates import FILE, SHARES, Aggregates, aggregate, describe_runs
from spibb.studies.results.cell_aggregates import Kept

# Runs of each setting: enough for the interval of a 10 %-CVaR, too few, and none.
N_RUNS = {"Basic RL": 250, "RaMDP, kappa=0.003": 30, "Pi_b-SPIBB, n_wedge=10": 0}


@pytest.fixture
def plan():
    families = (("", ""), ("RaMDP", "kappa"), ("Pi_b-SPIBB", "n_wedge"))
    settings = [
        Setting(label, {"algorithm": "basic-rl"}, *family, 0.5)
        for label, family in zip(N_RUNS, families, strict=True)
    ]
    return RandomMDPPlan(
        name="tiny", seed=1, n_runs=250, runs_per_job=10, eta=(0.9, 0.1),
        trajectories=(10, 100), max_steps=50, second_goal=1.0, settings=tuple(settings),
    )  # fmt: skip


@pytest.fixture
def rows(plan):
    """A list of (run, eta, trajectories, setting, score), in no order."""
    rng = np.random.default_rng(1)
    found = [
        (run, eta, size, label, np.float32(rng.normal(eta, size)))
        for eta in plan.eta
        for size in plan.trajectories
        for label, n_runs in N_RUNS.items()
        for run in range(n_runs)
    ]
    return [found[place] for place in rng.permutation(len(found))]


def as_table(rows):
    run, eta, size, label, score = zip(*rows, strict=True)
    return pa.table(
        {
            "run": pa.array(run, pa.int32()),
            "eta": eta,
            "trajectories": pa.array(size, pa.int32()),
            "setting": pa.array(label).dictionary_encode(),
            "score": pa.array(score, pa.float32()),
        }
    )


def of_rows(rows, plan):
    return aggregate(Kept.of_table(as_table(rows), plan), plan)


def slow_cvar(scores, share):
    left = total = share * len(scores)
    result = 0.0
    for score in sorted(scores):
        result += min(left, 1.0) * score
        left -= min(left, 1.0)
    return result / total


def test_every_cell_is_what_a_slow_loop_finds(plan, rows):
    found = of_rows(rows, plan)
    for i, eta in enumerate(plan.eta):
        for j, size in enumerate(plan.trajectories):
            for k, label in enumerate(list(N_RUNS)[:2]):
                scores = [float(r[4]) for r in rows if r[1:4] == (eta, size, label)]
                cell, n = (i, j, k), len(scores)
                assert found.n[cell] == n == N_RUNS[label]
                mean = math.fsum(scores) / n
                assert found.mean.value[cell] == pytest.approx(mean, rel=1e-6)
                low, high = scipy.stats.t.interval(0.95, n - 1, mean, scipy.stats.sem(scores))
                assert found.mean.low[cell] == pytest.approx(low, rel=1e-5)
                assert found.mean.high[cell] == pytest.approx(high, rel=1e-5)
                worse = sum(score < 0 for score in scores) / n
                assert found.worse[cell] == pytest.approx(worse, rel=1e-6)
                for share in SHARES:
                    expected = slow_cvar(scores, share)
                    assert found.cvar[share].value[cell] == pytest.approx(expected, rel=1e-6)


def test_intervals_are_there_where_the_runs_allow_them(plan, rows):
    found = of_rows(rows, plan)
    value, low, high = (part[:, :, 0] for part in found.cvar[0.1])
    assert ((low < value) & (value < high)).all()
    for share, setting in ((0.01, 0), (0.001, 0), (0.1, 1)):
        estimate = found.cvar[share]
        assert np.isfinite(estimate.value[:, :, setting]).all()
        assert np.isnan([estimate.low[:, :, setting], estimate.high[:, :, setting]]).all()


def test_an_interval_does_not_depend_on_other_cells(plan, rows):
    found = of_rows(rows, plan).cvar[0.1]
    alone = of_rows([row for row in rows if row[1:3] == (0.1, 100)], plan).cvar[0.1]
    for part, part_alone in zip(found, alone, strict=True):
        np.testing.assert_allclose(part_alone[1, 1, 0], part[1, 1, 0], rtol=1e-6)


def test_cells_without_runs_are_empty(plan, rows, tmp_path):
    found = of_rows(rows, plan)
    assert (found.n[:, :, 2] == 0).all()
    assert np.isnan(found.mean.value[:, :, 2]).all()
    table = found.to_table(plan)
    empty = table.filter(pa.array(table["n"].to_numpy() == 0))
    assert empty["cvar_1"].null_count == empty["worse"].null_count == empty.num_rows == 4


def test_the_measures(plan, rows):
    found = of_rows(rows, plan)
    assert found.of(Measure()) is found.mean
    assert found.of(Measure(0.01)) is found.cvar[0.01]


def test_the_file_names_every_cell(plan, rows, tmp_path):
    of_rows(rows, plan).write(tmp_path / FILE, plan)
    table = pq.read_table(tmp_path / FILE)
    cells = list(
        zip(*(table[name].to_pylist() for name in ("eta", "trajectories", "setting")), strict=True)
    )
    assert cells == [(e, s, label) for e in plan.eta for s in plan.trajectories for label in N_RUNS]
    assert table["family"].to_pylist()[:3] == ["", "RaMDP", "Pi_b-SPIBB"]
    assert table["parameter"].to_pylist()[:3] == ["", "kappa", "n_wedge"]
    assert set(table["value"].to_pylist()) == {0.5}
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_the_file_does_not_depend_on_the_order_of_rows(plan, rows, tmp_path):
    for name, some in (("a", rows), ("b", rows[::-1])):
        of_rows(some, plan).write(tmp_path / name, plan)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_file_is_read_back(plan, rows, tmp_path):
    found = of_rows(rows, plan)
    found.write(tmp_path / FILE, plan)
    again = Aggregates.read(tmp_path / FILE, plan)
    np.testing.assert_array_equal(again.n, found.n)
    np.testing.assert_array_equal(again.worse, found.worse)
    for measure in (Measure(), *map(Measure, SHARES)):
        np.testing.assert_array_equal(again.of(measure), found.of(measure))


def test_the_file_of_another_plan_is_refused(plan, rows, tmp_path):
    from dataclasses import replace

    of_rows(rows, plan).write(tmp_path / FILE, plan)
    with pytest.raises(DataError, match="does not belong to the plan beside it"):
        Aggregates.read(tmp_path / FILE, replace(plan, seed=2))
    pq.write_table(pa.table({"n": [1]}), tmp_path / FILE)
    with pytest.raises(DataError, match="does not belong to the plan beside it"):
        Aggregates.read(tmp_path / FILE, plan)


def test_a_broken_file_is_refused(plan, tmp_path):
    (tmp_path / FILE).write_text("no table")
    with pytest.raises(DataError, match=f"cannot read .*{FILE}"):
        Aggregates.read(tmp_path / FILE, plan)


def test_a_place_that_cannot_be_written(plan, rows, tmp_path):
    with pytest.raises(OutputError, match="cannot write"):
        of_rows(rows, plan).write(tmp_path / "absent" / FILE, plan)


def test_a_study_is_aggregated_from_its_parts_and_else_from_its_file(plan, rows, tmp_path):
    with pytest.raises(DataError, match="no results yet"):
        Aggregates.of_study(tmp_path, plan)
    of_rows(rows[:50], plan).write(tmp_path / FILE, plan)
    assert Aggregates.of_study(tmp_path, plan).n.sum() == 50
    store = Store(tmp_path)
    store.parts.mkdir()
    store.write("0000000", as_table(rows[:100]))
    store.write("0000001", as_table(rows[100:]))
    assert Aggregates.of_study(tmp_path, plan).n.sum() == len(rows)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (1, 0.5, "the eta 0.5, which the plan has not"),
        (2, 11, "the trajectories 11, which the plan has not"),
        (3, "HCPI", "the setting 'HCPI', which the plan has not"),
        (4, np.nan, r"a score is not a number \(first at row 1, run "),
    ],
)
def test_rows_that_are_not_of_the_plan(plan, rows, place, value, message):
    wrong = list(rows[1])
    wrong[place] = value
    with pytest.raises(DataError, match=message):
        of_rows([rows[0], tuple(wrong)], plan)


def test_a_run_twice_is_refused(plan, rows):
    run, label = rows[7][0], rows[7][3]
    with pytest.raises(DataError, match=f"a run is there twice: run {run} of {label}"):
        of_rows([*rows, rows[7]], plan)


def test_how_runs_are_described(plan):
    assert describe_runs([250, 250], plan) == "250 runs"
    assert describe_runs(48, plan) == "48 of 250 runs"
    assert describe_runs([2_000, 100_000], plan) == "2,000 to 100,000 runs"
