"""Policies that maximise the expected gain less a penalty."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from posterior_problems import changed_log, noisy_log, noisy_problem, problem_of
from scipy.optimize import minimize

from spibb import Log, TabularPolicy
from spibb.posterior.gain_moments import GainMoments
from spibb.posterior.model import PosteriorModel
from spibb.posterior.penalised_search import PENALTIES, _step, _variances, search
from spibb.testing import reference_model
from spibb.testing.strategies import distributions


def step_of(q, cost, less, curvature, start, most):
    """Return one row of the compiled step."""
    moved = np.empty((1, 1, len(q)))
    q, cost, less, curvature, start, most = (
        np.asarray(one, dtype=np.float64)[None] for one in (q, cost, less, curvature, start, most)
    )
    _step(q[None], cost[None], less, curvature[None], start, most, moved)
    return moved[0, 0]


@st.composite
def rows(draw):
    """Return rows with ties, zeros and limits."""
    n = draw(st.integers(1, 4))
    start = draw(distributions(n))
    numbers = st.integers(-3, 3).map(float) | st.floats(-50.0, 50.0).map(lambda q: round(q, 3))
    prices = st.sampled_from([0.0, 1.0]) | st.floats(0.0, 20.0).map(lambda q: round(q, 3))
    curves = st.floats(-3.0, 3.0).map(lambda p: 10.0**p)
    q, cost, less, curvature = (
        np.array(draw(st.lists(kind, min_size=n, max_size=n)))
        for kind in (numbers, prices, prices, curves)
    )
    share = np.array(draw(st.lists(st.sampled_from([0.0, 0.3, 1.0]), min_size=n, max_size=n)))
    return q, cost, less, curvature, start, start + share * (1.0 - start)


@given(rows())
@settings(max_examples=40, deadline=None)
def test_steps_are_the_best_of_all_active_sets(row):
    q, cost, less, curvature, start, most = row
    found, best = step_of(*row), reference_model.best_step(*row)
    assert found.sum() == pytest.approx(1.0)
    assert (found >= 0.0).all()
    assert (found <= most + 1e-9).all()
    values = [
        reference_model.step_value(one, q, cost, less, curvature, start) for one in (found, best)
    ]
    assert values[0] == pytest.approx(values[1], abs=1e-7 * (1.0 + abs(q).max() + curvature.max()))
    # The objective is strictly concave, and steps are as sharp as it is.
    np.testing.assert_allclose(found, best, atol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_a_solver_finds_no_better_step(seed):
    rng = np.random.default_rng(seed)
    n = 5
    q, curvature = rng.normal(size=n), 10.0 ** rng.uniform(-1, 1, n)
    cost, less = 0.3 * rng.random((2, n))
    start, no = rng.dirichlet(np.ones(n)), np.zeros(n)

    # pi = b + up - down.
    def loss(z):
        return (
            -reference_model.step_value(start + z[:n] - z[n:], q, no, no, curvature, start)
            + cost @ z[:n]
            + less @ z[n:]
        )

    result = minimize(
        loss, np.zeros(2 * n), method="SLSQP", tol=1e-12,
        bounds=[(0.0, 1.0 - b) for b in start] + [(0.0, b) for b in start],
        constraints={"type": "eq", "fun": lambda z: (z[:n] - z[n:]).sum()},
    )  # fmt: skip
    found = step_of(q, cost, less, curvature, start, np.ones(n))
    assert reference_model.step_value(found, q, cost, less, curvature, start) >= -result.fun - 1e-7
    np.testing.assert_allclose(found, start + result.x[:n] - result.x[n:], atol=1e-3)


def test_steps_by_hand():
    start, ones, no = np.array([0.5, 0.5]), np.ones(2), np.zeros(2)
    # More of 1: 2 d = (1 - cost) / curvature, since the other action falls as far.
    found = step_of([0.0, 1.0], [0.0, 0.2], no, 4.0 * ones, start, ones)
    assert found == pytest.approx([0.4, 0.6])
    # What the other action may win counts as much.
    found = step_of([0.0, 1.0], no, [0.2, 0.0], 4.0 * ones, start, ones)
    assert found == pytest.approx([0.4, 0.6])
    # What is lost weighs more than what is gained.
    assert step_of([0.0, 1.0], [0.0, 1.5], no, ones, start, ones) == pytest.approx(start)
    assert step_of([0.0, 1.0], no, [1.5, 0.0], ones, start, ones) == pytest.approx(start)
    small = 1e-9 * ones
    assert step_of([0.0, 1.0], no, no, small, start, ones) == pytest.approx([0.0, 1.0])
    assert step_of([0.0, 1.0], no, no, small, start, [1.0, 0.7]) == pytest.approx([0.3, 0.7])


def found_by(problem, start=None, most=None, caution=1.0):
    moments = GainMoments.of(PosteriorModel.of(problem))
    start = problem.baseline.probabilities if start is None else start
    return moments, search(moments, start, most, caution)


def test_large_penalties_change_little_and_small_ones_much():
    for seed in range(3):
        problem = noisy_problem(seed)
        _, policies = found_by(problem)
        assert policies.shape == (len(PENALTIES), 4, 3)
        np.testing.assert_allclose(policies.sum(axis=2), 1.0)
        assert (policies >= 0.0).all()
        change = abs(policies - problem.baseline.probabilities).sum(axis=(1, 2))
        assert change[0] < 0.1 * change[-1]
        assert (np.diff(change) >= -0.05).all()


def test_each_policy_is_the_best_answer_to_its_own_values():
    problem = noisy_problem(0)
    moments, policies = found_by(problem)
    model, start = moments.model, problem.baseline.probabilities
    values = model.evaluate(policies)
    q, (variance, unit) = model.q(values.v), _variances(moments)
    cost, less = moments.losses.prices(q, 1.0)
    for k in range(0, len(policies), 3):
        for x in range(4):
            curvature = PENALTIES[k] / unit * values.visits[k, x] * variance[x]
            best = reference_model.best_step(
                q[k, x], cost[k, x], less[x], curvature, start[x], np.ones(3)
            )
            np.testing.assert_allclose(policies[k, x], best, atol=0.02)


def test_without_a_penalty_worth_naming_the_policy_is_the_best_of_the_mean_model():
    """Many rows, and hardly anything to be lost that was not seen."""
    problem = noisy_problem(0, n_rows=3000, rare=0.0)
    moments, policies = found_by(problem, caution=0.0)
    v = moments.model.baseline_values.v
    for _ in range(50):
        v = moments.model.evaluate(np.eye(3)[moments.model.q(v).argmax(axis=2)]).v
    reached = moments.model.evaluate(policies[-1:]).v[0] @ moments.model.initial
    baseline = moments.model.baseline_values.v[0] @ moments.model.initial
    best = v[0] @ moments.model.initial
    assert reached - baseline > 0.95 * (best - baseline) > 0.0


def test_limits_hold_and_states_that_were_never_left_are_as_at_the_start():
    log = Log.from_arrays(
        state=[0] * 40, action=[0, 1] * 20, reward=np.arange(40) % 2 * 1.0 + np.arange(40) * 1e-3,
        next_state=[0] * 39 + [1], terminated=[False] * 40,
    )  # fmt: skip
    problem = problem_of(log, TabularPolicy([[0.5, 0.5], [0.9, 0.1]]))
    most = np.array([[1.0, 0.7], [1.0, 1.0]])
    _, policies = found_by(problem, most=most)
    assert policies[:, 0, 1].max() == pytest.approx(0.7)
    np.testing.assert_array_equal(policies[:, 1], np.tile([0.9, 0.1], (len(policies), 1)))


def test_another_start_is_held_to():
    problem = noisy_problem(1)
    start = np.array([[0.2, 0.3, 0.5]] * 4)
    _, policies = found_by(problem, start=start)
    assert abs(policies[0] - start).max() < 0.05
    assert abs(policies[0] - problem.baseline.probabilities).max() > 0.05


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1e9])
def test_the_unit_of_rewards_changes_no_policy(scale):
    for seed in range(2):
        log, policy = noisy_log(seed)
        _, one = found_by(problem_of(log, policy))
        _, other = found_by(problem_of(changed_log(log, reward=scale * log.reward), policy))
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_caution_about_unseen_losses_changes_less():
    problem = noisy_problem(2, n_rows=100)
    moved = [
        abs(found_by(problem, caution=caution)[1] - problem.baseline.probabilities).sum()
        for caution in (0.0, 1.0, 4.0, 100.0)
    ]
    assert (np.diff(moved) < 0.0).all()


def test_names_of_states_and_actions_change_no_policy():
    log, policy = noisy_log(3)
    x, a = np.array([2, 0, 3, 1]), np.array([1, 2, 0])
    following = np.where(log.next_state < 0, -1, x[log.next_state])
    other = changed_log(log, state=x[log.state], action=a[log.action], next_state=following)
    renamed = np.empty((4, 3))
    renamed[x[:, None], a] = policy.probabilities
    _, one = found_by(problem_of(log, policy))
    _, two = found_by(problem_of(other, TabularPolicy(renamed)))
    np.testing.assert_allclose(two[:, x[:, None], a], one, atol=1e-6)


@pytest.mark.parametrize("reward", [0.0, 0.1, 1e9, -1e-9])
@pytest.mark.parametrize("n_rows", [1, 2, 12])
def test_where_all_rewards_are_equal_there_is_nothing_to_gain(reward, n_rows):
    i = np.arange(n_rows)
    log = Log.from_arrays(
        state=i % 2, action=i // 2 % 2, reward=[reward] * n_rows, episode=i, n_states=2, n_actions=2
    )
    problem = problem_of(log, TabularPolicy([[0.6, 0.4]] * 2))
    moments, policies = found_by(problem)
    np.testing.assert_allclose(policies.sum(axis=2), 1.0)
    for gain in moments.gains(policies):
        assert gain.mean <= 1e-9 * abs(reward)
