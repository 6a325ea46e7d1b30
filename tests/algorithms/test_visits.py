"""Estimates by the model say what they rest on, and are withheld where they mean nothing."""

import numpy as np
import pytest

from spibb import ApproxSoftSPIBB, Assessment, BasicRL, Log, TabularMDP, TabularPolicy, evaluate
from spibb.ope.support import Visits

UNIFORM = TabularPolicy([[0.5, 0.5]] * 2)


def chain_log(n, reward=(1.0, 0.0), second=0):
    """n episodes: action 0 in state 0, then one of state 1's, then the end."""
    return Log.from_arrays(
        state=[0, 1] * n, action=[0, second] * n, reward=list(reward) * n,
        episode=np.repeat(np.arange(n), 2), step=[0, 1] * n, terminated=[False, True] * n,
        n_states=2, n_actions=2,
    )  # fmt: skip


def test_shares_by_hand():
    """From state 0 the uniform policy tries unobserved pairs half of the time."""
    gamma = 0.9
    result = ApproxSoftSPIBB(epsilon=0.0).improve(
        chain_log(50), baseline=UNIFORM, gamma=gamma, accept_baseline=True
    )
    model = result.problem.model
    visits = evaluate(model, UNIFORM)
    d = np.linalg.solve(
        np.eye(2) - gamma * np.einsum("xa,xay->xy", UNIFORM.probabilities, model.dense).T,
        model.initial,
    )
    assert visits.v @ model.initial == pytest.approx(
        (d[:, None] * UNIFORM.probabilities * model.reward).sum()
    )
    expected = (d / d.sum()) @ [0.5, 0.5]
    found = Assessment.of(result)
    assert found.visits.unobserved == pytest.approx(expected)
    assert found.visits == found.baseline_visits
    assert found.withheld == "50 % of the new policy's visits are to unobserved pairs"


@pytest.mark.parametrize(("n", "hardly"), [(4, True), (5, False)])
def test_pairs_seen_fewer_than_five_times(n, hardly):
    baseline = TabularPolicy([[1.0, 0.0]] * 2)
    result = BasicRL().improve(chain_log(n), baseline=baseline, gamma=0.9)
    assert Assessment.of(result).visits == Visits(0.0, 1.0 if hardly else 0.0)
    reason = "100 % of the new policy's visits are to pairs seen fewer than 5 times"
    assert Assessment.of(result).withheld == (reason if hardly else None)


def contradicting(n, truncated=False):
    """State 0 forgets: what follows it depends on where it came from, so the model is wrong."""
    rows = {"state": [], "action": [], "reward": [], "episode": [], "terminated": []}
    for episode in range(n):
        # Half of the episodes pay 10 and end at once; the others go round twenty times for 1.
        length = 1 if episode % 2 else 20
        for step in range(length):
            rows["state"].append(0)
            rows["action"].append(0)
            rows["reward"].append(10.0 if length == 1 else 1.0)
            rows["episode"].append(episode)
            rows["terminated"].append(step == length - 1)
    if truncated:
        rows["terminated"][-1] = False
    return Log.from_arrays(**rows, n_states=1, n_actions=2)


def test_a_model_that_contradicts_the_log():
    baseline = TabularPolicy([[1.0, 0.0]])
    asked = {"baseline": baseline, "gamma": 0.8}
    result = BasicRL().improve(contradicting(400), **asked)
    assert "the model puts the baseline at" in Assessment.of(result).withheld
    assert "over the first 1 step of 400 records" in Assessment.of(result).withheld
    few = BasicRL().improve(contradicting(18), **asked)
    assert Assessment.of(few).withheld is None, "too few to say so"
    cut = BasicRL().improve(contradicting(400, truncated=True), **asked)
    assert "of 400 records" in Assessment.of(cut).withheld, "one truncated record changes nothing"
    given = BasicRL().improve(contradicting(400), **asked, initial=[1.0])
    assert "of 400 records" in Assessment.of(given).withheld, "compared from where records begin"


def test_benign_logs_are_shown():
    mdp = TabularMDP([[[0.5, 0.3], [0.2, 0.5]], [[0.1, 0.6], [0.6, 0.2]]], [[0, 1], [2, 0]], 0.9,
                     ending=[[0.2, 0.3], [0.3, 0.2]])  # fmt: skip
    shown = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        log = Log.sample(mdp, UNIFORM, n_episodes=100, max_steps=500, rng=rng)
        result = BasicRL().improve(log, baseline=UNIFORM, gamma=0.9)
        shown += Assessment.of(result).withheld is None
    assert shown == 40


def test_a_start_that_is_terminal_visits_nothing():
    log = Log.from_arrays(
        state=[0] * 9, action=[0] * 9, reward=[1.0] * 9, next_state=[1] * 9, terminated=[True] * 9,
        episode=range(9), n_states=2, n_actions=2,
    )  # fmt: skip
    result = BasicRL().improve(log, baseline=UNIFORM, gamma=0.9, initial=[0.0, 1.0])
    assert Assessment.of(result).visits == Visits(0.0, 0.0)
    assert result.performance == 0.0


def test_a_policy_that_does_not_end_has_no_visits():
    log = Log.from_arrays(
        state=[0] * 18, action=[0] * 18, reward=[0.0, -1.0] * 9, next_state=[0] * 18,
        terminated=[False] * 18, episode=np.repeat(np.arange(9), 2), n_states=1, n_actions=2,
    )  # fmt: skip
    result = BasicRL().improve(log, baseline=TabularPolicy([[1.0, 0.0]]), gamma=1.0)
    assert np.isnan(Assessment.of(result).visits.unobserved)
    assert Assessment.of(result).withheld == "the new policy does not end in the estimated model"
