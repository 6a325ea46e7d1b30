"""Policies of large models: evaluated by Krylov steps, with a bound on the error of what comes out.

See docs/large-models.md for the bounds, for gamma = 1 too, and for what was measured.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.mdp.batch import ModelBatch
from spibb.mdp.chain import Chain, blocks, over_blocks
from spibb.mdp.krylov import solve_chain

Array = NDArray[np.float64]

# A search has settled when values change by less than this share of their size.
TOLERANCE = 1e-10
_EPS = float(np.finfo(np.float64).eps)
# Of the expected number of steps to the end, the approximation must explain so much of each step.
_EXPLAINED = 0.5


def update_large(
    batch: ModelBatch, problem: int, policy: Array, v: Array, q: Array
) -> tuple[bool, float, float]:
    """Evaluate the policy of one large problem, in place.

    Args:
        batch: Models.
        problem: Which of them.
        policy: Shape (S, A).
        v: Values to start from, NaN where there are none; overwritten. Shape (S,).
        q: Values of pairs, overwritten; shape (S, A).

    Returns:
        Whether the policy ends (values of one that does not are left alone), the largest change in
        q (of a million states, a norm would hide one), and the largest q, or more: so much that
        changes within the error of the values are below `TOLERANCE` of it.
    """
    chain = Chain.of(batch, problem, policy)
    if batch.gamma == 1.0 and not _ends(batch, problem, policy, chain):
        return False, 0.0, 0.0
    v[:] = np.where(np.isfinite(v), v, chain.reward)
    solve_chain(chain, v)
    moved, size = _update_q(batch, problem, v, q)
    if batch.gamma < 1.0:
        error = _residual(batch, problem, policy, v, q) / (1.0 - batch.gamma)
        size = max(size, 2.0 * error / TOLERANCE)
    return True, moved, size


def _update_q(batch: ModelBatch, problem: int, v: Array, q: Array) -> tuple[float, float]:
    """Write Q; return its largest change and its largest size."""
    bounds = blocks(len(v))
    found, model = np.zeros((len(bounds) - 1, 2)), model_rows(batch, problem)
    over_blocks(lambda part: _back_up(part, bounds, *model, v, q, found), bounds)
    moved, size = found.max(axis=0).tolist()
    return moved, size


def value_error(batch: ModelBatch, problem: int, policy: Array, v: Array, q: Array) -> float:
    """Bound how far v and q, one backup of it, are from the values of the policy, in any state.

    Whatever made them: the residual of v in the model bounds its error, rounding included. Infinite
    where gamma = 1 and the policy hardly ends; NaN where it does not end.
    """
    worst = _residual(batch, problem, policy, v, q)
    if batch.gamma < 1.0:
        return worst / (1.0 - batch.gamma)
    if not np.isfinite(worst):
        return float("nan")
    return worst * _longest_way(batch, problem, policy)


def visits_large(batch: ModelBatch, problem: int, policy: Array) -> Array:
    """Return the expected discounted visits of every state, shape (S,)."""
    # I - gamma P = D (I - C), so that (I - C^T) z = p_0 with z = D d.
    chain = Chain.of(batch, problem, policy)
    back = sp.csr_array(chain.matrix.T)
    turned = Chain(
        back.indptr.astype(np.int64), back.indices.astype(np.int32), back.data,
        batch.initial[problem].copy(), chain.staying, chain.contraction, chain.n_terms,
    )  # fmt: skip
    z = turned.reward.copy()
    solve_chain(turned, z, what="visits")
    return np.asarray(z / chain.staying)


def _longest_way(batch: ModelBatch, problem: int, policy: Array) -> float:
    """Return a bound on the expected number of steps to the end, from any state.

    W > 0 with W - P_pi W >= c > 0 everywhere proves that every way ends, and that its expected
    length is at most W / c: any W that passes will do, rounding counted against it.
    """
    chain = Chain.of(batch, problem, policy)
    steps = chain.paying(np.ones(chain.n_states))
    w = steps.reward.copy()
    solve_chain(steps, w, goal=0.1, what="steps to the end")
    r = np.empty(chain.n_states)
    steps.residual(w, r)
    # In units of the model: W - P W = 1 - d r.
    rounding = (chain.n_terms + 8) * _EPS * float(np.abs(w).max())
    explained = 1.0 - float((chain.staying * r).max()) - rounding
    if not (explained >= _EXPLAINED and w.min() > 0.0):
        return float("inf")
    return float(w.max()) / explained


def model_rows(batch: ModelBatch, problem: int) -> tuple[Any, ...]:
    """Return what the loops take of one model."""
    _, n_states, n_actions = batch.shape
    first = problem * n_states * n_actions
    indptr = batch.indptr[first : first + n_states * n_actions + 1]
    return indptr, batch.indices, batch.data, batch.reward[problem], float(batch.gamma)


def _residual(batch: ModelBatch, problem: int, policy: Array, v: Array, q: Array) -> float:
    """Return max |sum_a pi (R + gamma P v) - v|, with what rounding may hide of it."""
    bounds = blocks(len(v))
    found = np.zeros(len(bounds) - 1)
    over_blocks(lambda part: _compare(part, bounds, policy, v, q, found), bounds)
    return float(found.max()) + rounding(batch, problem, v)


def rounding(batch: ModelBatch, problem: int, v: Array) -> float:
    """Bound how far a computed residual of v may be from the exact one: |sum| gamma_n |terms|."""
    indptr = model_rows(batch, problem)[0]
    n_terms = int(np.diff(indptr).max()) + batch.shape[2] + 4
    size = float(np.abs(v).max()) + float(np.abs(batch.reward[problem]).max())
    return 2.0 * n_terms * _EPS * size


def _ends(batch: ModelBatch, problem: int, policy: Array, chain: Chain) -> bool:
    """Tell whether an end is reached from every state, by a search against the arrows."""
    may_end = ((policy > 0.0) & (batch.ending[problem] > 0.0)).any(axis=1)
    back = sp.csr_array(chain.matrix.T)
    found = may_end.copy()
    _reach(np.flatnonzero(may_end), back.indptr.astype(np.int64), back.indices, found)
    return bool(found.all())


@jit
def _reach(first, indptr, indices, found):  # type: ignore[no-untyped-def]
    """Mark what can be reached from some states."""
    queue = np.empty(len(found), np.int64)
    queue[: len(first)] = first
    head, tail = 0, len(first)
    while head < tail:
        x = queue[head]
        head += 1
        for k in range(indptr[x], indptr[x + 1]):
            y = indices[k]
            if not found[y]:
                found[y] = True
                queue[tail] = y
                tail += 1


@jit
def _back_up(chosen, bounds, indptr, indices, data, reward, gamma, v, q, found):  # type: ignore[no-untyped-def]
    """Write Q = R + gamma P V, its largest change and its largest size."""
    n_actions = reward.shape[1]
    for block in chosen:
        moved, size = 0.0, 0.0
        for x in range(bounds[block], bounds[block + 1]):
            for a in range(n_actions):
                pair = x * n_actions + a
                total = 0.0
                for k in range(indptr[pair], indptr[pair + 1]):
                    total += data[k] * v[indices[k]]
                value = reward[x, a] + gamma * total
                moved = max(moved, abs(value - q[x, a]))
                size = max(size, abs(value))
                q[x, a] = value
        found[block, 0], found[block, 1] = moved, size


@jit
def _compare(chosen, bounds, policy, v, q, found):  # type: ignore[no-untyped-def]
    """Write the largest |sum_a pi q - v|, NaN where there is one."""
    for block in chosen:
        worst = 0.0
        for x in range(bounds[block], bounds[block + 1]):
            total = -v[x]
            for a in range(policy.shape[1]):
                total += policy[x, a] * q[x, a]
            if not abs(total) <= worst:
                worst = abs(total)
        found[block] = worst
