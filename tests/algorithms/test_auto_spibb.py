"""The choice among algorithms, settings and models."""

import json
from pathlib import Path

import numpy as np
import pytest

from spibb import (
    HCPI,
    ApproxSoftSPIBB,
    Assessment,
    AutoSPIBB,
    Log,
    Problem,
    Status,
    TabularPolicy,
    evaluate,
    improve_many,
)
from spibb.algorithms.auto_spibb import GRID
from spibb.envs.garnet import Garnet
from spibb.errors import SettingsError
from spibb.posterior.choice import Candidate, Choice
from spibb.posterior.gain import Gain
from spibb.posterior.penalised_search import PENALTIES
from spibb.posterior.risk import format_share
from spibb.problem import ProblemBatch
from spibb.problem.batch import models_on
from spibb.testing.adversaries import ADVERSARIES
from spibb.testing.checks import random_problem

N_CANDIDATES = len(PENALTIES) + 2 * len(GRID)


def garnet_log(seed=0, n_episodes=100, eta=0.5):
    rng = np.random.default_rng(seed)
    garnet = Garnet.random(rng)
    baseline = garnet.baseline(eta, rng)
    return garnet.mdp, baseline, Log.sample(garnet.mdp, baseline, n_episodes=n_episodes, rng=rng)


def test_the_choice_has_the_largest_score():
    mdp, baseline, log = garnet_log(n_episodes=200, eta=0.9)
    result = AutoSPIBB(caution=2.0).improve(log, baseline=baseline, gamma=0.95)
    choice = result.choice
    scores = [one.gain.mean - 2.0 * one.gain.deviation for one in choice.candidates]
    assert scores == pytest.approx([one.score(choice.caution) for one in choice.candidates])
    assert max(scores) == pytest.approx(scores[choice.chosen])
    assert max(scores) > max(0.0, min(scores))
    assert result.status is Status.CHOSEN
    assert evaluate(mdp, result.policy).performance > evaluate(mdp, baseline).performance
    assert {one.model for one in choice.candidates} == {"counts", "posterior"}
    assert len(scores) == N_CANDIDATES
    assert f"Chosen from {N_CANDIDATES} candidates" in choice.summary


def judged(mean, deviation, *, ends=True):
    return Candidate({"algorithm": "basic-rl"}, "counts", Gain(mean, deviation), ends)


@pytest.mark.parametrize(
    ("caution", "chosen"), [(0.0, 0), (1.4, 0), (1.9, 1), (3.0, 2), (10.0, 2), (30.0, None)]
)
def test_caution_decides_between_the_bold_and_the_timid(caution, chosen):
    bold, middling, timid = judged(2.0, 1.0), judged(1.0, 0.3), judged(0.2, 0.01)
    assert Choice.of([bold, middling, timid], caution).chosen == chosen


def test_the_same_log_gives_the_same_bytes(tmp_path):
    _, baseline, log = garnet_log()
    for name in "ab":
        AutoSPIBB().improve(log, baseline=baseline, gamma=0.95).write(tmp_path / name)
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name


def test_a_batch_chooses_as_each_alone():
    problems = [
        Problem.of(log, baseline=baseline, gamma=0.95)
        for _, baseline, log in (garnet_log(seed, 20 * seed + 5) for seed in range(4))
    ]
    many = improve_many([AutoSPIBB()], problems)
    for k, problem in enumerate(problems):
        alone = AutoSPIBB().improve(problem)
        np.testing.assert_array_equal(many.probabilities[0, k], alone.policy.probabilities)


def test_little_data_and_much_caution_keep_the_baseline():
    _, baseline, log = random_problem(0, n_episodes=1)
    for asked in (AutoSPIBB(), AutoSPIBB(caution=1e6)):
        result = asked.improve(log, baseline=baseline, gamma=0.9)
        assert result.choice.chosen is None
        assert result.status is Status.BASELINE_KEPT
        np.testing.assert_array_equal(result.policy.probabilities, baseline.probabilities)
        assert Assessment.of(result).risk.mean == 0.0
        assert "The baseline is kept" in result.choice.summary


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_discounts_at_both_ends(gamma):
    _, baseline, log = garnet_log(2)
    whole = np.isin(log.episode, log.episode[log.terminated])
    result = AutoSPIBB().improve(log.take(whole), baseline=baseline, gamma=gamma)
    assert np.isfinite(result.v).all()
    assert all(np.isfinite(one.score(2.5)) for one in result.choice.candidates)


def test_harm_is_rare_on_problems_that_were_not_used_to_set_it():
    """30 logs of few episodes and strong baselines: two worse ones would be too many at 1 %."""
    worse = gained = 0
    for seed in range(30):
        mdp, baseline, log = garnet_log(100 + seed, n_episodes=(10, 30, 100)[seed % 3], eta=0.9)
        policy = AutoSPIBB().improve(log, baseline=baseline, gamma=0.95).policy
        gain = evaluate(mdp, policy).performance - evaluate(mdp, baseline).performance
        worse, gained = worse + (gain < -1e-9), gained + (gain > 1e-9)
    assert worse <= 1
    assert gained >= 10


@pytest.mark.parametrize("name", sorted({*ADVERSARIES} - {"well-known"}))
def test_processes_made_to_break_claims_break_no_choice_but_one(name):
    """What a log does not hold cannot be known; see docs/risk.md."""
    case, worse, blind = ADVERSARIES[name], 0, 0
    for seed in range(8):
        log = case.draw(np.random.default_rng([seed, 91]))
        result = AutoSPIBB().improve(
            log, baseline=case.baseline, gamma=case.mdp.gamma, reward_range=case.reward_range,
            accept_baseline=True, **case.declared,
        )  # fmt: skip
        worse += case.gain(result.policy) < -1e-9
        blind += is_blind(name, log)
    assert worse == blind


def is_blind(name, log):
    """Return whether a log holds nothing of what makes the process dangerous."""
    if name == "merged-ends":  # three of a hundred go on
        return not ((log.action == 1) & (log.state == 0) & ~log.terminated).any()
    return name == "unlisted-state"


def test_it_is_an_algorithm_like_all_others(tmp_path):
    _, baseline, log = garnet_log(n_episodes=200)
    found = HCPI(candidates=[AutoSPIBB()], bound="student-t", estimator="dr").improve(
        log, baseline=baseline, gamma=0.95
    )
    assert found.certificate is not None
    assert AutoSPIBB.from_config(AutoSPIBB(caution=1.5).to_config()) == AutoSPIBB(caution=1.5)
    result = AutoSPIBB().improve(log, baseline=baseline, gamma=0.95)
    result.write(tmp_path / "result")
    summary = json.loads((tmp_path / "result" / "summary.json").read_text())
    assert len(summary["choice"]["candidates"]) == N_CANDIDATES
    risk = summary["risk"]
    assert risk["interval_95"][0] < risk["interval_80"][0] < risk["mean"] < risk["interval_95"][1]
    assert risk["lower_tail_mean"] < risk["mean"]
    least, most = risk["prior_range"]["probability_of_harm"]
    assert 0.0 <= least <= risk["probability_of_harm"] <= most <= 1.0
    assert len(risk["scenarios"]) == 100
    page = (tmp_path / "result" / "report.html").read_text()
    assert f"{N_CANDIDATES} candidates" in page
    assert summary["verdict"]["headline"] in page


def test_halves_judge_each_other_where_there_are_enough_episodes():
    _, baseline, log = garnet_log(3, n_episodes=60)
    result = AutoSPIBB().improve(log, baseline=baseline, gamma=0.95)
    risk = Assessment.of(result).risk
    assert risk.cross_fitted < risk.gain.mean
    few = log.take(np.isin(log.episode, np.unique(log.episode)[:7]))
    alone = ApproxSoftSPIBB(epsilon=4.0).improve(few, baseline=baseline, gamma=0.95)
    assert Assessment.of(alone).risk.cross_fitted is None


def test_a_negative_caution_is_refused():
    with pytest.raises(SettingsError, match="caution"):
        AutoSPIBB(caution=-1.0)


@pytest.mark.parametrize(
    ("share", "told"),
    [
        (0.0, "below 0.1 %"),
        (7e-4, "below 0.1 %"),
        (0.0123, "1.2 %"),
        (0.5, "50 %"),
        (0.999, "above 99 %"),
    ],
)
def test_a_probability_is_told_no_more_exactly_than_it_is_known(share, told):
    assert format_share(share) == told


def test_ties_are_judged_by_what_may_be_taken():
    """What hardly ends has a huge score, and must not make all others alike."""
    wild, first, better = judged(0.0, 1e12), judged(1.0, 0.0), judged(1.01, 0.0)
    assert Choice.of([wild, first, better], 2.0).chosen == 2


@pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no GPU here")
def test_a_gpu_chooses_alike():
    problems = ProblemBatch.of([
        Problem.of(log, baseline=baseline, gamma=0.95)
        for _, baseline, log in (garnet_log(seed) for seed in range(3))
    ])  # fmt: skip
    there = problems.with_models(models_on(problems.models, "cuda"))
    here, found = (AutoSPIBB(caution=0.5).search(one).policy for one in (problems, there))
    assert np.abs(here - found).max() < 1e-9
    assert np.abs(here - problems.baseline).max() > 0.01


def test_two_thousand_states_are_the_limit():
    log = Log.from_arrays(
        state=[0],
        action=[0],
        reward=[0.0],
        terminated=[True],
        episode=[0],
        n_states=2_001,
        n_actions=2,
    )
    with pytest.raises(SettingsError, match="at most 2,000"):
        AutoSPIBB().improve(log, baseline=TabularPolicy.uniform(2_001, 2), gamma=0.9)


def test_what_never_ends_is_not_taken():
    """At gamma = 1, on counts: action 1 was only ever seen to stay, for a reward each time."""
    log = Log.from_arrays(
        state=[0] * 200, action=[0] * 100 + [1] * 100, reward=[0.0] * 100 + [1.0] * 100,
        next_state=[0] * 200, terminated=[True] * 100 + [False] * 100,
    )  # fmt: skip
    result = AutoSPIBB(caution=0.0).improve(
        log, baseline=TabularPolicy([[0.5, 0.5]]), gamma=1.0, initial=[1.0]
    )
    choice = result.choice
    assert any(not one.ends for one in choice.candidates)
    assert choice.chosen is None or choice.candidates[choice.chosen].ends
    assert result.policy.probabilities[0, 0] > 0.0
    assert np.isfinite(result.v).all()


def test_the_best_of_those_that_end_is_taken():
    endless, good, better = judged(9.0, 0.1, ends=False), judged(1.0, 0.1), judged(2.0, 0.1)
    assert Choice.of([endless, good, better], 1.0).chosen == 2
    assert Choice.of([endless], 1.0).chosen is None


def test_what_rounding_makes_of_the_fallback_is_not_chosen():
    """Limits forbid the baseline: what is returned otherwise is as bad as this candidate."""
    fallback = judged(-2.0, 1.0).gain
    same, better = judged(-2.0 * (1.0 - 1e-14), 1.0), judged(-1.9, 1.0)
    assert Choice.of([same], 1.0, fallback).chosen is None
    assert Choice.of([same, better], 1.0, fallback).chosen == 1
