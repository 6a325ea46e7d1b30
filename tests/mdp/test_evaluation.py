"""Exact evaluation: closed forms, the slow twin, every solver, ends and discount one."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from spibb.errors import PolicyError
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import evaluate, evaluate_batch, update_values
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy
from spibb.testing import reference
from spibb.testing.strategies import mdps, policies

# One size a solver: compiled elimination, LAPACK, Krylov steps.
SIZES = [10, 11, 150, 2100]


def random_problem(seed, n_states, n_actions, n_successors=4, gamma=0.95):
    """A sparse model with some ends, and a policy."""
    rng = np.random.default_rng(seed)
    n_pairs = n_states * n_actions
    n_successors = min(n_successors, n_states)
    columns = np.argsort(rng.random((n_pairs, min(n_states, 50))), axis=1)[:, :n_successors]
    columns = (columns + rng.integers(n_states, size=(n_pairs, 1))) % n_states
    ending = np.where(rng.random(n_pairs) < 0.2, 0.3, 0.0)
    data = rng.dirichlet(np.ones(n_successors), size=n_pairs) * (1 - ending)[:, None]
    rows = sp.csr_array(
        (data.ravel(), (np.repeat(np.arange(n_pairs), n_successors), columns.ravel())),
        shape=(n_pairs, n_states),
    )
    mdp = TabularMDP(
        rows,
        rng.normal(size=(n_states, n_actions)),
        gamma,
        terminal=rng.random(n_states) < 0.05,
        ending=ending.reshape(n_states, n_actions),
    )
    return mdp, TabularPolicy(rng.dirichlet(np.ones(n_actions), size=n_states))


def random_walk(n):
    """A fair walk on 0..n that pays 1 a step until it falls off either end."""
    inner = np.arange(1, n)
    rows = np.repeat(inner, 2)
    columns = np.stack([inner - 1, inner + 1], axis=1).ravel()
    matrix = sp.csr_array((np.full(len(rows), 0.5), (rows, columns)), shape=(n + 1, n + 1))
    terminal = np.zeros(n + 1, dtype=bool)
    terminal[[0, n]] = True
    return TabularMDP(matrix, np.ones((n + 1, 1)), gamma=1.0, terminal=terminal)


def test_a_state_that_pays_for_ever():
    mdp = TabularMDP([[[1.0]]], [[3.0]], gamma=0.75)
    result = evaluate(mdp, [[1.0]])
    assert result.v == pytest.approx([12.0], rel=1e-14)
    assert result.q == pytest.approx(np.array([[12.0]]), rel=1e-14)
    assert result.performance == pytest.approx(12.0, rel=1e-14)


def test_leaving_with_some_probability():
    # Staying pays 1, leaving nothing: V = p (1 + gamma V), so V = p / (1 - gamma p).
    mdp = TabularMDP(
        [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]],
        [[1.0, 0.0], [7.0, 7.0]],
        gamma=0.9,
        terminal=[False, True],
    )
    v = 0.6 / (1 - 0.9 * 0.6)
    result = evaluate(mdp, [[0.6, 0.4], [0.5, 0.5]])
    np.testing.assert_allclose(result.v, [v, 0.0], rtol=1e-14)
    np.testing.assert_allclose(result.q, [[1 + 0.9 * v, 0.0], [0.0, 0.0]], rtol=1e-14)


def test_a_chain_of_three_weighted_by_the_first_state():
    step = np.zeros((3, 1, 3))
    step[0, 0, 1] = step[1, 0, 2] = 1.0
    mdp = TabularMDP(step, [[1.0], [2.0], [4.0]], gamma=0.5, initial=[0.5, 0.25, 0.25])
    result = evaluate(mdp, np.ones((3, 1)))
    np.testing.assert_allclose(result.v, [3.0, 4.0, 4.0], rtol=1e-15)
    assert result.performance == pytest.approx(3.5, rel=1e-15)


def test_an_episode_that_ends_halfway():
    # V = 1 + gamma V / 2.
    mdp = TabularMDP([[[0.5]]], [[1.0]], gamma=0.8, ending=[[0.5]])
    assert evaluate(mdp, [[1.0]]).v == pytest.approx([1 / 0.6], rel=1e-14)


def test_gamma_zero_is_the_reward():
    mdp, policy = random_problem(1, 7, 3, gamma=0.0)
    result = evaluate(mdp, policy)
    np.testing.assert_array_equal(result.q, mdp.reward)
    np.testing.assert_allclose(result.v, (policy.probabilities * mdp.reward).sum(1), rtol=1e-14)


@settings(deadline=None, derandomize=True, max_examples=150)
@given(st.data())
def test_equals_the_reference(data):
    mdp = data.draw(mdps())
    policy = data.draw(policies(mdp.n_states, mdp.n_actions))
    result = evaluate(mdp, policy)
    v, q = reference.evaluate(mdp.dense, mdp.reward, mdp.gamma, policy.probabilities)
    scale = 1.0 + abs(v).max()
    np.testing.assert_allclose(result.v, v, rtol=0, atol=1e-11 * scale)
    np.testing.assert_allclose(result.q, q, rtol=0, atol=1e-11 * scale)
    assert result.performance == pytest.approx(float(mdp.initial @ v), abs=1e-11 * scale)
    assert (result.v[mdp.terminal] == 0.0).all()


@pytest.mark.parametrize("n_states", [1, 2, 3, 127, 128, 129, 200, 2100])
def test_every_solver_equals_the_reference(n_states):
    mdp, policy = random_problem(n_states, n_states, 2)
    result = evaluate(mdp, policy)
    v, q = reference.evaluate(mdp.dense, mdp.reward, mdp.gamma, policy.probabilities)
    np.testing.assert_allclose(result.v, v, rtol=0, atol=1e-10)
    np.testing.assert_allclose(result.q, q, rtol=0, atol=1e-10)


def test_many_states_with_many_successors():
    # More than a tenth of the entries: dense factors whatever the size.
    n = 2001
    rng = np.random.default_rng(4)
    rows = rng.random((n, 1, n))
    rows /= rows.sum(axis=2, keepdims=True)
    mdp = TabularMDP(rows, rng.normal(size=(n, 1)), gamma=0.9)
    v = evaluate(mdp, np.ones((n, 1))).v
    np.testing.assert_allclose(v, mdp.reward[:, 0] + 0.9 * rows[:, 0] @ v, rtol=0, atol=1e-11)


@pytest.mark.parametrize("n", SIZES)
def test_gamma_one_that_ends(n):
    # Expected duration of the gambler's ruin.
    x = np.arange(n + 1)
    result = evaluate(random_walk(n), np.ones((n + 1, 1)))
    np.testing.assert_allclose(result.v, x * (n - x), rtol=1e-9)
    assert result.performance == pytest.approx((x * (n - x)).sum() / (n - 1), rel=1e-9)


@pytest.mark.parametrize("n_states", SIZES)
def test_gamma_one_that_does_not_end(n_states):
    # The first action ends, the second stays where it is; the last state never takes the first.
    stay = sp.csr_array(
        (np.ones(n_states), (2 * np.arange(n_states) + 1, np.arange(n_states))),
        shape=(2 * n_states, n_states),
    )
    mdp = TabularMDP(stay, np.ones((n_states, 2)), gamma=1.0)
    policy = np.full((n_states, 2), 0.5)
    np.testing.assert_allclose(evaluate(mdp, policy).v, 2.0, rtol=1e-12)
    policy[-1] = [0.0, 1.0]
    result = evaluate(mdp, policy)
    assert np.isnan(result.v).all()
    assert np.isnan(result.q).all()
    assert np.isnan(result.performance)


@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix])
def test_dense_and_sparse_are_the_same(form):
    mdp, policy = random_problem(3, 20, 3)
    p = mdp.dense
    parts = (mdp.reward, mdp.gamma, mdp.initial, mdp.terminal, mdp.ending)
    dense = evaluate(TabularMDP(p, *parts), policy)
    sparse = evaluate(TabularMDP(form(p.reshape(60, 20)), *parts), policy)
    np.testing.assert_allclose(sparse.v, dense.v, rtol=0, atol=1e-14)
    np.testing.assert_allclose(sparse.q, dense.q, rtol=0, atol=1e-14)
    assert sparse.performance == pytest.approx(dense.performance, abs=1e-14)


@pytest.mark.parametrize(("n_models", "n_states"), [(3, 8), (70, 8), (3, 140)])
def test_a_batch_is_its_problems(n_models, n_states):
    problems = [random_problem(seed, n_states, 2) for seed in range(n_models)]
    batch = ModelBatch.stack([mdp for mdp, _ in problems])
    policy = np.stack([policy.probabilities for _, policy in problems])
    v, q, ends = evaluate_batch(batch, policy)
    assert ends.all()
    for place, (mdp, one) in enumerate(problems):
        single = evaluate(mdp, one)
        np.testing.assert_array_equal(v[place], single.v)
        np.testing.assert_array_equal(q[place], single.q)


@pytest.mark.parametrize("n_states", [8, 140])
def test_updating_some_problems_leaves_the_others_alone(n_states):
    problems = [random_problem(seed, n_states, 2) for seed in range(3)]
    batch = ModelBatch.stack([mdp for mdp, _ in problems])
    policy = np.stack([policy.probabilities for _, policy in problems])
    v, q, _ = evaluate_batch(batch, policy)
    old_v, old_q = v.copy(), q.copy()
    new = policy[:, :, ::-1].copy()
    chosen = np.array([2, 0])
    ends, change, scale = update_values(batch, new, chosen, v, q)
    assert ends.tolist() == [True, True]
    new_v, new_q, _ = evaluate_batch(batch, new)
    np.testing.assert_array_equal(v, [new_v[0], old_v[1], new_v[2]])
    np.testing.assert_array_equal(q, [new_q[0], old_q[1], new_q[2]])
    norms = np.linalg.norm((new_q - old_q)[chosen], axis=(1, 2))
    np.testing.assert_allclose(change, norms, rtol=1e-12)
    np.testing.assert_allclose(scale, np.linalg.norm(new_q[chosen], axis=(1, 2)), rtol=1e-12)


def test_a_batch_tells_which_policies_end():
    mdp = TabularMDP([[[1.0], [0.0]]], [[1.0, 1.0]], gamma=1.0)
    policy = np.array([[[0.0, 1.0]], [[1.0, 0.0]], [[0.5, 0.5]]])
    v, q, ends = evaluate_batch(ModelBatch.stack([mdp] * 3), policy)
    assert ends.tolist() == [True, False, True]
    np.testing.assert_array_equal(v, [[1.0], [np.nan], [2.0]])
    np.testing.assert_array_equal(q, [[[2.0, 1.0]], [[np.nan, np.nan]], [[3.0, 1.0]]])


def test_scaling_rewards_scales_values():
    mdp, policy = random_problem(8, 12, 3)
    double = evaluate(mdp.with_reward(2.0 * mdp.reward), policy)
    np.testing.assert_array_equal(double.v, 2.0 * evaluate(mdp, policy).v)


def test_the_policy_must_fit_the_model():
    mdp = TabularMDP([[[1.0]]], [[1.0]], gamma=0.5)
    with pytest.raises(PolicyError, match=r"policy of shape \(1, 2\); expected \(1, 1\)"):
        evaluate(mdp, [[0.5, 0.5]])
    with pytest.raises(PolicyError, match=r"sum to 0\.9"):
        evaluate(mdp, [[0.9]])
