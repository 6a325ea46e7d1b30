"""Large models: the same answers as dense ones within the stated error, which really bounds."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from spibb import TabularMDP, TabularPolicy, evaluate, memory, solve
from spibb.mdp import evaluation
from spibb.mdp.batch import ModelBatch
from spibb.mdp.chain import Chain
from spibb.mdp.incomplete_lu import IncompleteLU
from spibb.mdp.krylov import bicgstab, solve_chain
from spibb.mdp.large import value_error
from spibb.mdp.visits import discounted_visits
from spibb.memory import TooLargeError, check_fits
from spibb.progress import watched
from spibb.testing import reference
from spibb.testing.strategies import mdps, policies

# Rounding of the dense solution that the stated error is held against.
DENSE = 1e-13


@pytest.fixture
def all_large(monkeypatch):
    """Let every model count as large."""
    monkeypatch.setattr(evaluation, "LARGEST_DENSE", 0)


def corridor(n_states, gamma, seed=0, n_actions=3, end=0.0):
    """States in a row under shuffled names, of which each step reaches two to either side."""
    rng = np.random.default_rng(seed)
    name = rng.permutation(n_states)
    place = np.argsort(name)
    near = np.clip(np.repeat(place, n_actions)[:, None] + np.arange(-2, 3), 0, n_states - 1)
    p = rng.dirichlet(np.ones(5), n_states * n_actions) * (1.0 - end)
    rows = np.repeat(np.arange(n_states * n_actions), 5)
    matrix = sp.csr_array((p.ravel(), (rows, name[near].ravel())), (p.shape[0], n_states))
    shape = (n_states, n_actions)
    return TabularMDP(matrix, rng.random(shape), gamma, ending=np.full(shape, end))


def random_policy(mdp, seed=1):
    rng = np.random.default_rng(seed)
    return TabularPolicy(rng.dirichlet(np.ones(mdp.n_actions), mdp.n_states))


def exact(mdp, policy):
    """V by a dense solve, refined once in extended precision."""
    p = np.einsum("xay,xa->xy", mdp.dense, policy.probabilities)
    r = (policy.probabilities * mdp.reward).sum(axis=1)
    matrix = np.eye(mdp.n_states) - mdp.gamma * p
    v = np.linalg.solve(matrix, r)
    left = r.astype(np.longdouble) - (matrix.astype(np.longdouble) @ v.astype(np.longdouble))
    return v + np.linalg.solve(matrix, left.astype(np.float64))


@settings(max_examples=60, deadline=None)
@given(mdp=mdps(), data=st.data())
def test_values_are_those_of_the_slow_loops_within_the_stated_error(mdp, data):
    policy = data.draw(policies(mdp.n_states, mdp.n_actions))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "LARGEST_DENSE", 0)
        found = evaluate(mdp, policy)
    v, q = reference.evaluate(mdp.dense, mdp.reward, mdp.gamma, policy.probabilities)
    slack = found.error + DENSE * max(1.0, np.abs(v).max()) / (1.0 - mdp.gamma)
    assert np.abs(found.v - v).max() <= slack
    assert np.abs(found.q - q).max() <= slack
    assert found.error <= 1e-9 * max(1.0, np.abs(v).max()) / (1.0 - mdp.gamma)


@settings(max_examples=40, deadline=None)
@given(mdp=mdps())
def test_optimal_values_are_those_of_the_dense_plan(mdp):
    dense = solve(mdp)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "LARGEST_DENSE", 0)
        found = solve(mdp)
    scale = max(1.0, np.abs(dense.v).max())
    assert np.abs(found.v - dense.v).max() <= found.error + 1e-10 * scale
    assert found.error <= 1e-9 * scale / (1.0 - mdp.gamma)


@pytest.mark.parametrize("gamma", [0.99, 0.9999])
def test_a_shuffled_corridor(all_large, gamma):
    mdp = corridor(700, gamma)
    policy = random_policy(mdp)
    found = evaluate(mdp, policy)
    assert np.abs(found.v - exact(mdp, policy)).max() <= found.error < 1e-6
    best = solve(mdp)
    off = np.abs(best.v - exact(mdp, best.policy)).max()
    assert off <= best.error < 1e-9 * np.abs(best.v).max()
    assert (best.q.max(axis=1) - best.v).max() <= best.error


@pytest.mark.parametrize("gamma", [0.9, 0.9999])
def test_the_stated_error_bounds_whatever_is_wrong(gamma):
    """Errors that residuals show least: smooth ones, those of a single state, rounding itself."""
    mdp = corridor(300, gamma, seed=3)
    policy, batch = random_policy(mdp), ModelBatch.stack([mdp])
    v = exact(mdp, policy)
    rng = np.random.default_rng(0)
    p = np.einsum("xay,xa->xy", mdp.dense, policy.probabilities)
    slowest = np.linalg.matrix_power(p, 4096) @ rng.random(300)
    for size in (1e-12, 1e-6, 1.0):
        for wrong in (np.ones(300), slowest, np.eye(300)[7], rng.normal(size=300), -np.ones(300)):
            there = v + size * wrong
            q = mdp.reward + gamma * (mdp.dense @ there)
            stated = value_error(batch, 0, policy.probabilities, there, q)
            assert np.abs(there - v).max() <= stated
    # A constant is wrong for ever: there the bound is reached.
    q = mdp.reward + gamma * (mdp.dense @ (v + 1.0))
    assert value_error(batch, 0, policy.probabilities, v + 1.0, q) == pytest.approx(1.0, rel=1e-6)


def test_without_a_discount_expected_lengths_bound_the_error(all_large):
    mdp = corridor(400, 1.0, seed=5, end=0.001)
    policy, batch = random_policy(mdp), ModelBatch.stack([mdp])
    v = exact(mdp, policy)
    found = evaluate(mdp, policy)
    assert np.abs(found.v - v).max() <= found.error < 1e-6
    for wrong in (np.ones(400), np.eye(400)[3], np.random.default_rng(0).normal(size=400)):
        there = v + 0.01 * wrong
        q = mdp.reward + mdp.dense @ there
        stated = value_error(batch, 0, policy.probabilities, there, q)
        assert np.abs(there - v).max() <= stated
        assert stated <= 1e3 * 0.01 * np.abs(wrong).max() * 3.0


def test_a_policy_that_never_ends_has_no_values(all_large):
    rows = np.zeros((3, 2, 3))
    rows[0, 0, 1] = rows[1, :, 0] = rows[0, 1, 2] = rows[2, :, 2] = 1.0
    mdp = TabularMDP(rows, np.ones((3, 2)), 1.0, terminal=[False, False, True])
    endless = evaluate(mdp, [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    assert np.isnan(endless.v).all()
    assert np.isnan(endless.error)
    ends = evaluate(mdp, [[0.5, 0.5], [1.0, 0.0], [1.0, 0.0]])
    assert np.abs(ends.v - [3.0, 4.0, 0.0]).max() <= ends.error < 1e-9


def test_a_walk_without_a_discount_that_hardly_ends_says_how_little_is_known(all_large):
    n = 3_000
    matrix = sp.csr_array(sp.diags_array([0.5, 0.5], offsets=[-1, 1], shape=(n, n)))
    ending = np.zeros((n, 1))
    ending[[0, -1]] = 0.5
    found = evaluate(TabularMDP(matrix, np.ones((n, 1)), 1.0, ending=ending), np.ones((n, 1)))
    x = np.arange(1.0, n + 1)
    assert np.abs(found.v - x * (n + 1 - x)).max() <= found.error < 1.0


def test_single_and_unreachable_states(all_large):
    one = TabularMDP([[[1.0]]], [[3.0]], gamma=0.75)
    assert evaluate(one, [[1.0]]).v == pytest.approx([12.0], rel=1e-14)
    assert solve(one).v == pytest.approx([12.0], rel=1e-14)
    # States that only stay are divided out: no step is needed.
    alone = TabularMDP(sp.eye_array(5_000).tocsr(), np.ones((5_000, 1)), 0.9999)
    heard = []
    with watched(heard.append):
        found = evaluate(alone, np.ones((5_000, 1)))
    assert not heard
    assert np.abs(found.v - 1e4).max() <= found.error < 1e-4


def test_visits_are_those_of_a_dense_solve(all_large):
    mdp = corridor(500, 0.999)
    policy = random_policy(mdp).probabilities.copy()
    p = np.einsum("xay,xa->xy", mdp.dense, policy)
    found = discounted_visits(ModelBatch.stack([mdp]), 0, policy)
    wanted = np.linalg.solve(np.eye(500) - 0.999 * p.T, mdp.initial)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def test_the_factor_of_a_corridor_is_nearly_exact_whatever_its_numbering():
    mdp = corridor(5_000, 0.9999)
    policy = random_policy(mdp).probabilities
    chain = Chain.of(ModelBatch.stack([mdp]), 0, policy)
    x, r = np.zeros(5_000), np.empty(5_000)
    chain.residual(x, r)
    assert bicgstab(chain, x, r, 1e-9, 5, IncompleteLU.of(chain)) <= 3
    assert chain.residual(x, r) <= 1e-8


def test_values_do_not_depend_on_the_number_of_threads(monkeypatch):
    mdp = corridor(40_000, 0.99, n_actions=2)
    policy, found = random_policy(mdp), []
    for n_threads in ("1", "2"):
        monkeypatch.setenv("SPIBB_THREADS", n_threads)
        found.append(evaluate(mdp, policy).v)
    np.testing.assert_array_equal(*found)


def test_a_start_nearby_saves_steps():
    mdp = corridor(3_000, 0.9)
    chain = Chain.of(ModelBatch.stack([mdp]), 0, random_policy(mdp).probabilities)
    v, heard = np.zeros(3_000), []
    with watched(heard.append):
        solve_chain(chain, v)
        n_cold = len(heard)
        solve_chain(chain, v)
    assert n_cold > 0
    assert len(heard) == n_cold


def test_what_does_not_fit_is_said_before_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 2**30)
    check_fits(2**29, "half of it")
    with pytest.raises(TooLargeError, match=r"need 4.0 GiB; expected at most the 1.0 GiB"):
        check_fits(2**32, "all of it")
    mdp = corridor(3_000, 0.9)
    monkeypatch.setattr(memory, "available_bytes", lambda: 100)
    monkeypatch.setattr(memory, "_SMALL", 0)
    with pytest.raises(TooLargeError, match="transitions that a policy can make"):
        evaluate(mdp, random_policy(mdp))
    with pytest.raises(TooLargeError, match="3,000 x 3 x 3,000"):
        _ = mdp.dense


ENDLESS = """
import numpy as np, scipy.sparse as sp
from spibb import TabularMDP, solve
n, rng = 60_000, np.random.default_rng(0)
rows = sp.csr_array((np.full(n * 20, 0.2), rng.integers(0, n, n * 20), np.arange(0, n * 20 + 1, 5)),
                    shape=(n * 4, n))
mdp = TabularMDP(rows, rng.random((n, 4)), 0.999)
solve(mdp)
print("ready", flush=True)
while True:
    solve(mdp)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGINT is sent as POSIX has it")
def test_ctrl_c_ends_a_search_at_once():
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=30)
    assert process.returncode != 0
    assert b"KeyboardInterrupt" in told
