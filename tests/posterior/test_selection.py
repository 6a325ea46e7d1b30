"""What was chosen because it looked good errs on one side."""

import numpy as np
import pytest

from spibb import Log, Problem, TabularPolicy
from spibb.envs.garnet import Garnet
from spibb.posterior import selection
from spibb.posterior.draws import Draws
from spibb.posterior.moments import POOLED, SURER
from spibb.posterior.performance import values_and_visits
from spibb.posterior.selection import errors_of_advantages, one_sided
from spibb.testing import reference_posterior


def garnet_problem(seed):
    rng = np.random.default_rng(seed)
    garnet = Garnet.random(rng, n_states=6, n_actions=3, n_successors=2)
    baseline = garnet.baseline(0.5, rng)
    log = Log.sample(garnet.mdp, baseline, n_episodes=5 + 5 * seed, max_steps=15, rng=rng)
    return Problem.of(log, baseline=baseline, gamma=0.9)


def solved(problem, tried):
    model = problem.expected
    return values_and_visits(Draws.single(model), tried, model.initial, problem.gamma)


@pytest.mark.parametrize("at_once", [4_000_000, 10])
def test_errors_are_what_differences_in_all_that_varies_say(monkeypatch, at_once):
    monkeypatch.setattr(selection, "_AT_ONCE", at_once)
    for seed in range(3):
        problem = garnet_problem(seed)
        values, _ = solved(problem, problem.baseline.probabilities[None])
        found = errors_of_advantages(problem, values[0], 0.9, POOLED, SURER)
        expected = reference_posterior.errors_of_advantages(problem, POOLED, SURER)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)


def test_a_policy_of_many_lucky_choices_expects_about_what_they_err_by():
    """Arms that are all alike: the gain is luck, and nowhere near the root of a sum of squares."""
    rng = np.random.default_rng(0)
    n_states, n_rows = 40, 8_000
    action = rng.integers(6, size=n_rows)
    log = Log.from_arrays(
        state=rng.integers(0, n_states, n_rows), action=action, n_states=n_states, n_actions=6,
        reward=rng.normal(size=n_rows), episode=np.arange(n_rows),
        terminated=np.ones(n_rows, dtype=bool),
    )  # fmt: skip
    baseline = TabularPolicy.uniform(n_states, 6)
    problem = Problem.of(log, baseline=baseline, gamma=0.9)
    mean = problem.counts.reward_sum / problem.counts.n_sa
    lucky = np.eye(6)[mean.argmax(axis=1)]
    expects = float((mean.max(axis=1) - mean.mean(axis=1)) @ problem.expected.initial)
    tried = np.stack([baseline.probabilities, lucky])
    values, visits = solved(problem, tried)
    errors = errors_of_advantages(problem, values[0], 0.9, POOLED, SURER)
    # The best of six is 1.27 deviations above the mean of all, and 5/6 of the policy is new; an
    # advantage errs by the root of 5/6 of what a mean errs by.
    times = 1.27 / (5 / 6) ** 1.5
    assert expects == pytest.approx(times * one_sided(errors, tried, visits)[0], rel=0.1)
    apart = np.sqrt(((visits[1][:, None] * np.maximum(lucky - 1 / 6, 0) * errors) ** 2).sum())
    assert expects > 5.0 * apart


def test_the_baseline_selects_nothing():
    problem = garnet_problem(1)
    tried = np.stack([problem.baseline.probabilities] * 2)
    assert one_sided(np.ones((6, 3)), tried, np.ones((2, 6))) == pytest.approx([0.0])
