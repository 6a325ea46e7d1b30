"""Losses that the log has not shown yet."""

import numpy as np
import pytest
from posterior_problems import changed_log, noisy_log, noisy_problem, problem_of, some_policies

from spibb import Log, TabularPolicy
from spibb.posterior.gain_moments import GainMoments
from spibb.posterior.model import PosteriorModel
from spibb.posterior.settings import ModelSettings
from spibb.posterior.unseen_losses import UnseenLosses
from spibb.testing import reference_model

N_DRAWS = 200_000


@pytest.mark.parametrize(
    "problem",
    [
        noisy_problem(0),
        noisy_problem(1, rare=0.0),
        noisy_problem(2, n_rows=30, options={"reward_range": (-100.0, 100.0)}),
        noisy_problem(3, ends=0.0, options={"reward_range": (-100.0, 100.0)}),
    ],
    ids=["losses", "none seen", "few rows, a declared range", "without ends"],
)
def test_moments_are_those_of_draws(problem):
    moments = GainMoments.of(PosteriorModel.of(problem))
    for policy in some_policies(problem, 2):
        (gain,) = moments.gains(policy[None])
        drawn = reference_model.draw_unseen_losses(
            moments, policy, N_DRAWS, np.random.default_rng(0)
        )
        error = gain.loss_deviation / N_DRAWS**0.5
        assert gain.loss_mean == pytest.approx(drawn.mean(), abs=5.0 * error)
        assert gain.loss_deviation == pytest.approx(drawn.std(), rel=0.02)
        assert drawn.mean() > 20.0 * error


def one_state(n_first, n_second, reward=None, **options):
    """Return the losses of a bandit with two actions."""
    n = n_first + n_second
    rewards = np.arange(n) % 2 if reward is None else reward
    log = Log.from_arrays(
        state=[0] * n, action=[0] * n_first + [1] * n_second, reward=rewards, episode=range(n),
        n_actions=2,
    )  # fmt: skip
    problem = problem_of(log, TabularPolicy([[0.5, 0.5]]), **options)
    return UnseenLosses.of(PosteriorModel.of(problem))


def test_the_rule_of_three_by_hand():
    """One pseudo-loss of 2 + 0.8 + 0.5 groups; actions and pairs are the same in one state."""
    losses = one_state(40, 10)
    c = 1.0 / (2.0 + 40 / 50 + 10 / 20)
    losses = losses.losses
    assert losses.of_actions == pytest.approx([c / (40 + c), c / (10 + c)])
    assert losses.of_pairs == pytest.approx(losses.of_actions[None])
    rate = losses.of_actions
    spread = np.sqrt(rate * (1.0 - rate) / (np.array([40, 10]) + c + 1.0))
    assert losses.price(2.0)[0] == pytest.approx(rate + spread + losses.of_pairs[0])
    assert losses.price(0.0)[0] == pytest.approx(2.0 * rate)


def test_rates_of_what_was_never_done_are_one_and_of_what_was_done_often_none():
    losses = one_state(100_000, 0).losses
    assert losses.of_actions[1] == pytest.approx(1.0)
    assert losses.of_actions[0] < 1e-4


def test_the_worst_outcome_by_hand():
    # Rows end: least reward, and nothing after it.
    assert one_state(5, 5).worst == 0.0
    assert one_state(5, 5, reward=np.arange(10) - 3.0).worst == -3.0
    assert one_state(5, 5, reward_range=(-7.0, 1.0)).worst == -7.0
    # Where nothing ends, the worst state follows for ever.
    log = Log.from_arrays(
        state=[0, 1] * 4, action=[0] * 8, reward=[-1.0, 2.0] * 4, next_state=[0, 1] * 4,
        terminated=[False] * 8,
    )  # fmt: skip
    model = PosteriorModel.of(problem_of(log, TabularPolicy([[1.0]] * 2), gamma=0.5))
    assert model.baseline_values.v[0] == pytest.approx([-2.0, 4.0])
    assert UnseenLosses.of(model).worst == pytest.approx(-1.0 + 0.5 * -2.0)


def test_a_declared_worse_reward_lets_states_that_were_never_left_be_the_worst():
    log = Log.from_arrays(
        state=[0, 0, 0, 0], action=[0, 1, 0, 1], reward=[1.0, 2.0, 1.0, 2.0],
        next_state=[0, 0, 0, 1], terminated=[False] * 4,
    )  # fmt: skip
    worst = {}
    for name, low in (("seen", None), ("declared", -1.0), ("as seen", 1.0)):
        options = {} if low is None else {"reward_range": (low, 2.0)}
        model = PosteriorModel.of(
            problem_of(log, TabularPolicy([[0.5, 0.5]] * 2), gamma=0.5, **options)
        )
        worst[name] = (
            UnseenLosses.of(model).worst,
            model.baseline_values.v[0],
            model.frontier_reward,
        )
    value, v, frontier = worst["declared"]
    assert frontier == -1.0
    assert v[1] == pytest.approx(-2.0)
    assert value == pytest.approx(-1.0 + 0.5 * v[1])
    for name, frontier in (("seen", 1.5), ("as seen", 1.0)):
        value, v, found = worst[name]
        assert found == frontier
        assert value == pytest.approx(1.0 + 0.5 * v[0])


def test_policies_that_do_no_more_anywhere_have_none():
    problem = noisy_problem(0)
    moments = GainMoments.of(PosteriorModel.of(problem))
    (gain,) = moments.gains(problem.baseline.probabilities[None])
    assert (gain.mean, gain.deviation, gain.loss_mean) == (0.0, 0.0, 0.0)
    loss, variance = moments.losses.moments(np.zeros((1, 4, 3)), np.ones((1, 4, 3)))
    assert loss == variance == 0.0


def one_pair_loses():
    """Return a log without losses, and the same with some of one pair."""
    log, policy = noisy_log(0, n_rows=1000, rare=0.0)
    pair = np.flatnonzero((log.state == 1) & (log.action == 1))
    reward = log.reward.copy()
    reward[pair[::5]] -= 30.0
    return problem_of(log, policy), problem_of(changed_log(log, reward=reward), policy)


def test_losses_of_one_pair_make_those_of_others_more_likely():
    calm, losing = (
        UnseenLosses.of(PosteriorModel.of(problem)).losses for problem in one_pair_loses()
    )
    others = np.ones((4, 3), dtype=bool)
    others[1, 1] = False
    assert (losing.of_pairs[others] > 1.5 * calm.of_pairs[others]).all()
    # The pair itself shows what it loses.
    assert losing.of_pairs[1, 1] < 0.5 * calm.of_pairs[1, 1]


@pytest.mark.parametrize(
    ("losses", "groups"), [(0.0, 0.0), (0.0, 2.0), (1.0, 1.0), (1.0, 2.0), (2.0, 2.0)]
)
def test_settings_at_their_ends_give_numbers(losses, groups):
    problem = noisy_problem(1, rare=0.0)
    settings = ModelSettings(prior_losses=losses, prior_groups=groups)
    moments = GainMoments.of(PosteriorModel.of(problem, settings))
    for gain in moments.gains(some_policies(problem, 2)):
        assert np.isfinite([gain.mean, gain.deviation, gain.lower_tail_mean]).all()
        assert (gain.loss_mean > 0.0) == (losses > 0.0)


def test_what_only_events_would_show_takes_part_by_action_and_by_pair():
    """Draws with shares that plain loops count from the events of the log."""
    model = PosteriorModel.of(one_pair_loses()[1])
    losses = UnseenLosses.of(model).losses
    c, k, shape = reference_model.unseen_shares(model, is_loss=True)
    n = model.rows.n
    assert losses.of_actions == pytest.approx(c / (n.sum(axis=0) + c))
    (seen,) = (one.sums.n for one in model.events if one.is_loss)
    assert losses.of_pairs == pytest.approx(k / (n + k) / (1.0 + seen))
    assert shape > 1.0


def test_a_win_that_was_never_seen_is_what_a_declared_range_leaves():
    assert one_state(5, 5).win == 0.0
    assert one_state(5, 5, reward_range=(-7.0, 1.0)).win == 0.0
    assert one_state(5, 5, reward_range=(0.0, 9.0)).win == 8.0


def test_giving_up_an_action_that_may_win_costs_by_the_rule_of_three():
    """The second action pays .2 more than the first, which was never seen to win 100."""
    rewards = [0.5] * 90 + [0.7] * 10
    means = {}
    for high in (1.0, 100.0):
        losses = one_state(90, 10, reward=rewards, reward_range=(0.0, high))
        (gain,) = GainMoments(losses.model, losses).gains(np.array([[[0.0, 1.0]]]))
        means[high] = gain
    c = 1.0 / (2.0 + 90 / 100 + 10 / 20)
    # Half as often as before, and two rates: of the action and of the pair.
    expected = 0.5 * 2.0 * c / (90.0 + c)
    difference = means[1.0].mean - means[100.0].mean
    assert difference == pytest.approx(99.0 * expected, rel=1e-6)
    assert means[1.0].probability_of_harm < 0.05 < means[100.0].probability_of_harm


def test_without_an_unseen_win_nothing_is_given_up():
    prices = one_state(5, 5).prices(np.ones((1, 1, 2)), 1.0)
    assert (prices[0] > 0.0).all()
    assert (prices[1] == 0.0).all()
