"""Robust values and plans: equal to linear programs and loops, and bounds over every model."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from spibb import TabularMDP, evaluate, solve
from spibb.errors import SettingsError
from spibb.mdp import evaluation
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import evaluate_batch
from spibb.mdp.mixed_action import with_mixed_action
from spibb.mdp.robust import (
    Balls,
    optimistic_evaluation,
    robust_evaluation,
    robust_planning,
    worst_expectations,
    worst_model,
)
from spibb.testing import reference_robust as slow


def random_mdp(rng, n_states=5, n_actions=3, gamma=0.8, n_successors=3, ending=0.2):
    """A model with rewards of both signs, some endings, and a terminal state."""
    transition = np.zeros((n_states, n_actions, n_states))
    for x, a in np.ndindex(n_states, n_actions):
        chosen = rng.choice(n_states, min(n_successors, n_states), replace=False)
        transition[x, a, chosen] = rng.dirichlet(np.ones(len(chosen)))
    ends = np.where(rng.random((n_states, n_actions)) < 0.5, 0.0, ending)
    terminal = np.arange(n_states) == n_states - 1
    return TabularMDP(
        transition * (1 - ends)[..., None],
        rng.normal(size=(n_states, n_actions)),
        gamma,
        terminal=terminal,
        ending=ends,
    )


def random_set(rng, **size):
    """A model, radii of all kinds, and a policy, as batches of one."""
    mdp = random_mdp(rng, **size)
    radius = rng.choice([0.0, 0.05, 0.3, 1.0, 2.0], mdp.reward.shape)
    radius[mdp.terminal] = 0.0
    policy = rng.dirichlet(np.ones(mdp.n_actions), mdp.n_states)
    policy[0] = np.eye(mdp.n_actions)[0]
    return mdp, ModelBatch.stack([mdp]), radius[None], policy[None]


@pytest.mark.parametrize(("n_states", "n_successors"), [(1, 1), (4, 2), (9, 5), (40, 30)])
def test_the_inner_minimum_equals_a_linear_program(n_states, n_successors):
    rng = np.random.default_rng(n_states)
    for k in range(8 if n_states < 40 else 2):
        mdp = random_mdp(rng, n_states=n_states, n_actions=2, n_successors=n_successors)
        batch = ModelBatch.stack([mdp])
        radius = rng.choice([0.0, 1e-6, 0.1, 0.7, 1.9, 2.0, 3.0], mdp.reward.shape)
        v = rng.normal(size=n_states) + (k % 3 - 1)
        if k % 2:
            v = np.round(v)  # ties, with ending too
        v[mdp.terminal] = 0.0
        least = worst_expectations(batch, Balls(radius[None]), v[None])[0]
        most = -worst_expectations(batch, Balls(radius[None]), -v[None])[0]
        for x, a in np.ndindex(*radius.shape):
            row = np.append(mdp.dense[x, a], mdp.ending[x, a])
            values = np.append(v, 0.0)
            assert least[x, a] == pytest.approx(
                slow.worst_by_program(row, values, radius[x, a])[0], abs=1e-9
            )
            assert most[x, a] == pytest.approx(
                -slow.worst_by_program(row, -values, radius[x, a])[0], abs=1e-9
            )
            assert slow.worst_mean(row, values, radius[x, a]) == pytest.approx(
                least[x, a], abs=1e-12
            )


def test_the_worst_rows_lie_in_the_ball_and_reach_the_minimum():
    rng = np.random.default_rng(1)
    for _ in range(20):
        mdp, batch, radius, _ = random_set(rng, n_states=6)
        v = rng.normal(size=(1, 6))
        v[:, mdp.terminal] = 0.0
        answer = worst_model(batch, Balls(radius), v)
        rows = sp.csr_array((answer.data, answer.indices, answer.indptr), shape=(18, 6)).toarray()
        full = np.append(mdp.dense, mdp.ending[..., None], axis=2)
        found = np.append(rows.reshape(6, 3, 6), answer.ending[0][..., None], axis=2)
        assert (found >= 0).all()
        np.testing.assert_allclose(found.sum(axis=2), 1.0, atol=1e-12)
        assert (np.abs(found - full).sum(axis=2) <= radius[0] + 1e-12).all()
        np.testing.assert_allclose(
            found[:, :, :-1] @ v[0], worst_expectations(batch, Balls(radius), v)[0], atol=1e-12
        )


def test_radius_zero_moves_nothing_and_radius_two_everything():
    rng = np.random.default_rng(2)
    mdp, batch, radius, _ = random_set(rng)
    v = rng.normal(size=(1, 5))
    np.testing.assert_allclose(worst_expectations(batch, Balls(0 * radius), v)[0], mdp.dense @ v[0])
    np.testing.assert_array_equal(
        worst_expectations(batch, Balls(np.full(radius.shape, 2.0)), v)[0], min(0.0, v.min())
    )


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("seed", range(4))
def test_robust_values_equal_the_slow_loop(seed, gamma):
    rng = np.random.default_rng(seed)
    mdp, batch, radius, policy = random_set(rng, gamma=gamma)
    for best, found in (
        (False, robust_evaluation(batch, Balls(radius), policy)),
        (True, optimistic_evaluation(batch, Balls(radius), policy)),
    ):
        v, q = slow.robust_values(mdp.dense, mdp.reward, gamma, radius[0], policy[0], best=best)
        np.testing.assert_allclose(found.v[0], v, atol=1e-8)
        np.testing.assert_allclose(found.q[0], q, atol=1e-8)
        assert found.error[0] < 1e-9
    plan = robust_planning(batch, Balls(radius), policy)
    v, q = slow.robust_values(mdp.dense, mdp.reward, gamma, radius[0])
    np.testing.assert_allclose(plan.values.v[0], v, atol=1e-8)
    np.testing.assert_allclose(plan.values.q[0], q, atol=1e-8)
    assert plan.is_settled.all()


def known_reach(mdp, rng):
    """Some pairs may be followed by a few states only, those of their row among them."""
    reach = {}
    for x, a in np.ndindex(*mdp.reward.shape):
        if rng.random() < 0.6:
            more = rng.choice(mdp.n_states, 2, replace=False)
            reach[x, a] = sorted({*np.flatnonzero(mdp.dense[x, a]).tolist(), *more.tolist()})
    return reach


def balls_of(radius, reach, may_end):
    """The same as data for the kernels."""
    lists = [reach.get((x, a), []) for x, a in np.ndindex(*radius.shape[1:])]
    indptr = np.concatenate([[0], np.cumsum([len(part) for part in lists])])
    indices = np.array([y for part in lists for y in part], dtype=np.int32)
    return Balls(radius, may_end, indptr, indices)


@pytest.mark.parametrize("may_end", [True, False])
@pytest.mark.parametrize("n_states", [5, 150])
def test_fewer_outcomes_equal_the_slow_loop(n_states, may_end):
    """Where nothing ends, or successors are known, mass goes to the worst of what is left."""
    for seed in range(4 if n_states == 5 else 1):
        rng = np.random.default_rng(seed)
        shape = (n_states, 2, n_states)
        transition = np.zeros(shape)
        for x, a in np.ndindex(*shape[:2]):
            transition[x, a, rng.choice(n_states, 3, replace=False)] = rng.dirichlet(np.ones(3))
        mdp = TabularMDP(transition, rng.normal(size=shape[:2]) + 1.0, 0.6)
        radius = rng.choice([0.0, 0.3, 1.0, 2.0], (1, *shape[:2]))
        policy, reach = rng.dirichlet(np.ones(2), (1, n_states)), known_reach(mdp, rng)
        batch, balls = ModelBatch.stack([mdp]), balls_of(radius, reach, may_end)
        for best, function in ((False, robust_evaluation), (True, optimistic_evaluation)):
            found = function(batch, balls, policy)
            v, q = slow.robust_values(
                mdp.dense, mdp.reward, 0.6, radius[0], policy[0], best=best, may_end=may_end,
                reach=reach, tolerance=1e-9,
            )  # fmt: skip
            np.testing.assert_allclose(found.v[0], v, atol=1e-7)
            np.testing.assert_allclose(found.q[0], q, atol=1e-7)


def test_sparse_and_dense_solves_agree(monkeypatch):
    rng = np.random.default_rng(5)
    n_states = 200
    transition = np.zeros((n_states, 3, n_states))
    for x, a in np.ndindex(n_states, 3):
        transition[x, a, rng.choice(n_states, 4, replace=False)] = rng.dirichlet(np.ones(4))
    batch = ModelBatch.stack([TabularMDP(transition, rng.normal(size=(n_states, 3)), 0.95)])
    balls = Balls(rng.choice([0.0, 0.3, 2.0], batch.shape))
    policy = rng.dirichlet(np.ones(3), (1, n_states))
    dense = robust_evaluation(batch, balls, policy)
    monkeypatch.setattr(evaluation, "LARGEST_DENSE", 100)
    sparse = robust_evaluation(batch, balls, policy)
    np.testing.assert_allclose(sparse.v, dense.v, atol=1e-9)
    np.testing.assert_allclose(sparse.q, dense.q, atol=1e-9)
    assert sparse.error[0] < 1e-8


def test_balls_of_one_problem_and_with_a_free_action():
    rng = np.random.default_rng(3)
    parts = [random_set(rng) for _ in range(3)]
    reaches = [known_reach(mdp, rng) for mdp, *_ in parts]
    apart = [balls_of(part[2], reach, True) for part, reach in zip(parts, reaches, strict=True)]
    offsets = np.cumsum([0] + [len(one.reach_indices) for one in apart])
    together = Balls(
        np.concatenate([one.radius for one in apart]), True,
        np.append(np.concatenate([one.reach_indptr[:-1] + offsets[k] for k, one in
        enumerate(apart)]),
                  offsets[-1]),
        np.concatenate([one.reach_indices for one in apart]),
    )  # fmt: skip
    for k, one in enumerate(apart):
        np.testing.assert_array_equal(together.of(k).reach_indptr, one.reach_indptr)
        np.testing.assert_array_equal(together.of(k).reach_indices, one.reach_indices)
    wider = together.with_free_action()
    assert wider.radius.shape == (3, 5, 4)
    for k, x, a in np.ndindex(3, 5, 4):
        pair = (k * 5 + x) * 4 + a
        found = wider.reach_indices[wider.reach_indptr[pair] : wider.reach_indptr[pair + 1]]
        assert found.tolist() == ([] if a == 3 else reaches[k].get((x, a), []))


def test_robust_values_bound_every_model_and_are_reached_by_one():
    rng = np.random.default_rng(3)
    for _ in range(10):
        mdp, batch, radius, policy = random_set(rng)
        worst = robust_evaluation(batch, Balls(radius), policy)
        best = optimistic_evaluation(batch, Balls(radius), policy)
        for model in slow.sample_models(mdp, radius[0], rng, 40):
            v = evaluate(model, policy[0]).v
            assert (v >= worst.v[0] - 1e-9).all()
            assert (v <= best.v[0] + 1e-9).all()
        reached, _, _ = evaluate_batch(worst_model(batch, Balls(radius), worst.v), policy)
        np.testing.assert_allclose(reached, worst.v, atol=1e-10)
        reached, _, _ = evaluate_batch(worst_model(batch, Balls(radius), -best.v), policy)
        np.testing.assert_allclose(reached, best.v, atol=1e-10)


def test_the_plan_is_the_best_of_all_deterministic_policies():
    rng = np.random.default_rng(4)
    for _ in range(10):
        _, batch, radius, policy = random_set(rng, n_states=4, n_actions=2, gamma=0.9)
        plan = robust_planning(batch, Balls(radius), policy)
        every = np.array([np.eye(2)[list(rows)] for rows in itertools.product((0, 1), repeat=4)])
        values = np.array(
            [robust_evaluation(batch, Balls(radius), one[None]).v[0] for one in every]
        )
        np.testing.assert_allclose(plan.values.v[0], values.max(axis=0), atol=1e-9)


def test_radius_zero_is_plain_planning():
    rng = np.random.default_rng(5)
    for _ in range(5):
        mdp, batch, radius, policy = random_set(rng, n_states=8)
        plan = robust_planning(batch, Balls(0 * radius), policy)
        np.testing.assert_allclose(plan.values.v[0], solve(mdp).v, atol=1e-9)
        np.testing.assert_allclose(
            robust_evaluation(batch, Balls(0 * radius), policy).v[0],
            evaluate(mdp, policy[0]).v,
            atol=1e-9,
        )


def test_a_batch_equals_its_problems_one_by_one():
    rng = np.random.default_rng(6)
    parts = [random_set(rng) for _ in range(40)]
    batch = ModelBatch.stack([mdp for mdp, *_ in parts])
    radius, policy = (np.concatenate([part[k] for part in parts]) for k in (2, 3))
    together = robust_planning(batch, Balls(radius), policy)
    best = optimistic_evaluation(batch, Balls(radius), policy)
    for k, (_, one, r, pi) in enumerate(parts):
        alone = robust_planning(one, Balls(r), pi)
        np.testing.assert_array_equal(together.policy[k], alone.policy[0])
        np.testing.assert_array_equal(together.values.v[k], alone.values.v[0])
        np.testing.assert_array_equal(best.q[k], optimistic_evaluation(one, Balls(r), pi).q[0])


def test_large_models_take_another_way_to_the_same_values():
    """States that end at once change nothing, but make the model too large for own elimination."""
    rng = np.random.default_rng(7)
    mdp, small, radius, policy = random_set(rng, n_states=20, gamma=0.9)
    n_more = 130
    transition = np.zeros((20 + n_more, 3, 20 + n_more))
    transition[:20, :, :20] = mdp.dense
    rest = np.zeros((n_more, 3))
    large = ModelBatch.stack([
        TabularMDP(
            transition,
            np.vstack([mdp.reward, rest]),
            0.9,
            terminal=np.append(mdp.terminal, np.ones(n_more, dtype=bool)),
            ending=np.vstack([mdp.ending, rest + 1.0]),
        )
    ])  # fmt: skip
    wide = np.concatenate([radius, rest[None]], axis=1)
    start = np.concatenate([policy, np.full((1, n_more, 3), 1 / 3)], axis=1)
    for function in (robust_evaluation, optimistic_evaluation):
        found, expected = (
            function(large, Balls(wide), start),
            function(small, Balls(radius), policy),
        )
        np.testing.assert_allclose(found.v[0, :20], expected.v[0], atol=1e-10)
        np.testing.assert_allclose(found.q[0, :20], expected.q[0], atol=1e-10)
        assert found.error[0] < 1e-9
    plan, expected = (
        robust_planning(large, Balls(wide), start),
        robust_planning(small, Balls(radius), policy),
    )
    np.testing.assert_allclose(plan.values.v[0, :20], expected.values.v[0], atol=1e-10)
    np.testing.assert_array_equal(plan.policy[0, :20], expected.policy[0])
    assert plan.n_iterations[0] == expected.n_iterations[0]


def test_a_cap_on_planning_is_told():
    rng = np.random.default_rng(8)
    _, batch, radius, policy = random_set(rng, n_states=8)
    plan = robust_planning(batch, Balls(radius), policy, max_iterations=1)
    assert not plan.is_settled.any()


def test_the_mixed_action_follows_the_policy():
    rng = np.random.default_rng(9)
    mdp, batch, _, policy = random_set(rng)
    paid = (policy * batch.reward).sum(axis=2)
    more = with_mixed_action(batch, policy, paid)
    follow = np.zeros((1, 5, 4))
    follow[:, :, -1] = 1.0
    v, _, _ = evaluate_batch(more, follow)
    np.testing.assert_allclose(v[0], evaluate(mdp, policy[0]).v, atol=1e-12)
    np.testing.assert_allclose(
        more.ending[0, :, -1], (policy[0] * mdp.ending).sum(axis=1), atol=1e-12
    )


def test_gamma_one_is_refused():
    _, batch, radius, policy = random_set(np.random.default_rng(10), gamma=1.0)
    for function in (robust_evaluation, optimistic_evaluation, robust_planning):
        with pytest.raises(SettingsError, match="gamma = 1; expected gamma < 1"):
            function(batch, Balls(radius), policy)
