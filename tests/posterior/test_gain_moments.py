"""Mean and variance of gains: derivatives by differences, variances by draws."""

import numpy as np
import pytest
from posterior_problems import (
    bulk_rows,
    changed_log,
    noisy_log,
    noisy_problem,
    problem_of,
    some_policies,
)

from spibb import Log, TabularPolicy
from spibb.posterior import gain_moments
from spibb.posterior.gain_moments import GainMoments
from spibb.posterior.model import PosteriorModel
from spibb.posterior.settings import ModelSettings
from spibb.testing import reference_model
from spibb.testing.reference_model import Parts, Slopes

N_DRAWS = 60_000
PROBLEMS = {
    "rare events": {"seed": 0},
    "an estimated baseline": {"seed": 1, "baseline": "estimate"},
    "no events, a declared range": {
        "seed": 2, "rare": 0.0, "options": {"reward_range": (-60.0, 60.0)},
    },
    "few rows": {"seed": 3, "n_rows": 60},
    "a known start": {"seed": 4, "options": {"initial": [0.4, 0.3, 0.2, 0.1]}},
    "without a discount": {"seed": 5, "gamma": 1.0, "ends": 0.4},
    "nothing follows": {"seed": 6, "gamma": 0.0},
    "actions alike": {"seed": 7, "n_states": 3, "n_actions": 2, "noise": 6.0, "rare": 0.0},
}  # fmt: skip


FIRST_ORDER = ModelSettings(dispersion=1.0)


def moments_of(problem, settings=FIRST_ORDER):
    return GainMoments.of(PosteriorModel.of(problem, settings))


def test_the_dispersion_widens_all_but_unseen_losses():
    problem = noisy_problem(**PROBLEMS["few rows"])
    policies = np.stack(some_policies(problem, 3))
    narrow = moments_of(problem).gains(policies)
    wide = moments_of(problem, ModelSettings(dispersion=2.0)).gains(policies)
    for one, other in zip(narrow, wide, strict=True):
        assert other.mean == one.mean
        assert other.loss_deviation == one.loss_deviation
        of_data = one.deviation**2 - one.loss_deviation**2
        assert other.deviation**2 == pytest.approx(4.0 * of_data + other.loss_deviation**2)


@pytest.mark.parametrize("name", PROBLEMS)
def test_moments_are_those_of_draws_of_the_whole_posterior(name):
    problem = noisy_problem(**PROBLEMS[name])
    moments, rows = moments_of(problem), bulk_rows(problem)
    assert bool(moments.model.events) == (PROBLEMS[name].get("rare") != 0.0)
    policy = some_policies(problem, 1)[0]
    (gain,) = moments.gains(policy[None])
    rng = np.random.default_rng(0)
    drawn, losses = reference_model.draw_gains(moments, policy, rows, N_DRAWS, rng)
    assert gain.mean == pytest.approx(drawn.mean(), abs=5.0 * gain.deviation / N_DRAWS**0.5)
    assert gain.deviation == pytest.approx(drawn.std(), rel=0.02)
    # Without unseen losses, which are wide.
    rest = np.sqrt(gain.deviation**2 - gain.loss_deviation**2)
    assert rest == pytest.approx((drawn + losses).std(), rel=0.02)


@pytest.mark.parametrize("name", PROBLEMS)
def test_derivatives_are_differences_between_models_that_are_solved_anew(name):
    """The formulas of the variance: w (r + gamma V) - w_b (r + gamma V_b), and alike."""
    problem = noisy_problem(**PROBLEMS[name])
    model = PosteriorModel.of(problem)
    policy, baseline = some_policies(problem, 1)[0], problem.baseline.probabilities
    parts = Parts.of(model)
    slopes = Slopes.of(parts, policy)
    of, base = model.evaluate(policy[None]), model.baseline_values
    w, w_b = of.visits[0][:, None] * policy, base.visits[0][:, None] * baseline
    seen = model.is_seen[:, None]
    u, u_b = (np.where(seen, one * model.bulk_share, 0.0) for one in (w, w_b))
    close = {"rtol": 1e-4, "atol": 1e-6}
    np.testing.assert_allclose(slopes.bulk[..., -1], u - u_b, **close)
    ahead = model.gamma * (u[..., None] * of.v[0] - u_b[..., None] * base.v[0])
    np.testing.assert_allclose(slopes.bulk[..., :-1], ahead, **close)
    for one, slope in zip(model.events, slopes.rates, strict=True):
        off, off_b = ((one.worth(v, model.gamma) - model.bulk_mean(v))[0] for v in (of.v, base.v))
        np.testing.assert_allclose(slope, np.where(seen, w * off - w_b * off_b, 0.0), **close)
    np.testing.assert_allclose(slopes.initial, of.v[0] - base.v[0], **close)
    by_baseline = -base.visits[0][:, None] * model.q(base.v)[0]
    np.testing.assert_allclose(slopes.baseline, by_baseline, **close)


def test_parts_by_state_sum_to_the_gain():
    problem = noisy_problem(0)
    moments = moments_of(problem)
    for policy in some_policies(problem, 3):
        (gain,) = moments.gains(policy[None])
        mean, deviation = moments.by_state(policy)
        parts = Parts.of(moments.model)
        at_risk = np.maximum(policy - problem.baseline.probabilities, 0.0) * np.maximum(
            moments._baseline_q - moments.losses.worst, 0.0
        )
        losses = parts.solve(policy)[1] @ (at_risk * moments.losses.losses.of_pairs).sum(axis=1)
        assert mean.sum() + losses == pytest.approx(gain.mean + gain.loss_mean, abs=1e-9)
        assert (deviation > 0.0).all()
    mean, deviation = moments.by_state(problem.baseline.probabilities)
    assert not mean.any()
    assert not deviation.any()


def test_a_policy_that_changes_one_state_has_the_deviation_of_that_state():
    """Nothing leads anywhere, so that visits are the first states."""
    log, policy = noisy_log(0, ends=1.0, rare=0.0)
    problem = problem_of(log, policy, initial=[0.25] * 4)
    moments = moments_of(problem)
    changed = policy.probabilities.copy()
    changed[2] = [1.0, 0.0, 0.0]
    mean, deviation = moments.by_state(changed)
    (gain,) = moments.gains(changed[None])
    assert np.flatnonzero(mean).tolist() == np.flatnonzero(deviation).tolist() == [2]
    # Losses of actions, and pseudo-counts, belong to all states.
    assert deviation.sum() < gain.deviation < 2.5 * deviation.sum()


def test_the_deviation_is_that_of_textbooks_in_a_bandit_with_many_rows():
    """Two actions that differ: variances of their means add up."""
    rng, n = np.random.default_rng(0), 20_000
    action = rng.integers(2, size=n)
    reward = 3.0 * action + rng.normal(size=n) * np.where(action == 1, 1.0, 1.0)
    log = Log.from_arrays(state=[0] * n, action=action, reward=reward, episode=range(n))
    moments = moments_of(problem_of(log, TabularPolicy([[0.5, 0.5]])))
    (gain,) = moments.gains(np.array([[[0.0, 1.0]]]))
    by_action = [reward[action == a] for a in (0, 1)]
    spread = sum(0.25 * one.var() / len(one) for one in by_action)
    rest = np.sqrt(gain.deviation**2 - gain.loss_deviation**2)
    assert gain.mean + gain.loss_mean == pytest.approx(
        0.5 * (by_action[1].mean() - by_action[0].mean()), rel=1e-3
    )
    assert rest == pytest.approx(spread**0.5, rel=0.02)


def test_more_of_the_same_data_narrows_gains():
    for seed in range(4):
        log, policy = noisy_log(seed, n_rows=150)
        names = ("state", "action", "reward", "next_state", "terminated", "truncated")
        deviations = []
        for times in (1, 4, 16):
            n = log.episode.max() + 1
            many = {name: np.tile(getattr(log, name), times) for name in names}
            many["episode"] = np.concatenate([log.episode + n * i for i in range(times)])
            problem = problem_of(Log.from_arrays(**many, n_states=4, n_actions=3), policy)
            gains = moments_of(problem).gains(some_policies(problem, 4, seed))
            deviations.append([gain.deviation for gain in gains])
        assert (np.diff(deviations, axis=0) < 0.0).all()
        assert (np.array(deviations[2]) < 0.5 * np.array(deviations[0])).all()


def seen(gain):
    return [gain.mean, gain.deviation, gain.loss_mean, gain.loss_deviation]


def gains_of(problem, policies):
    return np.array([seen(gain) for gain in moments_of(problem).gains(policies)])


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1e9])
def test_gains_have_the_unit_of_rewards(scale):
    for seed, rare in ((0, 0.03), (1, 0.0)):
        log, policy = noisy_log(seed, rare=rare)
        problem = problem_of(log, policy)
        policies = some_policies(problem, 3)
        scaled = problem_of(changed_log(log, reward=scale * log.reward), policy)
        np.testing.assert_allclose(
            gains_of(scaled, policies), scale * gains_of(problem, policies), rtol=1e-6
        )


@pytest.mark.parametrize("constant", [-3.0, 1.0, 1000.0])
@pytest.mark.parametrize("options", [{}, {"reward_range": (-200.0, 200.0)}])
def test_a_constant_added_to_rewards_changes_no_gain_where_nothing_ends(constant, options):
    """Every state was left, so that no state pays the least reward for ever."""
    log, policy = noisy_log(0, ends=0.0)
    low, high = options.get("reward_range", (0.0, 0.0))
    moved = {"reward_range": (low + constant, high + constant)} if options else {}
    problem = problem_of(log, policy, **options)
    policies = some_policies(problem, 3)
    other = problem_of(changed_log(log, reward=log.reward + constant), policy, **moved)
    np.testing.assert_allclose(gains_of(other, policies), gains_of(problem, policies), rtol=1e-6)


def test_where_episodes_end_a_constant_does_change_gains():
    log, policy = noisy_log(0, ends=0.3)
    problem = problem_of(log, policy)
    policies = some_policies(problem, 3)
    other = problem_of(changed_log(log, reward=log.reward + 10.0), policy)
    assert not np.allclose(gains_of(other, policies), gains_of(problem, policies), rtol=0.1)


def test_names_of_states_and_actions_change_nothing():
    rng = np.random.default_rng(0)
    for seed in range(3):
        log, policy = noisy_log(seed)
        problem = problem_of(log, policy)
        policies = some_policies(problem, 3)
        x, a = rng.permutation(4), rng.permutation(3)
        following = np.where(log.next_state < 0, -1, x[log.next_state])
        other = changed_log(log, state=x[log.state], action=a[log.action], next_state=following)

        def renamed(table, x=x, a=a):
            found = np.empty(table.shape)
            found[..., x[:, None], a] = table
            return found

        there = problem_of(other, TabularPolicy(renamed(policy.probabilities)))
        np.testing.assert_allclose(
            gains_of(there, renamed(policies)), gains_of(problem, policies), rtol=1e-8
        )
        one, two = moments_of(problem), moments_of(there)
        for found, expected in zip(
            two.by_state(renamed(policies)[0]), one.by_state(policies[0]), strict=True
        ):
            np.testing.assert_allclose(found[x], expected, rtol=1e-8)


def test_the_order_of_rows_changes_nothing():
    log, policy = noisy_log(0, ends=1.0)
    order = np.random.default_rng(0).permutation(len(log))
    names = ("state", "action", "reward", "next_state", "terminated", "truncated", "episode")
    other = changed_log(log, **{name: getattr(log, name)[order] for name in names})
    problem = problem_of(log, policy)
    policies = some_policies(problem, 2)
    np.testing.assert_allclose(
        gains_of(problem_of(other, policy), policies), gains_of(problem, policies), rtol=1e-9
    )


@pytest.mark.parametrize("rare", [0.0, 0.03])
def test_small_changes_of_rewards_change_gains_little(rare):
    for seed in range(4):
        log, policy = noisy_log(seed, rare=rare)
        problem = problem_of(log, policy)
        policies = some_policies(problem, 3)
        before, rng = gains_of(problem, policies), np.random.default_rng(seed)
        for size in (1e-6, 1e-9):
            reward = log.reward + size * rng.normal(size=len(log))
            after = gains_of(problem_of(changed_log(log, reward=reward), policy), policies)
            assert abs(after - before).max() < 100.0 * size


def test_gains_of_many_policies_are_those_of_each():
    problem = noisy_problem(0)
    moments, policies = moments_of(problem), some_policies(problem, 5)
    policies[2] = problem.baseline.probabilities
    together = [seen(gain) for gain in moments.gains(policies)]
    for policy, found in zip(policies, together, strict=True):
        assert found == pytest.approx(seen(moments.gains(policy[None])[0]), rel=1e-10)
    assert together[2] == [0.0] * 4


def test_policies_near_a_known_baseline_gain_near_nothing():
    problem = noisy_problem(0)
    moments, baseline = moments_of(problem), problem.baseline.probabilities
    other = some_policies(problem, 1)[0]
    steps = np.array([1e-6, 1e-4, 1e-2])[:, None, None]
    found = np.array([seen(gain) for gain in moments.gains(baseline + steps * (other - baseline))])
    for column in found.T:
        np.testing.assert_allclose(column / steps.ravel(), column[0] / steps[0, 0, 0], rtol=0.3)


EDGES = {
    "one row": ([0], [0], [1.0], [-1], [True]),
    "two rows": ([0, 0], [0, 1], [1.0, 2.0], [-1, -1], [True, True]),
    "two rows that lead on": ([0, 0], [0, 1], [1.0, 2.0], [0, 0], [False, False]),
    "one state": ([0] * 6, [0, 1] * 3, [1.0, 2.0, 1.5, 2.5, 0.0, 1.0], [0] * 6, [False] * 6),
    "all rows end": ([0, 1] * 10, [0, 0, 1, 1] * 5, np.arange(20.0), [-1] * 20, [True] * 20),
    "an action without data": ([0, 1] * 5, [0] * 10, np.arange(10.0), [0, 1] * 5, [False] * 10),
    "a state that was never left": (
        [0] * 9, [0, 1, 0] * 3, np.arange(9.0), [0, 0, 1] * 3, [False] * 9,
    ),
    "a terminal state": (
        [0] * 9, [0, 1, 0] * 3, np.arange(9.0), [0, 0, 1] * 3, [False, False, True] * 3,
    ),
    "rewards all equal": ([0, 1] * 6, [0, 0, 1, 1] * 3, [0.1] * 12, [1, 0] * 6, [False] * 12),
    "rewards all nothing": ([0, 1] * 6, [0, 0, 1, 1] * 3, [0.0] * 12, [1, 0] * 6, [False] * 12),
    "large rewards": ([0, 1] * 6, [0, 0, 1, 1] * 3, 1e9 * np.arange(12), [1, 0] * 6, [False] * 12),
    "small rewards": ([0, 1] * 6, [0, 0, 1, 1] * 3, 1e-9 * np.arange(12), [1, 0] * 6, [False] * 12),
}  # fmt: skip


def edge_problem(name, gamma, **options):
    state, action, reward, following, ended = map(np.asarray, EDGES[name])
    log = Log.from_arrays(
        state=state, action=action, reward=reward, next_state=following, terminated=ended,
        n_states=2, n_actions=2,
    )  # fmt: skip
    return problem_of(log, TabularPolicy([[0.6, 0.4]] * 2), gamma, **options)


@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("name", EDGES)
def test_edges(name, gamma):
    for options in ({}, {"reward_range": (-2e10, 2e10)}):
        problem = edge_problem(name, gamma, **options)
        moments = moments_of(problem)
        parts = Parts.of(moments.model)
        policies = np.concatenate([some_policies(problem, 2), [np.eye(2), np.eye(2)[::-1]]])
        for policy, gain in zip(policies, moments.gains(policies), strict=True):
            v, visits = parts.solve(policy)
            found = moments.model.evaluate(policy[None])
            np.testing.assert_allclose(found.v[0], v, rtol=1e-6, atol=1e-9 * abs(v).max())
            np.testing.assert_allclose(found.visits[0], visits, rtol=1e-6, atol=1e-9)
            assert np.isfinite(seen(gain)).all()
            assert gain.deviation >= gain.loss_deviation >= 0.0
            size = abs(v).max() + abs(parts.solve(parts.baseline)[0]).max() + gain.loss_mean
            assert gain.mean + gain.loss_mean == pytest.approx(parts.gain(policy), abs=1e-7 * size)
            assert 0.0 <= gain.probability_of_harm <= 1.0
            assert gain.lower_tail_mean <= gain.mean + 1e-9 * abs(gain.mean)
            assert np.isfinite(moments.by_state(policy)).all()


def test_floors_of_variances_are_positive_where_all_rewards_are_equal():
    moments = moments_of(edge_problem("rewards all equal", 0.9))
    (gain,) = moments.gains(np.eye(2)[None])
    assert 0.0 < gain.deviation < 1e-3
    assert gain_moments._LEAST_VARIANCE * moments.model.variance > 0.0
