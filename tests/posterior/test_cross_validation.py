"""What halves of a log say of each other's policies, with models and without."""

import numpy as np
import pytest

import spibb
from spibb.assessment.verdict import Decision
from spibb.posterior.cross_validation import ask_halves
from spibb.testing.checks import random_problem

UNIFORM = spibb.TabularPolicy.uniform(1, 2)


def remembered(n_episodes, rng):
    """Return a log of two steps in one state: action 1 pays 1, and costs 5 at the next step.

    The state does not hold what was done before, so that models blame both actions for the cost
    alike, and recommend action 1; it earns -3 in an episode, the uniform baseline -1.5.
    """
    action = rng.integers(0, 2, (n_episodes, 2))
    reward = action - 5.0 * np.stack([np.zeros(n_episodes), action[:, 0]], axis=1)
    last = np.tile([False, True], n_episodes)
    return spibb.Log.from_arrays(
        state=np.zeros(2 * n_episodes, int), action=action.ravel(), reward=reward.ravel(),
        next_state=np.zeros(2 * n_episodes, int), terminated=last,
        episode=np.repeat(np.arange(n_episodes), 2),
    )  # fmt: skip


def test_episodes_contradict_models_that_miss_what_is_remembered():
    log = remembered(400, np.random.default_rng(0))
    result = spibb.BasicRL().improve(log, baseline=UNIFORM, gamma=1.0)
    assert result.policy["0"] == {0: 0.0, 1: 1.0}
    judged = spibb.Assessment.of(result)
    risk = judged.risk
    assert risk.probability_of_harm < 0.05, "the models are sure of a gain"
    assert risk.cross_fitted > 0.0
    low, high = risk.held_out.interval_95
    assert low < -1.5 < high < 0.0, "the episodes know better"
    found = judged.verdict
    assert found.decision in (Decision.WAIT, Decision.KEEP)
    asked = {one.name: one.holds for one in found.conditions}
    assert asked["episodes"] is False


def test_no_model_decides_what_episodes_say():
    """Without a model, doubly robust terms are weighted returns less returns: by hand."""
    log = remembered(50, np.random.default_rng(1))
    problem = spibb.Problem.of(log, baseline=UNIFORM, gamma=1.0)
    always = np.array([[0.0, 1.0]])
    found = ask_halves(problem, lambda part: always)
    action = log.action.reshape(-1, 2)
    assert found.held_out.ess == pytest.approx((action == 1).all(axis=1).sum())
    assert found.held_out.gain == pytest.approx(-1.5, abs=1.5)
    kept = ask_halves(problem, lambda part: part.baseline.probabilities)
    assert kept.expected == 0.0
    assert kept.held_out is None, "nothing varies"


def test_few_episodes_are_not_halved_and_long_logs_not_weighted(monkeypatch):
    _, baseline, log = random_problem(3, n_episodes=30)
    problem = spibb.Problem.of(log, baseline=baseline, gamma=0.9)

    def made(part):
        return spibb.BasicRL().improve(part).policy.probabilities

    assert ask_halves(problem.part(log.episode < 7), made) is None
    assert ask_halves(problem, made).held_out is not None
    monkeypatch.setattr("spibb.posterior.cross_validation._MOST_ROWS", 10)
    asked = ask_halves(problem, made)
    assert asked.held_out is None
    assert np.isfinite(asked.expected)


def test_sound_logs_are_seldom_disputed():
    """Of 40 logs of a process whose state holds everything, at 2.5 % one is expected."""
    rng = np.random.default_rng(3)
    disputed = 0
    for _ in range(40):
        process, baseline, log = random_problem(int(rng.integers(1e6)), n_episodes=120)
        problem = spibb.Problem.of(log, baseline=baseline, gamma=0.9)
        better = spibb.solve(process).policy.probabilities
        mixed = 0.7 * baseline.probabilities + 0.3 * better
        found = ask_halves(problem, lambda part, policy=mixed: policy)
        disputed += found.held_out.interval_95[1] < 0.0
    assert disputed <= 2
