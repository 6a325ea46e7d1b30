"""The study on risk: scores by hand, what it refuses, what its page says."""

from dataclasses import replace

import numpy as np
import pytest

from spibb import AutoSPIBB, Counts, PiLeqBSPIBB, evaluate, solve
from spibb.errors import SettingsError
from spibb.pictures import to_svg
from spibb.studies.registry import read_results
from spibb.studies.risk.page import draw_risk, risk_pages
from spibb.studies.risk.problems import PROBLEMS
from spibb.studies.risk.study import PLANS, RISK, RiskSetting, _seed, check_plan, run
from spibb.studies.running import run_study

PLAN = replace(
    next(plan for plan in PLANS if plan.name == "risk"), n_runs=3, runs_per_job=2,
    problem=("rare-best", "maintenance"), trajectories=(20, 200),
)  # fmt: skip
AUTO = f"Auto-SPIBB, caution={AutoSPIBB().caution:g}"
BOLD = "pi-leq-b-spibb (n_wedge 1, delta 0.05) on counts"


@pytest.fixture(scope="module")
def scores():
    return run(PLAN, range(3))["score"]


def log_of(name, number, size):
    truth, baseline = PROBLEMS[name].make(np.random.default_rng(0))
    rng = np.random.default_rng(_seed(name, PLAN.seed, number, size))
    steps = PROBLEMS[name].max_steps
    counts = Counts.sample(truth, baseline, n_episodes=size, max_steps=steps, rng=rng)
    return truth, baseline, counts


@pytest.mark.parametrize(("label", "algorithm"), [
    (AUTO, AutoSPIBB()),
    (BOLD, PiLeqBSPIBB(n_wedge=1)),
])  # fmt: skip
def test_scores_are_those_of_the_algorithm_itself(scores, label, algorithm):
    name, size, place = "rare-best", 200, PLAN.labels.index(label)
    truth, baseline, counts = log_of(name, 1, size)
    result = algorithm.improve(counts, baseline=baseline, gamma=truth.gamma)
    old, best = evaluate(truth, baseline).performance, solve(truth).performance
    expected = (evaluate(truth, result.policy).performance - old) / (best - old)
    assert scores[1, 0, 1, place] == pytest.approx(expected, abs=1e-6)


def test_runs_do_not_depend_on_their_grouping(scores):
    assert np.array_equal(run(PLAN, [2])["score"][0], scores[2])


def test_what_auto_spibb_does_not_try_is_refused():
    stranger = replace(RiskSetting.of("other", PiLeqBSPIBB(n_wedge=7)), model="counts")
    with pytest.raises(SettingsError, match="none that auto-spibb tries"):
        check_plan(replace(PLAN, settings=(*PLAN.settings, stranger)))
    alone = RiskSetting.of("other", PiLeqBSPIBB(n_wedge=1))
    with pytest.raises(SettingsError, match="none that auto-spibb tries"):
        check_plan(replace(PLAN, settings=(alone,)))
    check_plan(PLAN)


def test_the_page_and_the_figure(tmp_path, scores):
    folder = tmp_path / "study"
    for _ in run_study(PLAN, folder):
        pass
    study, results = read_results(folder)
    assert study is RISK
    text = risk_pages([results])["risk-study.md"]["risk"]
    place = PLAN.labels.index(AUTO)
    mean = scores[:, 1, 1, place].mean()
    row = next(line for line in text.splitlines() if line.startswith("| maintenance"))
    assert f"{mean:.2f} /" in row.split("|")[4]
    [drawing] = draw_risk(results)
    assert "maintenance" in to_svg(drawing.figure)
