"""The prior of a log, rewards taken apart, and the shrunk model."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from spibb import ApproxSoftSPIBB, Counts, Log, Problem, TabularMDP, TabularPolicy, audit, evaluate
from spibb.data.outcomes import Outcomes
from spibb.data.prior import SHARES, STRENGTHS, Prior
from spibb.data.shrunk import thinned
from spibb.envs.garnet import Garnet
from spibb.envs.queue import Queue
from spibb.errors import SettingsError
from spibb.testing import reference_posterior as reference
from spibb.testing.checks import random_problem


def dense(outcomes):
    n_states, n_actions = outcomes.n_sa.shape
    rows = outcomes.counts, outcomes.indices, outcomes.indptr
    table = sp.csr_array(rows, shape=(n_states * n_actions, n_states + 1)).toarray()
    return table.reshape(n_states, n_actions, n_states + 1)


def _problems():
    for seed in range(6):
        _, baseline, log = random_problem(
            seed, n_states=7, n_actions=3, n_episodes=(1, 5, 60)[seed % 3]
        )
        yield Problem.of(log, baseline=baseline, gamma=0.9)
    rng = np.random.default_rng(3)
    garnet = Garnet.random(rng)
    baseline = garnet.baseline(0.5, rng)
    counts = Counts.sample(garnet.mdp, baseline, n_episodes=30, rng=rng)
    yield Problem.of(counts, baseline=baseline, gamma=0.95)


PROBLEMS = list(_problems())


@pytest.mark.parametrize("problem", PROBLEMS, ids=range(7))
def test_prior_is_the_maximum_of_the_likelihood(problem):
    """Of the states of each kind together; kinds are those whose prior is the same."""
    prior, n = problem.prior, dense(problem.outcomes)
    assert prior.frequencies.sum() == pytest.approx(1.0)
    likelihood = {
        (share, strength): reference.log_likelihood(n, prior.frequencies, share, strength)
        for share in SHARES for strength in STRENGTHS
    }  # fmt: skip
    of_states = np.stack([prior.share, prior.strength], axis=1)
    for kind in np.unique(of_states, axis=0):
        mine = (of_states == kind).all(axis=1)
        found = {
            (share, strength): by_state[mine].sum() + np.log(strength / (1.0 + strength) ** 2)
            for (share, strength), by_state in likelihood.items()
        }
        assert found[tuple(kind)] == pytest.approx(max(found.values()), abs=1e-6)


def test_frequencies_are_those_of_pairs_not_of_rows():
    """A pair visited a thousand times says no more of where pairs lead than one visited thrice."""
    rng = np.random.default_rng(0)
    n_pairs, g = 400, np.array([0.7, 0.3])
    rows = [
        rng.multinomial(1_000 if k % 20 == 0 else 3, rng.dirichlet(2.0 * g)) for k in range(n_pairs)
    ]
    # Frequent pairs that all lead to the second.
    n = np.array(rows + [[0, 5_000]] * 3)
    counts = Counts(
        n_sa=n.sum(axis=1)[:, None], n_sas=sp.csr_array(np.pad(n, ((0, 0), (0, len(n) - 2)))),
        n_end=sp.csr_array((len(n), len(n)), dtype=np.int64), reward_sum=np.zeros((len(n), 1)),
        reward_range=(0.0, 0.0), n_initial=np.eye(1, len(n), dtype=np.int64)[0],
    )  # fmt: skip
    found = Prior.of(Outcomes.of(counts)).frequencies[:2]
    assert abs(found[0] - 0.7) < 0.05
    assert n.sum(axis=0)[0] / n.sum() < 0.5


@pytest.mark.parametrize("problem", PROBLEMS, ids=range(7))
def test_shrunk_model_is_the_formula(problem):
    prior, outcomes = problem.prior, problem.outcomes
    model = TabularMDP.of_arrays(problem.estimate("shrunk"), problem.counts.terminal)
    rows = reference.shrunk_rows(dense(outcomes), prior.frequencies, prior.share, prior.strength)
    live, n_states = outcomes.live, outcomes.n_states
    found = np.asarray(model.rows.toarray()).reshape(rows[..., :n_states].shape)
    np.testing.assert_allclose(found[live], rows[live][..., :n_states], atol=1e-12)
    np.testing.assert_allclose(model.ending[live], rows[live][..., n_states], atol=1e-9)
    expected = reference.paid(problem, prior.strength) + rows @ outcomes.by_entry
    np.testing.assert_allclose(model.reward[live], expected[live], atol=1e-9)
    assert (model.reward[~live] == 0.0).all()


def test_costs_of_states_and_actions_are_no_effects_of_what_follows():
    queue = Queue().to_mdp()
    log = Log.sample(
        queue, Queue().baseline(), n_episodes=50, max_steps=50, rng=np.random.default_rng(0)
    )
    outcomes = Problem.of(log, baseline=Queue().baseline(), gamma=0.95).outcomes
    assert (outcomes.by_entry == 0.0).all()
    assert outcomes.variance.max() < 0.01  # of pairs that differ by more than 1
    seen = outcomes.n_sa > 0
    np.testing.assert_allclose(outcomes.by_pair[seen], queue.reward[seen], atol=1e-12)


@pytest.mark.parametrize("kind", ["log", "counts"])
def test_what_entering_pays_is_found_and_means_stay(kind):
    rng = np.random.default_rng(1)
    garnet = Garnet.random(rng)
    baseline = garnet.baseline(0.3, rng)
    make = Log.sample if kind == "log" else Counts.sample
    data = make(garnet.mdp, baseline, n_episodes=500, rng=rng)
    problem = Problem.of(data, baseline=baseline, gamma=0.95)
    outcomes, goal = problem.outcomes, int(np.argmax(garnet.mdp.entry_reward))
    h = outcomes.by_entry
    assert h[goal] - np.delete(h, goal).mean() == pytest.approx(1.0, abs=0.05)
    # What pairs were seen to pay is what u and h say together.
    n = dense(outcomes)
    paid = outcomes.n_sa * outcomes.by_pair + n @ h
    np.testing.assert_allclose(paid, problem.counts.reward_sum, atol=1e-6)


def test_merged_counts_spread_as_the_whole_does():
    rng = np.random.default_rng(4)
    garnet = Garnet.random(rng)
    baseline = garnet.baseline(0.3, rng)
    parts = [Counts.sample(garnet.mdp, baseline, n_episodes=n, rng=rng) for n in (40, 70)]
    both = parts[0] + parts[1]
    n, mean = both.n_sa, both.reward_sum / np.maximum(both.n_sa, 1)
    squares = np.asarray(both.n_sas @ garnet.mdp.entry_reward**2).reshape(n.shape)
    np.testing.assert_allclose(both.paid.spread, squares - n * mean**2, atol=1e-9)
    longer = parts[0].paid * 3
    np.testing.assert_allclose(longer.spread, 3 * parts[0].paid.spread)


def test_noise_of_rewards_is_measured():
    rng = np.random.default_rng(2)
    n = 4_000
    log = Log.from_arrays(
        state=[0] * n, action=rng.integers(0, 2, n), reward=rng.normal(1.0, 3.0, n),
        terminated=[True] * n, episode=range(n),
    )  # fmt: skip
    problem = Problem.of(log, baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.9)
    np.testing.assert_allclose(problem.outcomes.variance, 9.0, rtol=0.1)
    counts = Counts.from_log(log, spread=False)
    assert counts.paid is None
    unknown = Problem.of(counts, baseline=problem.baseline, gamma=0.9).outcomes.variance
    low, high = counts.reward_range
    np.testing.assert_allclose(unknown, ((high - low) / 2.0) ** 2)


def test_a_constant_on_every_reward_moves_values_alone():
    _, baseline, log = random_problem(5, n_episodes=30)
    log = log.take(~log.terminated)  # endless: a constant is worth c / (1 - gamma)
    here, there = (
        Problem.of(
            replace(log, reward=log.reward + c), baseline=baseline, gamma=0.9, model="shrunk"
        )
        for c in (0.0, -7.0)
    )
    np.testing.assert_allclose(there.baseline_values.v - here.baseline_values.v, -70.0, atol=1e-6)


def test_guarantees_are_about_counts_whatever_the_model():
    _, baseline, log = random_problem(4, n_episodes=50)
    asked = {"baseline": baseline, "gamma": 0.9, "reward_range": (-3.0, 3.0)}
    here = ApproxSoftSPIBB(epsilon=2.0).improve(log, model="shrunk", **asked)
    assert not np.array_equal(here.problem.model.reward, here.problem.counted.model.reward)
    assert here.v == pytest.approx(evaluate(here.problem.model, here.policy).v)
    there = audit(log, policy=here.policy, **asked)
    assert here.certificate.bound == pytest.approx(there.bound)
    assert audit(log, policy=here.policy, model="shrunk", **asked).bound == there.bound


def test_wrong_model_is_refused_by_name():
    _, baseline, log = random_problem(4)
    with pytest.raises(SettingsError, match=r"no model is called 'shrunken'.*counts, shrunk"):
        Problem.of(log, baseline=baseline, gamma=0.9, model="shrunken")


def test_a_thinned_distribution_stands_for_the_whole():
    rng = np.random.default_rng(0)
    g = rng.dirichlet(np.full(2_000, 0.5))
    thin = thinned(g, 256)
    assert np.count_nonzero(thin) <= 256
    assert thin.sum() == pytest.approx(1.0)
    values = np.sort(rng.normal(size=2_000))
    assert abs(thin @ values - g @ values) < 0.05
    assert thinned(g, 2_000) is g
