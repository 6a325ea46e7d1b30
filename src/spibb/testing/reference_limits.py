"""Rows with upper bounds as linear programs: the oracle of steps under limits."""

from __future__ import annotations

import math

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

Array = NDArray[np.float64]


def best_limited_value(
    q: Array,
    b: Array,
    e: Array,
    epsilon: float,
    u: Array,
    *,
    is_lower: bool = False,
    g: Array | None = None,
) -> float:
    """Return the largest q.pi within the budget, with pi <= u, by scipy's HiGHS.

    Args:
        q: Values.
        b: The row to stay near, b <= u.
        e: Errors; infinite pins an action, or forbids its increase if ``is_lower``.
        epsilon: Budget; infinite drops budget and pins.
        u: Upper bounds.
        is_lower: Whether increases alone cost.
        g: A second Q, by which the row must not lose against b.

    Example:
        >>> best_limited_value(*map(np.array, ([0.0, 1.0], [0.5, 0.5], [1.0, 1.0])), 2.0,
        ...                    np.array([1.0, 0.6]))
        0.6
    """
    n, free = len(q), math.isinf(epsilon)
    pinned = np.isinf(e) & (not free)
    # Variables: increases up, decreases down; pi = b + up - down.
    most = np.concatenate([np.maximum(u - b, 0.0), b])
    most[:n][pinned] = 0.0
    if not is_lower:
        most[n:][pinned] = 0.0
    cost = np.where(np.isinf(e) | free, 0.0, e)
    rows, ends = [], []
    if not free:
        scale = cost.max() or 1.0
        rows.append(np.concatenate([cost, np.zeros(n) if is_lower else cost]) / scale)
        ends.append(epsilon / scale)
    if g is not None:
        rows.append(np.concatenate([-g, g]))
        ends.append(0.0)
    found = scipy.optimize.linprog(
        c=np.concatenate([-q, q]),
        A_ub=np.array(rows) if rows else None,
        b_ub=ends if rows else None,
        A_eq=np.concatenate([np.ones(n), -np.ones(n)])[None],
        b_eq=[0.0],
        bounds=[(0.0, end) for end in most.tolist()],
        method="highs-ds",
    )
    if found.status != 0:
        raise ArithmeticError(f"linprog failed: {found.message}")
    return float(q @ b) - float(found.fun or 0.0)
