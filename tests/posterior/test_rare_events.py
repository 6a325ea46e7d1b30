"""Rows far from the mean of their state, and how often they happen."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from posterior_problems import changed_log, last_fit, noisy_log, noisy_problem, problem_of

from spibb import Log, TabularPolicy
from spibb.posterior.model import PosteriorModel
from spibb.posterior.pseudo_counts import prior_of_pseudo_counts
from spibb.posterior.rare_events import RareEvents, far_steps, likeness, sizes
from spibb.posterior.settings import ModelSettings
from spibb.posterior.steps import PairSums, Steps
from spibb.testing import reference_model

NAMES = (
    "rate",
    "variance",
    "data_share",
    "base",
    "state_variance",
    "action_variance",
    "of_actions",
)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 5.0]), st.sampled_from([0.0, 0.9]))
@settings(max_examples=25, deadline=None)
def test_events_are_the_rows_that_loops_find(seed, threshold, gamma):
    rng = np.random.default_rng(seed)
    log, _ = noisy_log(seed, n_rows=int(rng.integers(1, 120)), rare=0.1 * rng.random())
    steps, v = Steps.of_log(log), rng.normal(size=4)
    rows = reference_model.rows_of_steps(steps)
    found = far_steps(steps, v, gamma, threshold)
    expected = reference_model.far_rows(rows, v, gamma, threshold)
    times = steps.weight.astype(int)
    for one, other in zip(found[:2], expected[:2], strict=True):
        assert np.repeat(one, times).tolist() == other
    np.testing.assert_allclose(np.repeat(found[2], times), expected[2], atol=1e-9)


def test_what_is_far_is_told_by_weight_not_by_cells():
    """The same rows as cells of weight 1 and 3."""
    log, _ = noisy_log(1, n_rows=200)
    steps = Steps.of_log(log)
    v = np.zeros(4)
    heavy = steps._replace(weight=3.0 * steps.weight, squares=3.0 * steps.squares)
    one, other = far_steps(steps, v, 0.9, 5.0), far_steps(heavy, v, 0.9, 5.0)
    np.testing.assert_array_equal(one[:2], other[:2])
    np.testing.assert_allclose(one[2], other[2])
    assert np.any(one[:2])


@pytest.mark.parametrize("scale", [1e-9, 1e9, -1.0])
def test_the_unit_of_rewards_changes_no_event(scale):
    log, _ = noisy_log(2)
    steps, v = Steps.of_log(log), np.random.default_rng(0).normal(size=4)
    other = Steps.of_log(changed_log(log, reward=scale * log.reward))
    up, down = (one.sum() for one in far_steps(steps, v, 0.9, 5.0)[:2])
    scaled = [one.sum() for one in far_steps(other, scale * v, 0.9, 5.0)[:2]]
    assert scaled == ([down, up] if scale < 0.0 else [up, down])
    assert up > 0
    assert down > 0


def test_where_many_rows_are_far_they_are_no_rare_events():
    reward = np.where(np.arange(100) % 5 == 0, -10.0, 0.0) + np.arange(100) * 1e-6
    log = Log.from_arrays(state=[0] * 100, action=[0] * 100, reward=reward, episode=range(100))
    assert not np.any(far_steps(Steps.of_log(log), np.zeros(1), 0.9, 2.0)[:2])


def events_of(k, n, alike=1.0, **options):
    """Return fitted rates of k events in n rows."""
    k, n = np.array(k), np.array(n)
    pairs = [(x, a) for x, a in np.ndindex(n.shape) for _ in range(k[x, a])]
    log = Log.from_arrays(
        state=[x for x, _ in pairs], action=[a for _, a in pairs], reward=[-10.0] * len(pairs),
        episode=range(len(pairs)), n_states=n.shape[0], n_actions=n.shape[1],
    )  # fmt: skip
    sums = PairSums.of(Steps.of_log(log))
    return RareEvents.of(sums, n.astype(float), ModelSettings(**options), is_loss=True, alike=alike)


def tables(n_states, n_actions):
    pair = st.tuples(st.integers(0, 40), st.integers(0, 3))
    line = st.lists(pair, min_size=n_actions, max_size=n_actions)
    return st.lists(line, min_size=n_states, max_size=n_states)


@given(st.tuples(st.integers(1, 3), st.integers(1, 3)).flatmap(lambda shape: tables(*shape)))
@settings(max_examples=25, deadline=None)
def test_rates_are_those_of_loops(table):
    n = np.array([[rows for rows, _ in line] for line in table])
    k = np.minimum(n, [[events for _, events in line] for line in table])
    if not k.any():
        n[0, 0] = k[0, 0] = 1
    found = events_of(k, n)
    prior = prior_of_pseudo_counts(0.2)
    expected = reference_model.event_rates(k.astype(float), n.astype(float), 0.2, prior)
    for name in NAMES:
        np.testing.assert_allclose(getattr(found, name), expected[name], rtol=1e-6, atol=1e-9)
    assert (found.rate > 0.0).all()
    assert (found.rate < 1.0).all()
    assert (found.variance <= found.rate * (1.0 - found.rate) + 1e-12).all()


def test_an_action_whose_events_are_everywhere_is_expected_to_have_them_elsewhere():
    n = np.full((6, 2), 50)
    k = np.zeros((6, 2), dtype=int)
    k[:5, 1] = 3
    found = events_of(k, n)
    assert found.rate[5, 1] > 2.0 * found.rate[5, 0]
    assert found.rate[5, 1] < found.rate[0, 1]
    assert found.of_actions[1] > 10.0 * found.of_actions[0]


@pytest.mark.parametrize("equal", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("prior", [0.0, 0.2])
def test_settings_at_their_ends_give_numbers(prior, equal):
    n, k = [[30, 5], [20, 0]], [[2, 0], [0, 0]]
    found = events_of(k, n, event_prior=prior, equal_actions=equal)
    for name in NAMES:
        assert np.isfinite(getattr(found, name)).all()


def test_what_events_lead_to_is_the_same_as_rewards_and_as_transitions():
    for seed in range(3):
        model = PosteriorModel.of(noisy_problem(seed))
        v = np.random.default_rng(seed).normal(size=(2, 4))
        assert len(model.events) == 2
        for one in model.events:
            assert 0.0 < one.alike < 1.0
            means = reference_model.event_means(one)
            worth = one.worth(v, 0.9)
            for k in range(2):
                expected = means[..., -1] + 0.9 * means[..., :-1] @ v[k]
                np.testing.assert_allclose(worth[k], expected, rtol=1e-12)
                np.testing.assert_allclose(one.worth(v[k], 0.9), expected, rtol=1e-12)
            weights = np.random.default_rng(seed).normal(size=(4, 3))
            np.testing.assert_allclose(
                one.successors(weights).toarray(),
                np.einsum("xa,xay->xy", weights, means[..., :-1]), atol=1e-12,
            )  # fmt: skip


def test_events_elsewhere_tell_what_one_is_worth_where_they_are_alike():
    """Falls into one trap, rare steps along a road, and a single event."""
    log = Log.from_arrays(
        state=[0, 1, 2, 3] * 5, action=[0] * 20, reward=[0.0] * 20,
        next_state=[0, 1, 2, 3] * 4 + [4, 4, 4, 4], terminated=[False] * 20, n_states=5,
    )  # fmt: skip
    steps, v = Steps.of_log(log), np.array([1.0, 2.0, 3.0, 4.0, -20.0])
    assert likeness(steps, v, 1.0, steps.outcome == 4) == 1.0
    log = Log.from_arrays(
        state=[0, 1, 2, 3] * 5, action=[0] * 20, reward=[0.0] * 20,
        next_state=[0, 1, 2, 3] * 4 + [1, 2, 3, 4], terminated=[False] * 20, n_states=5,
    )  # fmt: skip
    steps, v = Steps.of_log(log), np.arange(5.0)
    is_step = steps.outcome == steps.state + 1
    # One step on from the own state; 1.25 + 0.25 around the mean of the others, of 3 degrees.
    assert likeness(steps, v, 1.0, is_step) == pytest.approx(1.0 / (1.0 + 5.0 / 3.0))
    assert likeness(steps, 100.0 * v, 1.0, is_step) == pytest.approx(1.0 / (1.0 + 5.0 / 3.0))
    assert likeness(steps, v, 1.0, np.arange(len(is_step)) == is_step.argmax()) == 1.0


def test_an_event_that_is_not_known_is_as_in_the_bulk():
    """Where events are not alike, a pair without any loses nothing by those of others."""
    n, k = np.full((3, 2), 20), np.zeros((3, 2), dtype=int)
    k[0, 1] = 3
    near, far = events_of(k, n, alike=0.0), events_of(k, n, alike=1.0)
    assert (near.known[1:] == 0.0).all()
    assert near.known[0, 1] == pytest.approx(3 / 4)
    assert (far.known == 1.0).all()
    assert not near.successors(np.ones((3, 2))).toarray()[1:].any()
    assert not near.worth(np.ones(3), 0.9)[1:].any()


def test_the_events_of_a_model_are_those_of_its_last_values():
    problem = noisy_problem(0)
    v, steps, is_bulk = last_fit(problem)
    model = PosteriorModel.of(problem)
    rows = reference_model.rows_of_steps(steps)
    up, down, _ = reference_model.far_rows(rows, v, 0.9, 5.0)
    for is_loss, rare in ((False, up), (True, down)):
        found = [one.sums.n.sum() for one in model.events if one.is_loss == is_loss]
        assert sum(found) == sum(rare) > 0
    np.testing.assert_array_equal(model.bulk.n, PairSums.of(steps, is_bulk).n)
    np.testing.assert_array_equal(
        model.bulk.n + sum(one.sums.n for one in model.events), model.rows.n
    )


def test_events_of_one_class_differ_by_a_factor_and_the_largest_come_first():
    off = np.array([0.0, 100.0, 21.0, 19.0, 5.0, 3.0, 0.1])
    found = [np.flatnonzero(one).tolist() for one in sizes(off, 5.0)]
    assert found == [[1, 2], [3, 4], [5, 6]]
    assert not np.any(sizes(np.zeros(3), 5.0))
    # With a factor of 1 or less there is one class.
    assert [one.sum() for one in sizes(off, 0.5)] == [0, 0, 6]


def test_the_rates_of_an_action_are_alike_where_only_actions_differ():
    """Falls of action 1 are as likely everywhere; those of action 0 happen in one state alone."""
    n, k = np.full((20, 2), 14), np.zeros((20, 2), dtype=int)
    k[:, 1] = [1, 0, 0, 0, 1, 1, 1, 2, 2, 0, 3, 0, 3, 4, 0, 0, 4, 1, 2, 1]
    k[3, 0] = 13
    found = events_of(k, n)
    rate = k[:, 1].sum() / n[:, 1].sum()
    assert (found.rate[:, 1] > 0.5 * rate).all()
    assert (found.rate[:, 1] < 2.0 * rate).all()
    assert found.rate[3, 0] > 0.7
    assert (np.delete(found.rate[:, 0], 3) < 0.05).all()


def test_a_great_win_lends_nothing_to_the_small_ones():
    """Action 1 often wins a little; action 0 rarely wins a lot, where action 1 wins, too."""
    rng = np.random.default_rng(0)
    n = 3000
    state, action = rng.integers(0, 5, n), (rng.random(n) < 0.1).astype(int)
    reward = np.where(action == 1, 3.0 * (rng.random(n) < 0.3), 200.0 * (rng.random(n) < 0.01))
    log = Log.from_arrays(
        state=state, action=action, reward=reward + 1e-3 * rng.normal(size=n), episode=range(n)
    )
    model = PosteriorModel.of(problem_of(log, TabularPolicy([[0.9, 0.1]] * 5)))
    assert model.q(np.zeros((1, 5)))[0][:, 1].max() < 2.0
    small = next(one for one in model.events if one.sums.n[:, 1].sum() > 50)
    assert small.worth(np.zeros(5), 0.9)[:, 1] == pytest.approx(3.0, rel=0.1)


def test_rates_of_both_signs_leave_some_of_the_bulk():
    log = Log.from_arrays(
        state=[0] * 41, action=[0] * 40 + [1], reward=[0.0, 0.1] * 20 + [-50.0], episode=range(41)
    )
    model = PosteriorModel.of(problem_of(log, TabularPolicy([[0.9, 0.1]])))
    assert len(model.events) == 1
    assert 0.0 < model.event_rates[0][0, 1] <= 0.95
    assert model.bulk_share.min() >= 0.05 - 1e-12
