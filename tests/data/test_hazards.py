"""Hazards: what may happen though the log hardly shows it."""

import numpy as np
import pytest
from scipy.stats import binom

from spibb import Counts, Log, Problem, TabularMDP, TabularPolicy
from spibb.data.hazards import LARGEST_SHARE, Hazards
from spibb.envs import Garnet, RareAction
from spibb.posterior.draws import Surroundings, draw_models
from spibb.testing.reference_posterior import (
    dense_draw,
    mean_model,
    mean_of_report,
    shrunk_rows,
)


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
def test_the_careful_model_is_what_plain_loops_find(make):
    problem = make()
    (careful, paid), (shrunk, _) = dense(problem, "careful"), dense(problem, "shrunk")
    transition, reward = mean_model(problem, problem.hazards)
    live = problem.outcomes.live
    assert careful[live] == pytest.approx(transition[live])
    assert paid[live] == pytest.approx(reward[live])
    assert np.abs(careful - shrunk).max() > 0.1


@pytest.mark.parametrize("make", [garnet_problem, rare_problem, stopped_problem])
def test_careful_draws_are_on_average_what_plain_loops_find(make):
    problem = make()
    transition, reward = mean_of_draws(problem)
    expected, paid = mean_of_report(problem)
    assert transition == pytest.approx(expected, abs=0.03)
    assert reward == pytest.approx(paid, abs=0.03 * (np.ptp(reward) + 1.0))
    # Somewhere hazards move it by much more than that.
    assert np.abs(expected - mean_model(problem)[0]).max() > 0.05


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
    # D_a = 4 or 0 of the 40 times that it was done elsewhere.
    more = seen[1, 1, 2] - unseen[1, 1, 2]
    limits = [two_state_log(n).hazards.limits[1] for n in (4, 0)]
    assert more == pytest.approx(limits[0] - limits[1], abs=0.03)
    assert more > 4 / 41


def test_hazards_are_counted():
    hazards = two_state_log(4).hazards
    assert hazards.reward == -5.0
    assert hazards.in_state.tolist() == [[1.0, 1.0, 1.0], [61.0, 60.0, 30.0]]
    # Five of the 61 rows of state 0 led to the worst: of 20, 1.6 would have, whatever was done.
    happened = 4.0 - 20 * 5 / 61
    assert hazards.by_action == pytest.approx(
        np.array([[1.0, 1.0 + happened], [81.0, 40.0 - happened]])
    )
    assert hazards.unseen == pytest.approx([1.0, 1.0 / (1.0 + happened)])
    # A choice counts all. Were it as large, so few would be seen in one log of a hundred.
    assert hazards.choosing.by_action.tolist() == [[2.0, 5.0], [80.0, 36.0]]
    assert hazards.choosing.unseen.tolist() == [0.5, 0.2]
    assert binom.cdf([1, 4], [81, 40], hazards.limits) == pytest.approx(0.01)


def test_care_that_only_the_dying_are_given_does_not_kill():
    """Half of those in state 1 are lost whatever is done there, and action 1 mostly is."""
    rows = [(0, 0, 1)] * 40 + [(0, 0, 0)] * 40 + [(2, 0, 2)] * 30
    rows += [(1, 0, 2)] * 5 + [(1, 0, 0)] * 5 + [(1, 1, 2)] * 45 + [(1, 1, 0)] * 45
    states, actions, following = zip(*rows, strict=True)
    log = Log.from_arrays(
        state=states, action=actions, reward=np.where(np.array(states) == 2, -5.0, 1.0),
        next_state=following, episode=range(len(rows)), truncated=[True] * len(rows),
    )  # fmt: skip
    baseline = TabularPolicy([[0.5, 0.5]] * 3)
    hazards = Problem.of(log, baseline=baseline, gamma=0.9, accept_baseline=True).hazards
    assert hazards.state == 2
    assert hazards.by_action[0] == pytest.approx([1.0, 1.0])
    assert hazards.n_led.tolist() == [5.0, 45.0]


def test_a_report_draws_the_hazards_of_actions_and_a_choice_has_them_at_their_limit():
    problem = two_state_log(4)
    likely, choosing = mean_of_draws(problem)[0][1, 1, 2], dense(problem, "careful")[0][1, 1, 2]
    # State 1 was met 60 times, and the pair 20 times; neither ever led to the worst.
    likely_spared, spared = (60 / 61 * n / 21 for n in (20.75, 20.875))
    happened = 5.0 - 20 * 5 / 61
    assert likely == pytest.approx(1.0 - likely_spared * (1.0 - happened / 41), abs=0.02)
    rest = mean_model(problem)[0][1, 1, 2]  # what the shrunk model has without hazards
    hazard = 1.0 - spared * (1.0 - problem.hazards.limits[1])
    assert choosing == pytest.approx(hazard + (1.0 - hazard) * rest, abs=0.01)
    assert choosing > likely + 0.1


def test_an_action_that_was_never_tried_may_always_ruin():
    outcomes = two_state_log(4).outcomes
    rows = outcomes.n_sa * [1.0, 0.0]
    untried = Hazards.of(outcomes._replace(n_sa=rows), worst=1, least=0.0, stay=1.0)
    assert untried.limits[0] < untried.limits[1] == 1.0


def test_what_happened_in_a_state_is_not_ignored():
    """Action 0 falls from state 0 half of the time; action 1 was tried there twice and did not."""
    rows = [(0, 0, 2)] * 20 + [(0, 0, 1)] * 20 + [(0, 1, 1)] * 2 + [(2, 0, 2)] * 30
    rows += [(1, 0, 1)] * 80 + [(1, 1, 0)] * 40
    states, actions, following = map(np.array, zip(*rows, strict=True))
    log = Log.from_arrays(
        state=states, action=actions, reward=np.where(states == 2, -5.0, 1.0),
        next_state=following, episode=range(len(rows)), truncated=[True] * len(rows),
    )  # fmt: skip
    baseline = TabularPolicy([[0.9, 0.1], [0.6, 0.4], [0.9, 0.1]])
    problem = Problem.of(log, baseline=baseline, gamma=0.9)
    prior = problem.prior._replace(share=np.full(3, np.inf), strength=np.full(3, 2.0))
    problem.__dict__["prior"] = prior  # as if the log were likeliest so
    hazards, n = problem.hazards, problem.counts.n_sa
    table = np.zeros((3, 2, 4))
    np.add.at(table, (states, actions, following), 1.0)
    ignored, known = (
        shrunk_rows(table, prior.frequencies, share, prior.strength)[0, 1, 2]
        for share in (np.inf, LARGEST_SHARE)
    )
    spared = n[0].sum() / (n[0].sum() + 1.0) * (n[0, 1] + 0.875) / (n[0, 1] + 1.0)
    drawn = mean_of_draws(problem)[0][0, 1, 2]
    hazard = 1.0 - spared * (1.0 - hazards.limits[1])
    assert hazards.state == 2
    assert dense(problem, "shrunk")[0][0, 1, 2] == pytest.approx(ignored)
    assert dense(problem, "careful")[0][0, 1, 2] == pytest.approx(hazard + (1.0 - hazard) * known)
    # Draws of a report have smaller hazards, and ignore it as little.
    likely = 1.0 - (1.0 - 1.0 / (n[0].sum() + 1.0)) * (1.0 - 0.25 / (n[0, 1] + 1.0)) * (
        1.0 - hazards.by_action[0, 1] / hazards.by_action[:, 1].sum()
    )
    assert drawn == pytest.approx(likely + (1.0 - likely) * known, abs=0.02)
    assert known > 1.4 * ignored


def test_counts_alone_have_hazards_too():
    problem = rare_problem()
    alone = Problem.of(problem.counts, baseline=problem.baseline, gamma=0.9)
    assert isinstance(alone.counts, Counts)
    assert alone.hazards.state == problem.hazards.state == 10
