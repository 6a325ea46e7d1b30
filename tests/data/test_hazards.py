"""Hazards: what may happen though the log hardly shows it."""

import numpy as np
import pytest

from spibb import Counts, Log, Problem, TabularMDP, TabularPolicy
from spibb.envs import Garnet, RareAction
from spibb.posterior.draws import Surroundings, draw_models
from spibb.testing.reference_posterior import dense_draw


def mean_of_draws(problem, n_draws=3_000):
    """Return the mean transitions and rewards of careful draws."""
    worth = np.append(problem.expected_values, 0.0)
    around = Surroundings.of(problem.outcomes, problem.prior, worth)
    draws = draw_models(
        problem.outcomes, around, numbered=range(n_draws), seed=1, hazards=problem.hazards
    )
    transition = np.mean([dense_draw(draws, k) for k in range(n_draws)], axis=0)
    return transition, draws.reward.mean(axis=0)


def dense(problem, kind):
    """Return transitions (S, A, S) and rewards of an estimated model."""
    model = TabularMDP.of_arrays(problem.estimate(kind), problem.counts.terminal)
    shape = (*model.reward.shape, len(model.reward))
    return model.transition.toarray().reshape(shape), model.reward


def garnet_problem():
    rng = np.random.default_rng(3)
    garnet = Garnet.random(rng, n_states=7, n_actions=2, n_successors=3)
    baseline = garnet.baseline(0.5, rng)
    log = Log.sample(garnet.mdp, baseline, n_episodes=30, max_steps=20, rng=rng)
    return Problem.of(log, baseline=baseline, gamma=0.9)


def rare_problem():
    process, baseline = RareAction(is_ruinous=True), RareAction().baseline(0.3)
    rng = np.random.default_rng(0)
    log = Log.sample(process.to_mdp(0.9), baseline, n_episodes=40, max_steps=30, rng=rng)
    return Problem.of(log, baseline=baseline, gamma=0.9)


def stopped_problem():
    """State 2 is named and never acted in: records stop there."""
    n = 30
    log = Log.from_arrays(
        state=[0, 1] * n, action=[0, 1] * n, reward=[1.0, 0.5] * n, next_state=[1, 2] * n,
        episode=np.repeat(np.arange(n), 2), step=[0, 1] * n,
        truncated=[False, True] * n,
    )  # fmt: skip
    return Problem.of(
        log, baseline=TabularPolicy([[0.5, 0.5]] * 3), gamma=0.9, accept_baseline=True
    )


@pytest.mark.parametrize("make", [garnet_problem, rare_problem, stopped_problem])
def test_the_careful_model_is_the_mean_of_careful_draws(make):
    problem = make()
    (careful, paid), (shrunk, _) = dense(problem, "careful"), dense(problem, "shrunk")
    transition, reward = mean_of_draws(problem)
    assert careful == pytest.approx(transition, abs=0.03)
    assert paid == pytest.approx(reward, abs=0.03 * (np.ptp(reward) + 1.0))
    # Somewhere it differs from the shrunk one by much more than that.
    assert np.abs(careful - shrunk).max() > 0.1


def test_where_nothing_was_done_the_least_is_paid_for_ever():
    problem = stopped_problem()
    transition, reward = dense(problem, "careful")
    assert transition[2] == pytest.approx(np.tile(np.eye(3)[2], (2, 1)))
    assert reward[2] == pytest.approx([0.5, 0.5])


def two_state_log(n_lost):
    """Action 1 loses `n_lost` of 20 in state 0 and none of 20 in state 1; state 2 is bad."""
    rows = [(0, 0, 1)] * 40 + [(1, 0, 0)] * 40 + [(1, 1, 0)] * 20 + [(2, 0, 2)] * 30
    rows += [(0, 1, 2)] * n_lost + [(0, 1, 1)] * (20 - n_lost) + [(0, 0, 2)]
    states, actions, following = zip(*rows, strict=True)
    reward = np.where(np.array(states) == 2, -5.0, 1.0)
    log = Log.from_arrays(
        state=states, action=actions, reward=reward, next_state=following,
        episode=range(len(rows)), truncated=[True] * len(rows),
    )  # fmt: skip
    return Problem.of(log, baseline=TabularPolicy([[0.7, 0.3]] * 3), gamma=0.9)


def test_an_action_that_ruins_in_one_state_is_dreaded_in_the_others():
    seen, unseen = (dense(two_state_log(n), "careful")[0] for n in (4, 0))
    assert two_state_log(4).hazards.state == 2
    # (1 + D_a) / (N_a + 1), D_a = 4 or 0 of the 40 times that it was done elsewhere.
    more = seen[1, 1, 2] - unseen[1, 1, 2]
    assert more == pytest.approx(4 / 41, abs=0.03)


def test_hazards_are_counted():
    hazards = two_state_log(4).hazards
    assert hazards.reward == -5.0
    assert hazards.in_state.tolist() == [[1.0, 1.0, 1.0], [61.0, 60.0, 30.0]]
    assert hazards.by_action.tolist() == [[2.0, 5.0], [80.0, 36.0]]
    assert hazards.unseen.tolist() == [0.5, 0.2]


def test_counts_alone_have_hazards_too():
    problem = rare_problem()
    alone = Problem.of(problem.counts, baseline=problem.baseline, gamma=0.9)
    assert isinstance(alone.counts, Counts)
    assert alone.hazards.state == problem.hazards.state == 10
