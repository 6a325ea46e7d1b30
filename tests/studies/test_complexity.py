"""The study of run time: reproducible rows, timings in a table of their own, and the figure."""

import os
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest
from study_rows import keys, ordered

from spibb.data.counts import Counts
from spibb.envs import GridWorld
from spibb.errors import DataError, OutputError, SettingsError
from spibb.mdp.evaluation import evaluate
from spibb.mdp.planning import solve
from spibb.pictures import to_svg
from spibb.runner.store import Store
from spibb.studies.complexity.page import draw_complexity
from spibb.studies.complexity.study import PLANS, ComplexityPlan
from spibb.studies.complexity.timings import (
    FILE,
    ensure_timings,
    measure,
    read_timings,
    write_timings,
)
from spibb.studies.results.aggregates import Results, aggregate
from spibb.studies.results.cell_aggregates import Kept, Retention
from spibb.studies.results.cells import facts_of
from spibb.studies.results.recording import Recorder, read_results
from spibb.studies.running import compute_rows, run_study

(PLAN,) = PLANS
TINY = replace(
    PLAN, n_runs=3, runs_per_job=2, actions=(4, 8), trajectories_per_action=5, n_timed=2,
    n_together=3, n_repeats=2,
)  # fmt: skip


def draw(plan, n_runs, folder):
    kept = Kept.of_table(compute_rows(plan, 0, n_runs), plan)
    return draw_complexity(Results(plan, aggregate(kept, plan), folder))


@pytest.fixture(scope="module")
def timings():
    return measure(TINY)


def test_the_plan_survives_toml():
    text = PLAN.to_toml()
    again = ComplexityPlan.from_toml(text)
    assert isinstance(again, ComplexityPlan)
    assert again == PLAN
    assert (again.to_toml(), again.fingerprint) == (text, PLAN.fingerprint)
    assert "second_goal" not in text
    assert [setting.build().id for setting in again.settings] == [
        "basic-rl", "pi-b-spibb", "exact-soft-spibb", "approx-soft-spibb",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actions": (4, 6)}, "actions is 6; expected multiples of its 4 actions"),
        ({"n_repeats": 0}, "n_repeats is 0; expected at least 1"),
        ({"n_together": -1}, "n_together is -1; expected at least 0"),
        ({"temperature": (0.1, 0.0)}, r"temperature is 0\.0; expected a number > 0"),
        ({"actions": ()}, "the plan has no actions; expected values of actions"),
    ],
)
def test_a_wrong_plan_is_refused(changes, message):
    with pytest.raises(SettingsError, match=message):
        replace(PLAN, **changes)


def test_rows_hold_no_seconds_and_do_not_depend_on_the_grouping(tmp_path):
    for _ in run_study(TINY, tmp_path / "study", workers=1):
        pass
    found = Store(tmp_path / "study").read()
    assert found.column_names == [*keys(TINY), "score", "n_iterations"]
    assert found.num_rows == 3 * 2 * 4
    alone = pa.concat_tables([compute_rows(TINY, run, run + 1) for run in range(3)])
    assert ordered(found) == ordered(alone)
    assert (tmp_path / "study" / "parts").is_dir()


def test_a_study_of_many_runs_is_folded_and_read(tmp_path):
    plan, keeping = replace(TINY, n_runs=8), Retention(rows=4, least=2, every=2)
    with Recorder.open(plan, tmp_path, resume=False, keeping=keeping) as recorder:
        for name, first, last in recorder.jobs:
            recorder.write(name, compute_rows(plan, first, last))
    assert recorder.store.folded() == "0000008"
    found = read_results(recorder.store, plan, keeping)
    assert found.n.tolist() == [8] * 8
    assert found.total.tolist() == Kept.of_table(compute_rows(plan, 0, 8), plan).total.tolist()


def test_a_row_by_hand():
    """Run 7 with eight actions, from its id."""
    run, n_actions, label = 7, 8, "Exact-Soft-SPIBB, epsilon=1"
    rows = compute_rows(TINY, run, run + 1).to_pylist()
    row = next(row for row in rows if (row["actions"], row["setting"]) == (n_actions, label))

    world = GridWorld(n_copies=2)
    truth, baseline = world.to_mdp(0.95), world.baseline(0.1)
    seeds = np.random.SeedSequence([TINY.seed, run], spawn_key=(0, n_actions))
    counts = Counts.sample(
        truth, baseline, n_episodes=40, max_steps=50, rng=np.random.default_rng(seeds)
    )
    algorithm = next(part for part in TINY.settings if part.label == label).build()
    result = algorithm.improve(counts, baseline=baseline, gamma=0.95, unseen="terminal")
    old, best = evaluate(truth, baseline).performance, solve(truth).performance
    score = (evaluate(truth, result.policy).performance - old) / (best - old)
    assert row["score"] == pytest.approx(score, rel=1e-5)
    assert row["n_iterations"] == result.n_iterations
    assert score > 0.1


def test_every_setting_is_timed_alone_and_in_a_batch(timings):
    rows = timings.to_pylist()
    found = [(r["n_actions"], r["setting"], r["n_problems"], r["run"]) for r in rows]
    assert sorted(found) == sorted(
        (n, label, *which)
        for n in (4, 8)
        for label in TINY.labels
        for which in ((1, 0), (1, 1), (3, 0))
    )
    assert all(0 < row["seconds"] < 10 for row in rows)
    results = {
        (row["run"], row["actions"], row["setting"]): row["n_iterations"]
        for row in compute_rows(TINY, 0, 3).to_pylist()
    }
    for row in rows:
        runs = range(row["run"], row["run"] + row["n_problems"])
        steps = [results[run, row["n_actions"], row["setting"]] for run in runs]
        assert row["n_iterations"] == pytest.approx(np.mean(steps))


def test_timings_say_where_they_come_from(timings):
    facts = facts_of(timings)
    assert facts["fingerprint"] == TINY.fingerprint
    assert facts["machine"]
    assert {"python", "numpy", "numba", "spibb"} <= set(facts)


@pytest.mark.parametrize("before", [None, "2"])
def test_measuring_leaves_the_number_of_threads_alone(before, monkeypatch):
    if before is None:
        monkeypatch.delenv("SPIBB_THREADS", raising=False)
    else:
        monkeypatch.setenv("SPIBB_THREADS", before)
    measure(replace(TINY, actions=(4,), n_timed=1, n_together=0, n_repeats=1))
    assert os.environ.get("SPIBB_THREADS") == before


def test_timings_are_measured_once(tmp_path, timings):
    write_timings(timings, tmp_path / FILE)
    before = (tmp_path / FILE).read_bytes()
    ensure_timings(TINY, tmp_path)
    assert (tmp_path / FILE).read_bytes() == before
    assert read_timings(tmp_path, TINY).equals(timings)
    (tmp_path / FILE).unlink()
    ensure_timings(TINY, tmp_path)
    assert read_timings(tmp_path, TINY).num_rows == timings.num_rows
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_timings_that_cannot_be_used(tmp_path, timings):
    with pytest.raises(DataError, match=r"has no timings\.parquet.*--resume"):
        read_timings(tmp_path, TINY)
    write_timings(timings, tmp_path / FILE)
    with pytest.raises(DataError, match="does not belong to the plan beside it"):
        read_timings(tmp_path, replace(TINY, seed=1))
    (tmp_path / FILE).write_bytes(b"no table")
    with pytest.raises(DataError, match="cannot read"):
        read_timings(tmp_path, TINY)
    with pytest.raises(OutputError, match="cannot write"):
        write_timings(timings, tmp_path / "absent" / FILE)


def test_the_figure(tmp_path, timings):
    write_timings(timings, tmp_path / FILE)
    drawings = draw(TINY, 3, tmp_path)
    assert [x.stem for x in drawings] == ["time-to-convergence", "performance-by-actions"]
    alone, together, steps = drawings[0].figure.axes
    assert alone.get_xscale() == alone.get_yscale() == together.get_yscale() == "log"
    lines = {line.get_label(): line for line in alone.lines if line.get_label()[0] != "_"}
    assert len(lines) == 4
    seconds = [
        row["seconds"] for row in timings.to_pylist()
        if (row["setting"], row["n_actions"], row["n_problems"]) == ("Basic RL", 8, 1)
    ]  # fmt: skip
    assert lines["Basic RL"].get_ydata()[1] == pytest.approx(1e3 * np.mean(seconds))
    assert together.get_title() == "in a batch of 3 logs"
    assert steps.get_ylim()[0] == 0
    for part in ("one thread", "median of 2 calls", "Python"):
        assert part in drawings[0].caption
    for drawing in drawings:
        assert ElementTree.fromstring(to_svg(drawing.figure)).tag.endswith("svg")


def test_without_a_batch_the_figure_has_one_panel_less(tmp_path):
    plan = replace(TINY, n_together=0, n_timed=1)
    ensure_timings(plan, tmp_path)
    drawing = draw(plan, 1, tmp_path)[0]
    assert [axes.get_title() for axes in drawing.figure.axes] == [
        "one log at a time", "improvement steps",
    ]  # fmt: skip
