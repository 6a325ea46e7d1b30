"""Rewards less their luck."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from spibb import AutoSPIBB, Log, Problem, TabularPolicy
from spibb.data import luck
from spibb.data.luck import SHARES, STRENGTHS, without_luck
from spibb.envs.garnet import Garnet
from spibb.testing import reference_posterior as reference


def drawn(seed, differ, noise=1.0, n_states=15, n_actions=4):
    """What pairs paid on average: their own worth, and luck."""
    rng = np.random.default_rng(seed)
    worth = rng.normal(size=(n_states, 1)) + differ * rng.normal(size=(n_states, n_actions))
    n = rng.integers(1, 20, size=worth.shape).astype(float)
    return worth, worth + noise / np.sqrt(n) * rng.normal(size=worth.shape), n


@pytest.mark.parametrize("rare", [0.0, 0.3, 90.0])
def test_likelihood_and_surroundings_are_what_plain_loops_find(rare):
    rng = np.random.default_rng(0)
    u, n = rng.normal(size=(5, 3)), rng.integers(0, 4, size=(5, 3)).astype(float)
    u[n == 0] = 0.0
    variance, effects = rng.uniform(0.5, 2.0, size=u.shape), 0.1 * rng.normal(size=u.shape)
    found = luck._likelihoods(u, n, variance, effects, np.array(SHARES), np.array(STRENGTHS), rare)
    for i, share in enumerate(SHARES):
        around = luck._around(u, n, effects, np.full(5, share))
        np.testing.assert_allclose(around, reference.surroundings_pay(u, n, effects, share))
        for j, strength in enumerate(STRENGTHS):
            plain = reference.reward_likelihood(u, n, variance, effects, share, strength, rare)
            np.testing.assert_allclose(found[:, i, j], plain)


@pytest.mark.parametrize("differ", [0.0, 0.1, 1.0, 5.0])
def test_what_is_expected_is_nearer_to_the_truth(differ):
    before, after = [], []
    for seed in range(20):
        worth, paid, n = drawn(seed, differ)
        found = without_luck(paid, n, np.ones(n.shape))
        before.append(((paid - worth) ** 2).mean())
        after.append(((found - worth) ** 2).mean())
    assert np.mean(after) < (0.45 if differ <= 0.1 else 1.02) * np.mean(before)


def test_the_best_of_many_is_not_flattered():
    """Of pairs that are all alike the best looks better by more than a deviation, before."""
    before, after = [], []
    for seed in range(40):
        worth, paid, n = drawn(seed, differ=0.0)
        found = without_luck(paid, n, np.ones(n.shape))
        best, told = paid.argmax(axis=1), found.argmax(axis=1)
        rows = np.arange(len(worth))
        before.append((paid[rows, best] - worth[rows, best]).mean())
        after.append((found[rows, told] - worth[rows, told]).mean())
    assert np.mean(before) > 0.35
    assert abs(np.mean(after)) < 0.08


def test_a_constant_moves_all_alike():
    _, paid, n = drawn(3, 0.5)
    here, there = (without_luck(paid + c, n, np.ones(n.shape)) for c in (0.0, -70.0))
    np.testing.assert_allclose(there + 70.0, here, atol=1e-9)


def test_an_action_that_pays_more_everywhere_is_known():
    """One row of it in each of forty states says what none of them does."""
    rng = np.random.default_rng(0)
    n = np.tile([50.0, 1.0], (40, 1))
    paid = np.array([0.0, 2.0]) + rng.normal(size=n.shape) / np.sqrt(n)
    found = without_luck(paid, n, np.ones(n.shape))
    assert found[:, 1] == pytest.approx(2.0, abs=0.6)
    assert found[:, 1].std() < 0.3 * paid[:, 1].std()


def test_rewards_that_do_not_vary_are_left_alone():
    rng = np.random.default_rng(0)
    garnet = Garnet.random(rng)
    baseline = garnet.baseline(0.5, rng)
    log = Log.sample(garnet.mdp, baseline, n_episodes=100, rng=rng)
    outcomes = Problem.of(log, baseline=baseline, gamma=0.9).outcomes
    assert (outcomes.entry_variance == 0.0).all()
    paid = outcomes.n_sa * outcomes.by_pair
    followed = np.zeros(outcomes.n_sa.size)
    pair = np.repeat(np.arange(outcomes.n_sa.size), np.diff(outcomes.indptr))
    np.add.at(followed, pair, outcomes.counts * outcomes.by_entry[outcomes.indices])
    counts = Problem.of(log, baseline=baseline, gamma=0.9).counts
    np.testing.assert_allclose(paid.ravel() + followed, counts.reward_sum.ravel(), atol=1e-9)


def problem_of(state, action, reward, n_actions):
    """One-step episodes."""
    n = len(state)
    log = Log.from_arrays(
        state=state, action=action, reward=reward, n_states=int(max(state)) + 1,
        n_actions=n_actions, episode=np.arange(n), terminated=np.ones(n, dtype=bool),
    )  # fmt: skip
    uniform = TabularPolicy.uniform(log.n_states, n_actions)
    return Problem.of(log, baseline=uniform, gamma=0.9, accept_baseline=True)


@pytest.mark.parametrize(("cures", "n_each", "most"), [(0.8, 8, 0.04), (0.9, 16, 0.015)])
def test_who_cured_all_of_a_few_patients_is_not_sure_of_it(cures, n_each, most):
    """Drugs are all alike. With its own variance, that of an arm that never failed is tiny."""
    flattered = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        state, action = np.repeat(np.arange(20), 5 * n_each), np.tile(np.arange(5), 20 * n_each)
        reward = (rng.random(len(state)) < cures).astype(float)
        expected = problem_of(state, action, reward, 5).outcomes.by_pair
        flattered.append((expected.max(axis=1) - cures).mean())
    assert np.mean(flattered) < most


def test_noise_is_that_of_state_and_action():
    """State 0 is ten times as noisy as others, and so is action 2."""
    rng = np.random.default_rng(0)
    state, action = np.repeat(np.arange(6), 300), np.tile([0] * 90 + [1] * 7 + [2] * 3, 18)
    deviation = np.array([10.0, 1, 1, 1, 1, 1])[state] * np.array([1.0, 1.0, 10.0])[action]
    reward = deviation * rng.normal(size=len(state))
    found = np.sqrt(problem_of(state, action, reward, 3).outcomes.variance)
    true = np.outer([10.0, 1, 1, 1, 1, 1], [1.0, 1.0, 10.0])
    assert (found > true / 2.0).all()
    # Noisier pairs look like rare events, so that others are taken for noisier than they are.
    assert (found < 7.0 * true).all()


def log_density(off, variance, n, rare):
    """Of a mean of n rows about what is known for certain."""
    return luck._log_density(off, variance, float(n), 0.0, np.inf, rare)


@pytest.mark.parametrize(("p", "n"), [(0.5, 8), (0.05, 5), (0.01, 3), (0.01, 60)])
def test_no_mean_is_further_off_than_the_likelihood_allows(p, n):
    """Chances of coins are known; those of normal means are below them by far where p is small."""
    rare = (1.0 - p) / p  # the largest deviation, squared, in variances
    for hits in range(1, n + 1):
        off = hits / n - p
        if off <= 0.0:
            continue
        variance = p * (1.0 - p)
        at, there = (log_density(x, variance, n, rare) for x in (0.0, off))
        chance = scipy.stats.binom.sf(hits - 1, n, p)
        assert chance <= np.exp(there - at) * (1.0 + 1e-9)
    normal = log_density(1 / 3 - 0.01, 0.0099, 3, 0.0) - log_density(0.0, 0.0099, 3, 0.0)
    assert np.exp(normal) < 1e-3 * scipy.stats.binom.sf(0, 3, 0.01)


def test_one_jackpot_makes_no_better_pair():
    """Pairs are worth about 1, and one reward in a hundred is 30 more, whoever is paid it."""
    rng = np.random.default_rng(0)
    state, action = np.repeat(np.arange(100), 44), np.tile([0] * 40 + [1, 2, 3, 3], 100)
    worth = rng.normal(size=(100, 4))
    reward = worth[state, action] + rng.normal(size=4_400) + 30.0 * (rng.random(4_400) < 0.01)
    problem = problem_of(state, action, reward, 4)
    paid = problem.counts.reward_sum / problem.counts.n_sa
    assert (paid > 10.0).sum() >= 3
    assert problem.outcomes.by_pair.max() < 2.0  # 30 by a normal likelihood


def test_goals_are_found_through_noise_and_nothing_else():
    rng = np.random.default_rng(1)
    garnet = Garnet.random(rng)
    baseline = garnet.baseline(0.3, rng)
    log = Log.sample(garnet.mdp, baseline, n_episodes=300, max_steps=50, rng=rng)
    noisy = replace(log, reward=log.reward + 0.3 * rng.normal(size=len(log)))
    h = Problem.of(noisy, baseline=baseline, gamma=0.9).outcomes.by_entry
    goal = int(np.argmax(garnet.mdp.entry_reward))
    assert h[goal] == pytest.approx(1.0, abs=0.15)
    assert np.abs(np.delete(h, goal)).max() < 0.15


PAYS = np.array([0.5, *[0.45] * 5])
GIVEN = np.array([0.7, *[0.06] * 5])


@pytest.mark.parametrize(("n_states", "n_rows"), [(1, 200), (10, 1_000), (40, 4_000)])
def test_a_lucky_arm_a_state_is_not_believed(n_states, n_rows):
    """Whoever leaves the usual arm loses; nearly all of these logs were worse once."""
    baseline = TabularPolicy(np.tile(GIVEN, (n_states, 1)))
    worse = 0
    for seed in range(12):
        rng = np.random.default_rng([seed, n_states])
        action = rng.choice(6, n_rows, p=GIVEN)
        log = Log.from_arrays(
            state=rng.integers(0, n_states, n_rows), action=action, n_states=n_states, n_actions=6,
            reward=(rng.random(n_rows) < PAYS[action]).astype(float), episode=np.arange(n_rows),
            terminated=np.ones(n_rows, dtype=bool),
        )  # fmt: skip
        found = AutoSPIBB().improve(log, baseline=baseline, gamma=0.9, accept_baseline=True)
        worse += (found.policy.probabilities @ PAYS).mean() < GIVEN @ PAYS - 1e-9
    assert worse <= (1 if n_states == 1 else 0)


def test_the_unit_of_rewards_does_not_matter():
    """Up to the largest that a log may hold; squares of variances would be infinite."""
    rng = np.random.default_rng(0)
    state, action = rng.integers(0, 3, 200), rng.integers(0, 2, 200)
    reward = rng.normal(size=200)
    small, large = (problem_of(state, action, unit * reward, 2).outcomes for unit in (1.0, 1e99))
    assert small.is_noisy
    np.testing.assert_allclose(large.by_pair / 1e99, small.by_pair, rtol=1e-6)
    np.testing.assert_allclose(large.variance / 1e198, small.variance, rtol=1e-6)
