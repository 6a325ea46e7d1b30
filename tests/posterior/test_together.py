"""Pairs of one action may err alike: gains are wider then."""

import numpy as np
import pytest

from spibb import Counts, PiLeqBSPIBB, Problem, TabularMDP, TabularPolicy, evaluate
from spibb.envs import Garnet, RareAction
from spibb.posterior import performance
from spibb.posterior.posterior import Posterior
from spibb.posterior.together import widened, widening
from spibb.studies.risk.problems import PROBLEMS
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
    known = outcomes.n_sa + problem.prior.strength[:, None] + 1.0
    known = np.where(outcomes.live[:, None], known, np.inf)
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
    _, (besides,) = Posterior(problem)._wider(drug)
    assert besides > 0.0  # it takes what the log may flatter
    monkeypatch.setattr(Posterior, "_wider", lambda self, policies: (np.ones(1), np.zeros(1)))
    apart = Posterior(problem).gains(drug, 40)
    for name, gains in found.items():
        assert gains.mean() == pytest.approx(apart[name].mean())
        assert gains.std() == pytest.approx(np.hypot(wider * apart[name].std(), besides))


def test_what_gains_err_by_besides_is_a_deviation_of_its_own():
    drawn = {
        "neutral": np.random.default_rng(0).normal(3.0, 2.0, size=(2, 400)),
        "none": np.ones((2, 5)),
    }
    found = widened(drawn, np.array([1.0, 2.0]), np.array([0.0, 5.0]))
    before = drawn["neutral"]
    assert found["neutral"].mean(axis=1) == pytest.approx(before.mean(axis=1))
    assert found["neutral"][0] == pytest.approx(before[0])
    assert found["neutral"][1].std() == pytest.approx(np.hypot(2.0 * before[1].std(), 5.0))
    # Draws that do not vary are certain of something else.
    assert (found["none"] == 1.0).all()


def test_a_report_counts_the_luck_of_rows_that_are_believed_whole():
    """Corridors lead where they lead, and a ward that cured all of three patients looks good."""
    rng = np.random.default_rng(5)
    cell = PROBLEMS["corridors-alike"]
    truth, baseline = cell.make(rng)
    counts = cell.count((truth, baseline), 50, rng)
    problem = Problem.of(counts, baseline=baseline, gamma=0.99, model="shrunk")
    assert problem.prior.strength.min() == 0.25
    bold = PiLeqBSPIBB(n_wedge=1).improve(problem).policy.probabilities[None]
    _, besides = Posterior(problem)._wider(bold)
    drawn = Posterior(problem).gains(bold, 100)["neutral"][0]
    true = (
        evaluate(truth, TabularPolicy(bold[0])).performance - evaluate(truth, baseline).performance
    )
    assert besides[0] > 0.5 * drawn.mean() > 0.05  # of a gain that is not there
    assert true < 0.25 * drawn.mean()
    assert (drawn < 0.0).mean() > 0.05
