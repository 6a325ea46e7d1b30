r"""The gain of a policy by a Q-function that is linear in raw columns within labels.

    Q(s, a, x) = alpha(s, a) + beta(a) (x - mean of x in s)

Cells cannot say what happens beyond the values that the log holds: a cell at the edge is one state,
however far a policy drives the process into it. A slope extrapolates. Q is the fixed point of
least-squares temporal differences (Bradtke and Barto 1996, for Q: Lagoudakis and Parr 2003),

    A theta = b,   A = mean of phi_i (phi_i - gamma phi_pi(next_i))',   b = mean of phi_i r_i,

with a ridge on the slopes. Where a pair has no data, its intercept is the mean of its label's.
The standard error is the first-order one: the influence of step i on the value c' theta is
c' A^-1 phi_i (r_i + gamma phi_pi(next_i)' theta - phi_i' theta).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from spibb.representation.refined_gain import LARGEST_DISCOUNT, RefinedGain, behaviour_value
from spibb.representation.steps import Array, Codes, Steps

# Ridge on slopes, for columns of unit variance and the mean over steps.
_RIDGE = 1e-3
# A system beyond this size is solved as a sparse one.
_LARGEST_DENSE = 2_000


def linear_gain(steps: Steps, values: Array, table: Array, gamma: float) -> RefinedGain:
    """Return the gain of a policy by a Q-function that is linear within labels; see the module.

    Args:
        steps: The steps of the log.
        values: Raw columns of each row of the log, shape (rows, K).
        table: The policy, shape (S, A).
        gamma: The discount.
    """
    gamma = min(gamma, LARGEST_DISCOUNT)
    x = _within_labels(values, steps.label_of, len(table))
    n_pairs, n = table.size, len(steps.row)
    taken = _one_action(steps, x, table.shape)
    ahead = _policy_at(steps.following[steps.following >= 0], steps.label_of, x, table)
    place = np.flatnonzero(steps.following >= 0)
    mover = sp.csr_matrix((np.ones(len(place)), (place, np.arange(len(place)))), (n, len(place)))
    following = mover @ ahead
    system = (taken.T @ (taken - gamma * following)).tolil() / n
    target = taken.T @ steps.reward / n
    ridge = np.append(np.zeros(n_pairs), np.full(taken.shape[1] - n_pairs, _RIDGE))
    system = sp.csr_matrix(system) + sp.diags(ridge)
    system, target = _with_unobserved(system, target, steps, table.shape)
    start = _policy_at(steps.first, steps.label_of, x, table)
    theta, dual = _solved(system, target, np.asarray(start.mean(axis=0)).ravel())
    v_start = start @ theta
    value = float(v_start.mean())
    residual = steps.reward + gamma * (following @ theta) - taken @ theta
    influence = steps.by_block((taken @ dual) * residual / n)
    influence = influence + steps.by_first_block((v_start - value) / len(steps.first))
    behaved = behaviour_value(steps, table.shape, gamma)
    gain, influence = value - behaved.value, influence - behaved.influence
    return RefinedGain(gain, 0.0, influence, 0.0, len(table))


def _within_labels(values: Array, label: Codes, n_states: int) -> Array:
    """Return columns of unit variance, centred within labels; missing values are at the mean."""
    n = np.maximum(np.bincount(label, minlength=n_states), 1)
    found = np.empty(values.shape)
    for k, column in enumerate(values.T):
        known = np.isfinite(column)
        scale = column[known].std() if known.any() else 0.0
        if not scale > 0.0:
            found[:, k] = 0.0
            continue
        filled = np.where(known, (column - column[known].mean()) / scale, 0.0)
        found[:, k] = filled - (np.bincount(label, filled, n_states) / n)[label]
    return found


def _one_action(steps: Steps, x: Array, shape: tuple[int, ...]) -> sp.csr_matrix:
    """Return phi of each step, shape (n, S A + A K)."""
    n, n_columns, (n_states, n_actions) = len(steps.row), x.shape[1], shape
    n_pairs = n_states * n_actions
    pair = steps.state * n_actions + steps.action
    slopes = n_pairs + steps.action[:, None] * n_columns + np.arange(n_columns)
    columns = np.column_stack([pair, slopes])
    data = np.column_stack([np.ones(n), x[steps.row]])
    return _csr(data, columns, n_pairs + n_actions * n_columns)


def _policy_at(rows: Codes, label: Codes, x: Array, table: Array) -> sp.csr_matrix:
    """Return phi of the policy's mean action in rows of the log."""
    n_actions, n_columns, n_pairs = table.shape[1], x.shape[1], table.size
    pair = label[rows][:, None] * n_actions + np.arange(n_actions)
    slopes = n_pairs + np.arange(n_actions * n_columns)
    columns = np.column_stack([pair, np.tile(slopes, (len(rows), 1))])
    taken = table[label[rows]]
    slope = (taken[:, :, None] * x[rows][:, None, :]).reshape(len(rows), n_actions * n_columns)
    data = np.column_stack([taken, slope])
    return _csr(data, columns, n_pairs + n_actions * n_columns)


def _csr(data: Array, columns: Codes, width: int) -> sp.csr_matrix:
    n, m = data.shape
    indptr = np.arange(0, n * m + 1, m)
    return sp.csr_matrix((data.ravel(), columns.ravel(), indptr), (n, width))


def _with_unobserved(
    system: sp.csr_matrix, target: Array, steps: Steps, shape: tuple[int, ...]
) -> tuple[sp.csr_matrix, Array]:
    """Set intercepts of pairs without data to the mean of their label's, weighted by rows."""
    n_states, n_actions = shape
    n_pair = np.bincount(steps.state * n_actions + steps.action, minlength=n_states * n_actions)
    empty = np.flatnonzero(n_pair == 0)
    if not len(empty):
        return system, target
    total = n_pair.reshape(shape).sum(axis=1)
    share = (n_pair.reshape(shape) / np.maximum(total, 1)[:, None])[empty // n_actions]
    of_label = (empty // n_actions)[:, None] * n_actions + np.arange(n_actions)
    row = np.repeat(empty, n_actions)
    tied = sp.csr_matrix((-share.ravel(), (row, of_label.ravel())), system.shape)
    own = sp.csr_matrix((np.ones(len(empty)), (empty, empty)), system.shape)
    kept = np.ones(system.shape[0])
    kept[empty] = 0.0
    return sp.diags(kept) @ system + own + tied, target * kept


def _solved(system: sp.csr_matrix, target: Array, weight: Array) -> tuple[Array, Array]:
    """Return the solution, and that of the transposed system."""
    if system.shape[0] <= _LARGEST_DENSE:
        dense = system.toarray()
        return np.linalg.solve(dense, target), np.linalg.solve(dense.T, weight)
    factor: Any = sp.linalg.splu(sp.csc_matrix(system))
    return np.asarray(factor.solve(target)), np.asarray(factor.solve(weight, trans="T"))
