"""Policy evaluation: one |X| x |X| linear system a policy.

V = (I - gamma P_pi)^-1 r_pi, then Q = R + gamma P V. With gamma < 1 the matrix is strictly
diagonally dominant, so elimination needs no pivoting; with gamma = 1 it is an M-matrix that is
non-singular exactly when the policy ends from every state, which is checked on the graph first.

Small systems are solved in a compiled loop over the batch, larger ones by LAPACK, large ones by
Krylov steps, with a bound on the error (spibb.mdp.large). Letters: p transition, r reward, pi
policy, v and q values.

The kernels for small systems are written for lanes: lane l of L takes every L-th row, and `barrier`
stands where all must be done before any goes on. The CPU calls them with one lane; on a GPU the 32
lanes of a warp share a problem (see spibb.mdp.cuda).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from spibb.compiled.blas import one_blas_thread
from spibb.compiled.gpu import barrier
from spibb.compiled.jit import jit
from spibb.compiled.threads import over_chunks
from spibb.errors import PolicyError
from spibb.mdp.batch import ModelBatch
from spibb.mdp.large import update_large, value_error
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy

# Own elimination beats LAPACK's call overhead up to about here.
LARGEST_COMPILED = 128
# Up to here a dense factorisation is quick whatever the model (2,000 states: 32 MB, 0.2 s).
LARGEST_DENSE = 2_000

# v, q, and whether the policy ends, of a batch.
Values = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Values of a policy in a model.

    Attributes:
        policy: The policy they belong to.
        v: V(x), shape (S,).
        q: Q(x, a), shape (S, A).
        performance: V averaged over the first state.
        error: How far v, q and performance may be from the exact ones, in any state; 0 where a
            factor gave them, which is exact but for rounding.
    """

    policy: TabularPolicy
    v: NDArray[np.float64]
    q: NDArray[np.float64]
    performance: float
    error: float = 0.0

    @classmethod
    @one_blas_thread()
    def of(
        cls,
        mdp: TabularMDP,
        policy: TabularPolicy,
        v: NDArray[np.float64],
        q: NDArray[np.float64],
    ) -> Evaluation:
        """Put values together, with their performance, and bound their error in the model."""
        error = 0.0
        if is_large(mdp.n_states):
            error = value_error(ModelBatch.stack([mdp]), 0, policy.probabilities, v, q)
        return cls(policy, v, q, float(mdp.initial @ v), error)

    def __repr__(self) -> str:
        return (
            f"<Evaluation: performance {self.performance:.6g}, {self.policy.n_states:,} states, "
            f"{self.policy.n_actions:,} actions>"
        )


def is_large(n_states: int) -> bool:
    """Tell whether models of so many states are solved by steps, not by a factor."""
    return n_states > LARGEST_DENSE


def evaluate(mdp: TabularMDP, policy: TabularPolicy | ArrayLike) -> Evaluation:
    """Compute the values of ``policy`` in ``mdp``.

    They are exact, rounding apart, up to 2,000 states; beyond, `error` bounds how far they are off.
    With gamma = 1 and a policy that never ends from some state, the values are NaN.

    Example:
        >>> mdp = TabularMDP(transition=[[[0, 1.0]], [[0, 1.0]]], reward=[[2.0], [5.0]],
        ...                  gamma=0.9, terminal=[False, True])
        >>> evaluate(mdp, [[1.0], [1.0]]).v
        array([2., 0.])
    """
    if not isinstance(policy, TabularPolicy):
        policy = TabularPolicy(policy)
    if policy.probabilities.shape != mdp.reward.shape:
        raise PolicyError(
            f"a policy of shape {policy.probabilities.shape}",
            expected=f"{mdp.reward.shape}, the model's states and actions",
        )
    batch = ModelBatch.stack([mdp])
    v, q, _ = evaluate_batch(batch, policy.probabilities[None].copy())
    return Evaluation.of(mdp, policy, v[0], q[0])


def evaluate_batch(
    batch: ModelBatch, policy: NDArray[np.float64], start: NDArray[np.float64] | None = None
) -> Values:
    """Evaluate one policy, of shape (B, S, A), in each model of a batch.

    Args:
        batch: The models.
        policy: The policies.
        start: Values nearby, shape (B, S), from which large models start.

    Returns:
        v (B, S), q (B, S, A), and whether the policy ends, which only gamma = 1 can fail: there v
        and q are NaN.
    """
    v, q = batch.unknown(batch.shape[:2]), batch.unknown(batch.shape)
    if start is not None and is_large(batch.shape[1]):
        v[:] = start
    everything = np.arange(len(policy), dtype=np.int64)
    ends, _, _ = update_values(batch, batch.place(policy), everything, v, q)
    return batch.fetch(v), batch.fetch(q), ends


def update_values(
    batch: ModelBatch,
    policy: NDArray[np.float64],
    problems: NDArray[np.int64],
    v: NDArray[np.float64],
    q: NDArray[np.float64],
) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
    """Evaluate the policies of some problems, in place.

    Args:
        batch: The models; `policy`, `v` and `q` are where it has placed them.
        policy: Shape (B, S, A).
        problems: Which of the B problems to evaluate, shape (K,).
        v: Values, shape (B, S); overwritten for those problems.
        q: Values, shape (B, S, A); overwritten for those problems.

    Returns:
        Whether each policy ends (values of one that does not are left alone), the Frobenius norm
        of the change in q, and that of the new q; each of shape (K,).
    """
    if batch.is_on_gpu:
        from spibb.mdp.cuda import update_values_on_gpu

        return update_values_on_gpu(batch, policy, problems, v, q)
    ends = np.ones(len(problems), dtype=np.bool_)
    if is_large(batch.shape[1]):
        found = [update_large(batch, int(k), policy[k], v[k], q[k]) for k in problems]
        large = np.array(found, dtype=np.float64).reshape(-1, 3)
        return large[:, 0] > 0.0, large[:, 1], large[:, 2]
    if batch.gamma == 1.0:
        _all_end(problems, batch.indptr, batch.indices, batch.ending, policy, ends)
    change, scale = np.zeros(len(problems)), np.zeros(len(problems))
    places = np.flatnonzero(ends).astype(np.int64)
    model = _Model(batch.indptr, batch.indices, batch.data, batch.reward, batch.gamma)
    if batch.shape[1] <= LARGEST_COMPILED:
        over_chunks(
            lambda part: _update_small(part, problems, model, policy, v, q, change, scale), places
        )
    else:
        for problem in problems[places]:
            v[problem] = _solve_large(batch, int(problem), policy[problem])
        _update_q(places, problems, model, v, q, change, scale)
    return ends, change, scale


class _Model(NamedTuple):
    """What the loops over a batch take of it; the kernels below, which a GPU runs too, not so."""

    indptr: Any
    indices: Any
    data: Any
    reward: Any
    gamma: float


@jit
def _update_small(places, problems, model, policy, v, q, change, scale):  # type: ignore[no-untyped-def]
    indptr, indices, data, reward, gamma = model
    n_states = reward.shape[1]
    matrix = np.empty((n_states, n_states))
    for place in places:
        problem = problems[place]
        fill_system(indptr, indices, data, reward[problem], policy[problem], gamma, problem,
                     matrix, v[problem], 0, 1)  # fmt: skip
        eliminate(matrix, v[problem], 0, 1)
    _update_q(places, problems, model, v, q, change, scale)


@jit
def _update_q(places, problems, model, v, q, change, scale):  # type: ignore[no-untyped-def]
    """Write Q = R + gamma P V, and the norms of its change and of itself."""
    indptr, indices, data, reward, gamma = model
    for place in places:
        problem = problems[place]
        moved, size = update_q_rows(indptr, indices, data, reward[problem], gamma, problem,
                                    v[problem], q[problem], 0, 1)  # fmt: skip
        change[place] = np.sqrt(moved)
        scale[place] = np.sqrt(size)


@jit
def update_q_rows(indptr, indices, data, reward, gamma, problem, v, q, lane, n_lanes):  # type: ignore[no-untyped-def]
    """Write Q = R + gamma P V of a lane's pairs; return the squares of its change and of itself."""
    n_states, n_actions = reward.shape
    moved = 0.0
    size = 0.0
    for pair in range(lane, n_states * n_actions, n_lanes):
        x = pair // n_actions
        a = pair - x * n_actions
        row = problem * n_states * n_actions + pair
        total = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            total += data[k] * v[indices[k]]
        value = reward[x, a] + gamma * total
        moved += (value - q[x, a]) ** 2
        size += value**2
        q[x, a] = value
    return moved, size


@jit
def fill_system(indptr, indices, data, reward, pi, gamma, problem, matrix, rhs, lane, n_lanes):  # type: ignore[no-untyped-def]
    """Write I - gamma P_pi into ``matrix`` and r_pi into ``rhs``."""
    n_states, n_actions = reward.shape
    for x in range(lane, n_states, n_lanes):
        row = matrix[x]
        for y in range(n_states):
            row[y] = 0.0
        r = 0.0
        for a in range(n_actions):
            weight = pi[x, a]
            if weight > 0.0:
                r += weight * reward[x, a]
                pair = (problem * n_states + x) * n_actions + a
                for k in range(indptr[pair], indptr[pair + 1]):
                    row[indices[k]] -= gamma * weight * data[k]
        row[x] += 1.0
        rhs[x] = r
    barrier()


@jit
def eliminate(matrix, rhs, lane, n_lanes):  # type: ignore[no-untyped-def]
    """Solve matrix v = rhs in place, without pivoting (see the module's docstring).

    Two pivots a pass halve the traffic on the rows: a third faster than one at 50 states.
    """
    n = len(rhs)
    for k in range(0, n - 1, 2):
        upper, lower = matrix[k], matrix[k + 1]
        upper_inverse = 1.0 / upper[k]
        factor = lower[k] * upper_inverse
        for j in range(k + 1 + lane, n, n_lanes):
            lower[j] -= factor * upper[j]
        if lane == 0:
            rhs[k + 1] -= factor * rhs[k]
        barrier()
        lower_inverse = 1.0 / lower[k + 1]
        for i in range(k + 2 + lane, n, n_lanes):
            row = matrix[i]
            f = row[k] * upper_inverse
            g = (row[k + 1] - f * upper[k + 1]) * lower_inverse
            if f != 0.0 or g != 0.0:
                for j in range(k + 2, n):
                    row[j] -= f * upper[j] + g * lower[j]
                rhs[i] -= f * rhs[k] + g * rhs[k + 1]
        barrier()
    if n_lanes == 1:
        _substitute_rows(matrix, rhs)
    else:
        _substitute_columns(matrix, rhs, lane, n_lanes)


@jit
def _substitute_rows(matrix, rhs):  # type: ignore[no-untyped-def]
    """Solve the triangle that elimination leaves, row by row as the memory lies."""
    n = len(rhs)
    for k in range(n - 1, -1, -1):
        row = matrix[k]
        total = rhs[k]
        for j in range(k + 1, n):
            total -= row[j] * rhs[j]
        rhs[k] = total / row[k]


@jit
def _substitute_columns(matrix, rhs, lane, n_lanes):  # type: ignore[no-untyped-def]
    """Solve the triangle column by column, where lanes need not add up a common sum."""
    n = len(rhs)
    for k in range(n - 1, -1, -1):
        value = rhs[k] / matrix[k, k]
        barrier()
        if lane == 0:
            rhs[k] = value
        for i in range(lane, k, n_lanes):
            rhs[i] -= matrix[i, k] * value
        barrier()


@one_blas_thread()
def _solve_large(batch: ModelBatch, problem: int, pi: NDArray[np.float64]) -> NDArray[np.float64]:
    matrix, rhs = dense_system(batch, problem, pi)
    # Fortran order saves LAPACK a copy: factor the transpose and solve with it.
    factor = scipy.linalg.lu_factor(matrix.T, overwrite_a=True, check_finite=False)
    return np.asarray(scipy.linalg.lu_solve(factor, rhs, trans=1, check_finite=False))


def dense_system(
    batch: ModelBatch, problem: int, pi: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return I - gamma P_pi and r_pi of one problem."""
    n_states = batch.shape[1]
    matrix, rhs = np.empty((n_states, n_states)), np.empty(n_states)
    fill_system(batch.indptr, batch.indices, batch.data, batch.reward[problem], pi,
                float(batch.gamma), problem, matrix, rhs, 0, 1)  # fmt: skip
    return matrix, rhs


@jit
def _all_end(chosen, indptr, indices, ending, policy, ends):  # type: ignore[no-untyped-def]
    """Mark which policies reach an end from every state, by growing the set that does."""
    n_states, n_actions = ending.shape[1], ending.shape[2]
    reaches = np.empty(n_states, dtype=np.bool_)
    for place in range(len(chosen)):
        problem = chosen[place]
        reaches[:] = False
        grown = True
        while grown:
            grown = False
            for x in range(n_states):
                if reaches[x]:
                    continue
                for a in range(n_actions):
                    if policy[problem, x, a] == 0.0:
                        continue
                    found = ending[problem, x, a] > 0.0
                    pair = (problem * n_states + x) * n_actions + a
                    for k in range(indptr[pair], indptr[pair + 1]):
                        found |= reaches[indices[k]]
                    if found:
                        reaches[x] = True
                        grown = True
                        break
        ends[place] = reaches.all()
