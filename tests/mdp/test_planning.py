"""Optimal planning, and the loop behind every algorithm: what it finds and how it stops."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spibb import operators
from spibb.algorithms.iterating import Step, iterate
from spibb.errors import ModelError, SettingsError
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import evaluate, evaluate_batch
from spibb.mdp.model import TabularMDP
from spibb.mdp.planning import Status, checked_cap, policy_iteration, solve
from spibb.operators import Operator
from spibb.operators.rows import improve_problems
from spibb.testing import reference
from spibb.testing.strategies import mdps, policies

REFERENCE_STEPS = {
    Operator.GREEDY: lambda q, b, e, epsilon: reference.greedy_row(q),
    Operator.PI_B: lambda q, b, e, epsilon: reference.pi_b_row(q, b, e < np.inf),
    Operator.PI_LEQ_B: lambda q, b, e, epsilon: reference.pi_leq_b_row(q, b, e < np.inf),
    Operator.SOFT_EXACT: reference.soft_exact_row,
    Operator.SOFT_APPROX: reference.soft_approx_row,
}


def random_model(rng, n_states=6, n_actions=3, gamma=0.9):
    transition = rng.dirichlet(np.full(n_states, 0.3), size=(n_states, n_actions))
    return TabularMDP(transition, rng.normal(size=(n_states, n_actions)), gamma)


def corridor(n_states, gamma=0.9):
    """Action 0 ends at once for nothing, 1 moves right; beyond the last state lies the only prize.

    From "always end" each improvement step sees the prize from one state further left.
    """
    transition = np.zeros((n_states, 2, n_states))
    transition[np.arange(n_states - 1), 1, np.arange(1, n_states)] = 1.0
    reward = np.zeros((n_states, 2))
    reward[-1, 1] = 1.0
    return TabularMDP(transition, reward, gamma)


def always(action, n_states, n_actions=2):
    policy = np.zeros((1, n_states, n_actions))
    policy[:, :, action] = 1.0
    return policy


def greedy_step(problems, q, policy):
    new = operators.greedy(q[problems])
    changed = (new != policy[problems]).any(axis=(1, 2))
    policy[problems] = new
    return changed


def test_solve_by_hand():
    # Staying pays 1 a step, 1 / (1 - gamma) in all; leaving pays 5 once.
    def best(gamma):
        mdp = TabularMDP(
            [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]],
            [[1.0, 5.0], [0.0, 0.0]],
            gamma=gamma,
            terminal=[False, True],
        )
        return solve(mdp)

    patient, hasty = best(0.9), best(0.5)
    np.testing.assert_array_equal(patient.policy.probabilities[0], [1.0, 0.0])
    np.testing.assert_allclose(patient.v, [10.0, 0.0], rtol=1e-13)
    np.testing.assert_allclose(patient.q[0], [10.0, 5.0], rtol=1e-13)
    assert patient.performance == pytest.approx(10.0, rel=1e-13)
    np.testing.assert_array_equal(hasty.policy.probabilities[0], [0.0, 1.0])
    np.testing.assert_allclose(hasty.v, [5.0, 0.0], rtol=1e-13)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(st.data())
def test_solve_beats_every_policy_in_every_state(data):
    mdp = data.draw(mdps())
    best = solve(mdp)
    rival = evaluate(mdp, data.draw(policies(mdp.n_states, mdp.n_actions)))
    slack = 1e-9 * (1.0 + abs(best.v).max())
    assert (best.v >= rival.v - slack).all()
    np.testing.assert_allclose(best.v, best.q.max(axis=1), rtol=0, atol=slack)


def test_solve_beats_every_deterministic_policy():
    rng = np.random.default_rng(2)
    for _ in range(20):
        mdp = random_model(rng, n_states=4, n_actions=3, gamma=0.95)
        best = solve(mdp).v
        values = [
            evaluate(mdp, np.eye(3)[list(actions)]).v
            for actions in itertools.product(range(3), repeat=4)
        ]
        np.testing.assert_allclose(best, np.max(values, axis=0), rtol=1e-10)


def test_solve_without_discount_finds_the_shortest_way():
    # Each step costs 1; action 0 goes back to the start, action 1 goes right, the last state ends.
    n = 8
    transition = np.zeros((n, 2, n))
    transition[:, 0, 0] = 1.0
    transition[np.arange(n - 1), 1, np.arange(1, n)] = 1.0
    terminal = np.arange(n) == n - 1
    mdp = TabularMDP(transition, -np.ones((n, 2)), gamma=1.0, terminal=terminal)
    np.testing.assert_allclose(solve(mdp).v, np.arange(n) - (n - 1.0), rtol=0, atol=1e-10)


def test_solve_refuses_a_problem_that_never_ends():
    mdp = TabularMDP([[[1.0]]], [[1.0]], gamma=1.0)
    with pytest.raises(ModelError, match=r"no optimal policy was found.*never ends.*gamma < 1"):
        solve(mdp)


def test_converges_one_state_a_step():
    n = 5
    batch = ModelBatch.stack([corridor(n)])
    done = policy_iteration(batch, always(0, n), greedy_step)
    assert done.status[0] is Status.CONVERGED
    assert done.status[0].is_success
    # Every state improves once; nothing leads to the last one that does, so Q stands still then.
    assert done.n_iterations[0] == n
    np.testing.assert_array_equal(done.policy, always(1, n))
    np.testing.assert_allclose(done.v[0], 0.9 ** np.arange(n - 1, -1, -1), rtol=1e-13)
    v, q, _ = evaluate_batch(batch, done.policy)
    np.testing.assert_array_equal(done.v, v)
    np.testing.assert_array_equal(done.q, q)


def test_a_cap_is_not_a_success():
    batch = ModelBatch.stack([corridor(5)])
    done = policy_iteration(batch, always(0, 5), greedy_step, max_iterations=2)
    assert done.status[0] is Status.MAX_ITERATIONS
    assert not done.status[0].is_success
    assert "raise the cap" in done.status[0].value
    assert done.n_iterations[0] == 2
    # The values are those of the policy returned, not of the one before.
    np.testing.assert_allclose(done.v[0], [0.0, 0.0, 0.0, 0.9, 1.0], rtol=1e-13)


def test_one_step_is_a_success():
    batch = ModelBatch.stack([corridor(5)])
    done = policy_iteration(batch, always(0, 5), greedy_step, max_iterations=1)
    assert done.status[0] is Status.ONE_STEP
    assert done.status[0].is_success
    assert done.n_iterations[0] == 1
    np.testing.assert_allclose(done.v[0], [0.0, 0.0, 0.0, 0.0, 1.0], rtol=1e-13)


def test_a_fixed_point_converges_at_once():
    batch = ModelBatch.stack([corridor(5)])
    done = policy_iteration(batch, always(1, 5), greedy_step, max_iterations=1)
    assert done.status[0] is Status.CONVERGED
    assert done.n_iterations[0] == 1


def test_stops_when_q_no_longer_changes():
    # Two equal actions: this step swaps them for ever, but the values stand still.
    def swap(problems, q, policy):
        policy[problems] = policy[problems][:, :, ::-1]
        return np.ones(len(problems), dtype=bool)

    mdp = TabularMDP([[[1.0], [1.0]]], [[1.0, 1.0]], gamma=0.5)
    done = policy_iteration(ModelBatch.stack([mdp]), always(0, 1), swap)
    assert done.status[0] is Status.CONVERGED
    assert done.n_iterations[0] == 1


def loop_or_end():
    """The first action ends for 1, the second stays for 2: greed never ends."""
    return TabularMDP([[[0.0], [1.0]]], [[1.0, 2.0]], gamma=1.0)


def test_an_iterate_that_never_ends_is_undone():
    done = policy_iteration(ModelBatch.stack([loop_or_end()]), always(0, 1), greedy_step)
    assert done.status[0] is Status.NOT_TERMINATING
    assert not done.status[0].is_success
    np.testing.assert_array_equal(done.policy, always(0, 1))
    np.testing.assert_array_equal(done.v, [[1.0]])
    np.testing.assert_array_equal(done.q, [[[1.0, 3.0]]])


def test_a_start_that_never_ends_has_no_values():
    done = policy_iteration(ModelBatch.stack([loop_or_end()]), always(1, 1), greedy_step)
    assert done.status[0] is Status.NOT_TERMINATING
    assert done.n_iterations[0] == 0
    np.testing.assert_array_equal(done.policy, always(1, 1))
    assert np.isnan(done.v).all()


def test_a_batch_is_its_problems():
    rng = np.random.default_rng(6)
    models = [random_model(rng) for _ in range(40)]
    start = rng.dirichlet(np.ones(3), size=(40, 6))
    batch = ModelBatch.stack(models)
    together = policy_iteration(batch, start, greedy_step)
    given_first = policy_iteration(batch, start, greedy_step, first=evaluate_batch(batch, start))
    assert len(set(together.n_iterations)) > 1
    for place, model in enumerate(models):
        alone = policy_iteration(ModelBatch.stack([model]), start[place][None], greedy_step)
        for name in ("policy", "v", "q", "n_iterations", "status"):
            one = getattr(alone, name)[0]
            np.testing.assert_array_equal(getattr(together, name)[place], one)
            np.testing.assert_array_equal(getattr(given_first, name)[place], one)


def test_inputs_are_left_alone():
    batch = ModelBatch.stack([corridor(5)])
    start = always(0, 5)
    first = evaluate_batch(batch, start)
    kept = [part.copy() for part in first]
    policy_iteration(batch, start, greedy_step, first=first)
    np.testing.assert_array_equal(start, always(0, 5))
    for part, copy in zip(first, kept, strict=True):
        np.testing.assert_array_equal(part, copy)


@pytest.mark.parametrize("operator", REFERENCE_STEPS, ids=lambda operator: operator.name)
def test_every_operator_equals_the_reference_loop(operator):
    rng = np.random.default_rng(7)
    n_models, n_states, n_actions, epsilon = 12, 6, 4, 0.3
    models = [random_model(rng, n_states, n_actions) for _ in range(n_models)]
    baseline = rng.dirichlet(np.ones(n_actions), size=(n_models, n_states))
    errors = rng.uniform(0.1, 1.0, size=baseline.shape)
    errors[rng.random(errors.shape) < 0.2] = np.inf
    done = iterate(ModelBatch.stack(models), baseline, Step(operator, errors, epsilon))
    assert [status.is_success for status in done.status] == [True] * n_models
    # The linear program meets its budget to 1e-10 only.
    tolerance = 1e-7 if operator is Operator.SOFT_EXACT else 1e-10
    for i, model in enumerate(models):
        step = REFERENCE_STEPS[operator]
        policy, q, v, n_iterations = reference.policy_iteration(
            model.dense,
            model.reward,
            model.gamma,
            baseline[i],
            lambda q, x, i=i, step=step: step(q, baseline[i, x], errors[i, x], epsilon),
        )
        np.testing.assert_allclose(done.policy[i], policy, rtol=0, atol=tolerance)
        np.testing.assert_allclose(done.v[i], v, rtol=0, atol=tolerance)
        np.testing.assert_allclose(done.q[i], q, rtol=0, atol=tolerance)
        # Rounding may add an idle step to either loop.
        assert abs(done.n_iterations[i] - n_iterations) <= 1


def test_a_row_that_would_lose_is_not_taken():
    # From the baseline the budget reaches (0.95, 0.05) only, which is worse than the row in place.
    q = np.array([[[0.0, 1.0]]])
    baseline = np.array([[[1.0, 0.0]]])
    errors = np.ones_like(baseline)
    policy = np.array([[[0.0, 1.0]]])
    first = np.array([0])
    changed = np.array([True])
    improve_problems(
        first, int(Operator.SOFT_APPROX), first, q, baseline, errors, 0.1, errors, policy, changed
    )
    assert changed.tolist() == [False]
    np.testing.assert_array_equal(policy, [[[0.0, 1.0]]])


@pytest.mark.parametrize("cap", [0, -3, 2.5, True])
def test_the_cap_must_be_a_positive_integer(cap):
    with pytest.raises(SettingsError, match=rf"max_iterations is {cap}; expected an integer >= 1"):
        checked_cap(cap)


def test_the_cap_has_a_default():
    assert checked_cap(None) == 1_000
    assert checked_cap(7) == 7
