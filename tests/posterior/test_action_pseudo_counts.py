"""The posterior of how much the actions of a state differ."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from posterior_problems import last_fit, noisy_log, noisy_problem, taken

from spibb import Log
from spibb.posterior.model import PosteriorModel
from spibb.posterior.pseudo_counts import (
    _VARIANCE_ROWS,
    PSEUDO_COUNTS,
    mix_groups,
    outcome_likelihood,
    prior_of_pseudo_counts,
)
from spibb.posterior.steps import PairSums, Steps
from spibb.testing import reference_model


def bandit(y, state, action, n_states=1, n_actions=2):
    """Return sums, means and scatter of rows that end."""
    log = Log.from_arrays(
        state=state, action=action, reward=y, episode=range(len(y)), n_states=n_states,
        n_actions=n_actions,
    )  # fmt: skip
    sums, v = PairSums.of(Steps.of_log(log)), np.zeros((1, n_states))
    return sums, sums.mean(v[0], 0.0), sums.scatter(v, v, 0.0)[0]


def slow_likelihood(rows, y, n_states, variance, of=reference_model.log_likelihood):
    """Return log likelihoods of m by state, up to constants, and the pseudo-count of variances."""
    state, action = (np.array([row[i] for row in rows]) for i in (0, 1))
    found = np.zeros((len(PSEUDO_COUNTS), len(_VARIANCE_ROWS), n_states))
    for i, j, x in np.ndindex(found.shape):
        own = state == x
        found[i, j, x] = of(y[own], action[own], PSEUDO_COUNTS[i], int(_VARIANCE_ROWS[j]), variance)
    best = np.array([sum(found[:, j, x].max() for x in range(n_states)) for j in range(4)])
    weight = np.exp(best - best.max()) / np.exp(best - best.max()).sum()
    return np.einsum("mjx,j->mx", found, weight), weight @ _VARIANCE_ROWS


def test_the_likelihood_is_a_multivariate_t():
    for seed in range(2):
        problem = noisy_problem(seed, n_rows=60)
        v, steps, is_bulk = last_fit(problem)
        sums, gamma = PairSums.of(steps, is_bulk), problem.gamma
        rows = reference_model.rows_of_steps(taken(steps, is_bulk))
        scatter = sums.scatter(v[None], v[None], gamma)[0]
        found, variance_rows = outcome_likelihood(sums, sums.mean(v, gamma), scatter, 0.7)
        y = reference_model.outcomes(rows, v, gamma)
        expected, of_rows = slow_likelihood(rows, y, 4, 0.7)
        np.testing.assert_allclose(found - found[0], expected - expected[0], atol=1e-6)
        assert variance_rows == pytest.approx(of_rows, rel=1e-6)
        assert np.ptp(found, axis=0).min() > 0.1


def test_the_likelihood_is_what_integrals_over_means_and_variance_give():
    y, action = np.array([0.3, -1.0, 0.8, 2.5, 3.1, 0.2]), np.array([0, 0, 0, 1, 1, 2])
    for rows, variance in ((2, 0.5), (8, 2.0)):
        grid = np.array([0.25, 2.0, 64.0, 1e6])
        one, other = (
            np.array([of(y, action, m, rows, variance) for m in grid])
            for of in (reference_model.log_likelihood, reference_model.integrated_likelihood)
        )
        np.testing.assert_allclose(one - one[0], other - other[0], atol=5e-3)
        assert np.ptp(one) > 0.2


def test_states_that_say_nothing_leave_the_prior():
    """A state without rows, one row, and one action."""
    y, state, action = [1.0, 5.0, 6.0, 4.0], [1, 2, 2, 2], [0, 1, 1, 1]
    sums, mean, scatter = bandit(y, state, action, n_states=3)
    found, _ = outcome_likelihood(sums, mean, scatter, 1.0)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, np.tile(found[0], (len(found), 1)), atol=1e-9)
    prior = prior_of_pseudo_counts(0.2)
    posterior = mix_groups(found, prior)
    # Groups have m of their own; states that say nothing are in any of them.
    np.testing.assert_allclose(
        posterior.mean, reference_model.groups(found, prior)[0], rtol=1e-9, atol=1e-15
    )


@given(st.floats(0.0, 1.0))
@settings(max_examples=20, deadline=None)
def test_the_prior_sums_to_one(equal_actions):
    prior = prior_of_pseudo_counts(equal_actions)
    assert prior.sum() == pytest.approx(1.0)
    assert prior[-1] == pytest.approx(equal_actions)
    assert (np.diff(prior[:-1]) >= 0.0).all()


@given(
    st.integers(1, 5),
    st.integers(0, 2**32 - 1),
    st.floats(0.1, 100.0),
    st.sampled_from([0.0, 0.2, 0.9]),
)
@settings(max_examples=25, deadline=None)
def test_groups_are_what_loops_over_combinations_find(n_states, seed, scale, equal_actions):
    likelihood = scale * np.random.default_rng(seed).normal(size=(len(PSEUDO_COUNTS), n_states))
    prior = prior_of_pseudo_counts(equal_actions)
    found = mix_groups(likelihood, prior)
    mean, weights = reference_model.groups(likelihood, prior)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.weights, weights, rtol=1e-6, atol=1e-9)
    assert found.evidence == pytest.approx(reference_model.evidence(likelihood, prior))
    np.testing.assert_allclose(found.mean.sum(axis=0), 1.0)
    np.testing.assert_allclose(found.parts.sum(axis=1), 1.0)


def test_states_of_three_kinds_keep_a_posterior_each():
    """Two groups cannot serve three states that differ: probabilities still sum to 1."""
    likelihood = np.full((len(PSEUDO_COUNTS), 3), -2000.0)
    likelihood[[0, 7, 14], [0, 1, 2]] = 0.0
    found = mix_groups(likelihood, prior_of_pseudo_counts(0.2))
    np.testing.assert_allclose(found.mean.sum(axis=0), 1.0)
    np.testing.assert_allclose(found.parts.sum(axis=1), 1.0)


def test_combinations_that_are_left_out_hardly_matter():
    for seed in range(3):
        model = PosteriorModel.of(noisy_problem(seed))
        problem = model.problem
        v, steps, is_bulk = last_fit(problem)
        sums = PairSums.of(steps, is_bulk)
        scatter = sums.scatter(v[None], v[None], 0.9)[0]
        likelihood, _ = outcome_likelihood(sums, sums.mean(v, 0.9), scatter, model.variance)
        prior = prior_of_pseudo_counts(0.2)
        np.testing.assert_allclose(mix_groups(likelihood, prior).mean, model.pseudo_counts.mean)
        whole, _ = reference_model.groups(likelihood, prior, kept=10_000)
        assert abs(whole - model.pseudo_counts.mean).max() < 0.15


def test_m_is_small_where_actions_differ_and_large_where_they_do_not():
    rng = np.random.default_rng(0)
    means = {}
    for name, size in (("differ", 3.0), ("alike", 0.0)):
        action, state = rng.integers(6, size=3000), rng.integers(10, size=3000)
        effect = size * rng.normal(size=(10, 6))
        y = effect[state, action] + rng.normal(size=3000)
        sums, mean, scatter = bandit(y, state, action, n_states=10, n_actions=6)
        likelihood, _ = outcome_likelihood(sums, mean, scatter, 1.0)
        q = mix_groups(likelihood, prior_of_pseudo_counts(0.2)).mean
        means[name] = np.exp(np.log(PSEUDO_COUNTS) @ q)
    assert means["differ"].max() < 2.0
    assert means["alike"].min() > 100.0


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_the_unit_of_rewards_changes_nothing(scale):
    log, _ = noisy_log(0, n_rows=100)
    y, state, action = log.reward, log.state, log.action
    one = bandit(y, state, action, n_states=4, n_actions=3)
    other = bandit(scale * y, state, action, n_states=4, n_actions=3)
    found, rows = outcome_likelihood(*one, 2.0)
    scaled, scaled_rows = outcome_likelihood(*other, 2.0 * scale**2)
    np.testing.assert_allclose(found - found[0], scaled - scaled[0], atol=1e-8)
    assert rows == pytest.approx(scaled_rows)
