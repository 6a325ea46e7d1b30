"""Episodes of several policies, weighted over their mixture."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spibb import Log, Problem, TabularPolicy, evaluate_policy
from spibb.errors import SettingsError
from spibb.ope import Trajectories
from spibb.ope.mixture import all_episodes, mixed_propensities
from spibb.testing.adversaries import ADVERSARIES, joined_logs

GAMMA = 0.5
OLD = TabularPolicy([[0.75, 0.25], [0.5, 0.5], [1.0, 0.0]])
NEW = TabularPolicy([[0.25, 0.75], [0.0, 1.0], [0.25, 0.75]])
TARGET = TabularPolicy([[0.4, 0.6], [0.2, 0.8], [0.7, 0.3]])
PAYS = np.array([[1.0, -2.0], [3.0, 0.5], [-1.0, 6.0]])


def episodes_of(policy, n):
    """Every way through two steps, as often as the policy takes it in n episodes."""
    rows, number = [], 0
    for first, second in product((0, 1), repeat=2):
        then = 1 + first  # the action leads to state 1 or 2
        share = policy.probabilities[0, first] * policy.probabilities[then, second]
        assert (share * n) % 1 == 0
        for _ in range(int(share * n)):
            number += 1
            rows += [(number, 0, first, PAYS[0, first]), (number, then, second, PAYS[then, second])]
    episode, state, action, reward = (np.array(column) for column in zip(*rows, strict=True))
    return Log.from_arrays(episode=episode, state=state, action=action, reward=reward,
                           n_states=3, n_actions=2)  # fmt: skip


def worth(policy):
    p = policy.probabilities
    later = (p * PAYS).sum(axis=1)
    return sum(p[0, a] * (PAYS[0, a] + GAMMA * later[1 + a]) for a in (0, 1))


LOG = joined_logs([episodes_of(OLD, 16), episodes_of(NEW, 48)], ("old", "new"))
ASKED = {"baseline": {"old": OLD, "new": NEW}, "gamma": GAMMA, "improve_on": "old"}


def test_means_are_unbiased():
    """The log holds every episode as often as it happens: estimates are their expectations."""
    asked = {"policy": TARGET, "estimators": ["is", "pdis"], **ASKED}
    found = evaluate_policy(LOG, all_episodes=True, **asked)
    own = evaluate_policy(LOG, **asked)
    for name in ("is", "pdis"):
        assert found[name].estimate == pytest.approx(worth(TARGET))
        assert found[name].mean_weight == pytest.approx(1.0)
    # Alone, the old policy never does in state 2 what the target does.
    assert own["is"].estimate != pytest.approx(worth(TARGET), abs=0.1)
    assert (found.n_episodes, own.n_episodes) == (64, 16)
    assert found.baseline.estimate == own.baseline.estimate
    assert found.baseline.estimate == pytest.approx(worth(OLD))
    assert any("weights over their mixture" in text for text in found.assumptions)


def test_mixtures_step_by_step_are_biased():
    """What must not be done, on the same log."""
    mixed = TabularPolicy(0.25 * OLD.probabilities + 0.75 * NEW.probabilities)
    found = evaluate_policy(
        replace(LOG, acted=None), policy=TARGET, baseline=mixed, gamma=GAMMA, estimators=["is"],
        accept_baseline=True,
    )  # fmt: skip
    assert abs(found["is"].estimate - worth(TARGET)) > 0.05


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6))
def test_weights_are_those_of_plain_products(seed):
    rng = np.random.default_rng(seed)
    n, size = int(rng.integers(1, 30)), int(rng.integers(1, 4))
    log = Log.from_arrays(
        state=rng.integers(0, 3, n), action=rng.integers(0, 2, n), reward=np.zeros(n),
        episode=rng.integers(0, 4, n), next_state=np.zeros(n, int), n_states=3, n_actions=2,
    )  # fmt: skip
    tables = [rng.dirichlet(np.ones(2), 3) for _ in range(size)]
    if size > 1:
        tables[1][0] = [0.0, 1.0]
    shares = rng.dirichlet(np.ones(size))
    episodes = Trajectories.from_log(log)
    found = mixed_propensities(episodes, tables, shares)
    for first, last in zip(episodes.start, episodes.start[1:], strict=False):
        product_of_found, by_policy = 1.0, [1.0] * size
        for row in range(first, last):
            x, a = episodes.state[row], episodes.action[row]
            by_policy = [p * table[x, a] for p, table in zip(by_policy, tables, strict=True)]
            product_of_found *= found[row]
            expected = sum(share * p for share, p in zip(shares, by_policy, strict=True))
            assert product_of_found == pytest.approx(expected)


def test_refused():
    with pytest.raises(SettingsError, match=r"baseline of 'new' is not given.*--baseline new=FILE"):
        evaluate_policy(LOG, policy=TARGET, all_episodes=True, **ASKED | {"baseline": OLD})
    one = LOG.take(LOG.acted.policy == 0)
    with pytest.raises(SettingsError, match="one policy made the log"):
        evaluate_policy(one, policy=TARGET, all_episodes=True, baseline=NEW, gamma=GAMMA)


def test_estimates_of_others_are_not_called_exact():
    asked = {"policy": TARGET, "bound": "betting", "reward_range": (-2.0, 6.0)}
    exact = evaluate_policy(LOG, all_episodes=True, **asked, **ASKED)
    assert exact.is_exact
    estimated = {"old": OLD, "new": "estimate"}
    found = evaluate_policy(LOG, all_episodes=True, **asked, **ASKED | {"baseline": estimated})
    assert not found.is_exact
    assert found.is_baseline_estimated
    parts = evaluate_policy(LOG, all_episodes=True, **asked | {"bound": "concentration"}, **ASKED)
    assert not parts.is_exact


def test_a_mixture_is_held_to_the_baseline_of_each_that_acted():
    """80 of 100 actions where the baseline says 76: more than chance, whoever accepts it."""
    n = 4_000
    who, number = np.array(["x", "y"])[np.arange(n) % 2], np.arange(n) // 2
    log = Log.from_arrays(
        state=np.zeros(n, int), action=(number % 100 < np.where(who == "x", 50, 80)).astype(int),
        reward=np.zeros(n), episode=np.arange(n), terminated=np.ones(n, bool), policy=who,
    )  # fmt: skip
    x, y, off = (TabularPolicy([[1.0 - p, p]]) for p in (0.5, 0.8, 0.76))
    asked = {"policy": x, "gamma": 0.9, "bound": "betting", "reward_range": (0.0, 1.0),
             "improve_on": "x", "all_episodes": True, "accept_baseline": True}  # fmt: skip
    right = evaluate_policy(log, baseline={"x": x, "y": y}, **asked)
    assert right.is_exact
    wrong = evaluate_policy(log, baseline={"x": x, "y": off}, **asked)
    assert not wrong.is_exact
    assert any("actions of 'y' contradict that its baseline" in text for text in wrong.warnings)


def test_episodes_of_several_are_left_out():
    log = Log.from_arrays(
        state=[0, 1, 0, 1, 0, 1], action=[0, 1, 0, 0, 1, 1], reward=[0.0] * 6,
        episode=[0, 0, 1, 1, 2, 2], policy=["a", "a", "a", "b", "b", "b"],
    )  # fmt: skip
    half = TabularPolicy.uniform(2, 2)
    problem = Problem.of(log, baseline={"a": half, "b": half}, gamma=1.0, improve_on="a")
    assert len(all_episodes(problem)) == 2


@pytest.mark.statistical
def test_intervals_cover_and_are_narrower():
    """Two loggers with the same starts: all episodes say more than those of one, as truly."""
    two = ADVERSARIES["two-loggers"]
    uniform, truth, n = TabularPolicy.uniform(5, 3), two.value(two.policy), 200
    asked = {"policy": two.policy, "gamma": 0.9, "improve_on": "old", "bound": "student-t",
             "delta": 0.2, "estimators": ["pdis"],
             "baseline": {"old": two.baseline, "new": uniform}}  # fmt: skip
    estimates, widths, missed = {True: [], False: []}, {True: [], False: []}, 0
    for k in range(n):
        rng = np.random.default_rng([9, k])
        logs = [Log.sample(two.mdp, policy, n_episodes=60, max_steps=400, rng=rng)
                for policy in (two.baseline, uniform)]  # fmt: skip
        log = joined_logs(logs, ("old", "new"))
        for is_mixed in (True, False):
            found = evaluate_policy(log, all_episodes=is_mixed, **asked)["pdis"]
            estimates[is_mixed].append(found.estimate)
            widths[is_mixed].append(found.interval[1] - found.interval[0])
            missed += is_mixed and not found.interval[0] <= truth <= found.interval[1]
    assert abs(np.mean(estimates[True]) - truth) < 4 * np.std(estimates[True]) / math.sqrt(n)
    assert missed <= 0.2 * n + 3 * math.sqrt(0.16 * n)
    assert np.std(estimates[True]) < np.std(estimates[False])
