r"""Rows that may let no cost rise: the steps under limits, with one linear constraint a cost.

    maximise sum_a q(a) pi(a)  within what the step allows,  sum_a A_k(a) pi(a) <= 0  for each k

A_k is the baseline's advantage in cost k. If it holds in every state, no cost rises anywhere in the
model, by the performance-difference lemma (MO-SPIBB, Satija et al. 2021, state it for returns).
Where the row of the plain step keeps all costs it is the answer. Else one cost, with its sign
turned, is an advantage that must not be negative: the exact soft and the greedy step are then the
advantageous one (spibb.operators.advantageous). The other exact steps, and several costs, are
linear programs in the mass that each action gains, up, and loses, down:

    up <= u - b,  down <= b,  sum up = sum down,  e.(up + down) <= epsilon  (lower: e.up)

solved row by row (HiGHS), some milliseconds each. The approximate steps go as far towards their own
row as the costs let them.

Letters: q values, b the row that a step starts from, which keeps all limits, e errors, g the
baseline's Q, u upper bounds, c costs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.operators.constrained import limited_step_rows
from spibb.operators.rows import Operator

Array = NDArray[np.float64]

# Less than this share of a cost's advantages is rounding; the solver is asked for less still.
_ROUNDING, _FEASIBLE = 5e-10, 1e-10
_WITHOUT_BUDGET = (Operator.GREEDY, Operator.PI_B, Operator.PI_LEQ_B)
_LOWER = (Operator.PI_LEQ_B, Operator.LOWER_EXACT)
# Steps whose best row with one cost is that of the advantageous step.
_BY_ADVANTAGE = (Operator.GREEDY, Operator.SOFT_EXACT)
EXACT = (*_WITHOUT_BUDGET, Operator.SOFT_EXACT, Operator.LOWER_EXACT, Operator.ADV_EXACT)


def costly_row(
    operator: Operator, q: Array, b: Array, e: Array, epsilon: float, g: Array, u: Array, c: Array,
    plain: Array,
) -> Array:  # fmt: skip
    """Return the row of a step that lets no cost rise.

    Args:
        operator: The step.
        q: Values.
        b: The row it starts from, which makes no cost rise.
        e: Errors.
        epsilon: The budget.
        g: The baseline's Q, where the operator wants it.
        u: Upper bounds.
        c: A_k(a), shape (K, A).
        plain: The row of the step without costs.
    """
    row = None
    if operator in _BY_ADVANTAGE and len(c) == 1 and _is_spent(b, c):
        row = _advantageous(q, b, e, np.inf if operator == Operator.GREEDY else epsilon, -c[0], u)
    elif operator in EXACT:
        row = _best(operator, q, b, e, epsilon, g, u, c)
    return _as_far_as_costs_let(plain if row is None else row, b, c)


def _is_spent(b: Array, c: Array) -> bool:
    """Whether the row to start from costs as much as may be: it does where nothing is forbidden."""
    return bool((np.abs(c @ b) <= _ROUNDING * np.abs(c).max(axis=1)).all())


def _advantageous(q: Array, b: Array, e: Array, epsilon: float, g: Array, u: Array) -> Array:
    """Return the best row that is advantageous by g, which one cost with its sign turned is."""
    out = np.empty((1, len(q)))
    q, b, e, g, u = (np.array(part[None]) for part in (q, b, e, g, u))
    limited_step_rows(int(Operator.ADV_EXACT), q, b, e, np.array([epsilon]), g, u, out)
    return np.asarray(out[0])


def _best(
    operator: Operator, q: Array, b: Array, e: Array, epsilon: float, g: Array, u: Array, c: Array
) -> Array | None:
    """Solve the linear program; None where the solver gives up."""
    from scipy.optimize import linprog

    has_prices = operator not in _WITHOUT_BUDGET and np.isfinite(epsilon)
    fixed = np.isinf(e) & (operator != Operator.GREEDY)
    fixed &= has_prices or operator in _WITHOUT_BUDGET
    up = np.where(fixed, 0.0, u - b)
    down = np.where(fixed & (operator not in _LOWER), 0.0, b)
    rows, limits = [np.append(one, -one) for one in _scaled(c)], list(-_scaled(c) @ b)
    if has_prices:
        price = np.where(fixed, 0.0, e)
        rows.append(np.append(price, 0.0 * price if operator in _LOWER else price))
        limits.append(epsilon)
    if operator == Operator.ADV_EXACT:
        rows.append(np.append(-g, g))
        limits.append(0.0)
    tight = _FEASIBLE
    found = linprog(
        np.append(-q, q),
        A_ub=np.array(rows), b_ub=np.maximum(limits, 0.0),
        A_eq=np.append(np.ones(len(q)), -np.ones(len(q)))[None], b_eq=[0.0],
        bounds=[(0.0, most) for most in np.append(up, down).tolist()], method="highs",
        options={"primal_feasibility_tolerance": tight, "dual_feasibility_tolerance": tight},
    )  # fmt: skip
    if found.x is None:
        return None
    moved = np.clip(found.x[: len(q)], 0.0, up) - np.clip(found.x[len(q) :], 0.0, down)
    row = np.clip(b + moved, 0.0, u)
    return np.asarray(row / row.sum())


def _scaled(c: Array) -> Array:
    """Return costs in units of their largest advantage, which the solver's tolerances are for."""
    largest = np.abs(c).max(axis=1, keepdims=True)
    return np.asarray(c / np.where(largest > 0.0, largest, 1.0))


def _as_far_as_costs_let(row: Array, b: Array, c: Array) -> Array:
    """Go from b towards a row until a cost would rise."""
    change, room = c @ (row - b), np.maximum(-(c @ b), 0.0)
    is_over = change > room + _ROUNDING * np.abs(c).max(axis=1)
    share = np.divide(room, change, out=np.ones(len(c)), where=is_over)
    least = float(share.min())
    return row if least == 1.0 else np.asarray(b + least * (row - b))
