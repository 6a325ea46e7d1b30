"""Pairs of one action may err alike: gains are wider then."""

import numpy as np
import pytest

from spibb import Counts, Problem, TabularMDP, TabularPolicy
from spibb.envs import Garnet, RareAction
from spibb.posterior import performance
from spibb.posterior.posterior import Posterior
from spibb.posterior.together import widening
from spibb.testing import reference_posterior


def problem_of(process, baseline, seed=0, n_episodes=60, gamma=0.9):
    rng = np.random.default_rng(seed)
    counts = Counts.sample(process, baseline, n_episodes=n_episodes, max_steps=20, rng=rng)
    return Problem.of(counts, baseline=baseline, gamma=gamma)


def plain(problem, policy):
    """Return what the plain loops find."""
    model, outcomes = problem.expected, problem.outcomes
    n_states, n_actions = outcomes.n_sa.shape
    whole = TabularMDP.of_arrays(model, problem.counts.terminal)
    rows = whole.transition.toarray().reshape(n_states, n_actions, n_states)
    rows = rows * outcomes.live[:, None, None]
    ended = np.clip(1.0 - rows.sum(axis=2, keepdims=True), 0.0, None)
    known = np.where(outcomes.live[:, None], outcomes.n_sa + problem.prior.strength + 1.0, np.inf)
    return reference_posterior.widening(
        np.concatenate([rows, ended], axis=2), model.reward, model.initial, problem.gamma,
        outcomes.by_entry, outcomes.variance, known, problem.baseline.probabilities, policy,
    )  # fmt: skip


@pytest.mark.parametrize("largest", [128, 3])
def test_it_is_what_plain_loops_find(monkeypatch, largest):
    """Small systems are eliminated, large ones factored."""
    monkeypatch.setattr(performance, "LARGEST_COMPILED", largest)
    wider = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        garnet = Garnet.random(rng, n_states=9, n_actions=3, n_successors=2)
        problem = problem_of(garnet.mdp, garnet.baseline(0.5, rng), seed)
        policies = rng.dirichlet(np.ones(3), (4, 9))
        policies[0] = [0.0, 1.0, 0.0]
        found = widening(problem, policies)
        assert found == pytest.approx([plain(problem, policy) for policy in policies], rel=1e-9)
        wider += found.tolist()
    assert min(wider) == 1.0 < 1.2 < max(wider)


def test_one_state_has_nothing_in_common_with_others():
    process = TabularMDP([[[1.0], [1.0]]], [[0.0, 1.0]], 0.9)
    problem = problem_of(process, TabularPolicy([[0.5, 0.5]]))
    assert widening(problem, np.array([[[0.0, 1.0]]])) == pytest.approx([1.0])


def test_a_drug_for_all_is_one_wager_and_the_baseline_none():
    env = RareAction()
    baseline = env.baseline(0.3)
    problem = problem_of(env.to_mdp(), baseline)
    drug, here = np.tile([0.0, 0.0, 1.0], (11, 1)), baseline.probabilities.copy()
    here[5] = [0.0, 0.0, 1.0]
    for_all, for_some, none = widening(problem, np.stack([drug, here, baseline.probabilities]))
    assert for_all > 1.5 > for_some
    assert none == 1.0


def test_draws_of_a_report_keep_their_mean_and_are_wider_about_it(monkeypatch):
    env = RareAction()
    problem = problem_of(env.to_mdp(), env.baseline(0.3))
    drug = np.tile([0.0, 0.0, 1.0], (1, 11, 1))
    found, wider = Posterior(problem).gains(drug, 40), widening(problem, drug)[0]
    monkeypatch.setattr("spibb.posterior.posterior.widening", lambda problem, policies: np.ones(1))
    apart = Posterior(problem).gains(drug, 40)
    for name, gains in found.items():
        assert gains.mean() == pytest.approx(apart[name].mean())
        assert gains.std() == pytest.approx(wider * apart[name].std())
