"""Slow, obvious twins of what came after Soft-SPIBB: plain loops and linear programs.

Letters as in :mod:`spibb.testing.reference`; g is an estimate of the baseline's Q.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.optimize

from spibb.testing.reference import Array, Row, greedy_row


def lower_approx_row(q: Row, baseline: Row, errors: Row, epsilon: float) -> Array:
    """Move mass from the worst actions to the best bargains; only receivers pay."""
    if math.isinf(epsilon):
        return greedy_row(q)
    pi = np.array(baseline, dtype=np.float64)
    budget = epsilon
    for donor in sorted(range(len(q)), key=lambda a: (q[a], a)):
        receiver = _bargain(q, errors, donor)
        if receiver is None:
            continue
        mass = min(float(pi[donor]), _per_unit(budget, errors[receiver]))
        pi[receiver] += mass
        pi[donor] -= mass
        budget = max(0.0, budget - mass * errors[receiver])
    return pi


def adv_approx_row(q: Row, baseline: Row, errors: Row, epsilon: float, g: Row) -> Array:
    """Transfer as Approx-Soft-SPIBB does, but never more than the advantage earned pays for."""
    pi = np.array(baseline, dtype=np.float64)
    budget, earned = epsilon, 0.0
    for donor in sorted(range(len(q)), key=lambda a: (q[a], a)):
        if math.isinf(epsilon):
            best = max(range(len(q)), key=lambda a: (q[a], -a))
            receiver = best if q[best] > q[donor] else None
        else:
            receiver = _bargain(q, errors, donor) if errors[donor] < math.inf else None
        if receiver is None:
            continue
        mass = float(pi[donor])
        if not math.isinf(epsilon):
            mass = min(mass, _per_unit(budget / 2, errors[donor]))
            mass = min(mass, _per_unit(budget / 2, errors[receiver]))
        gain = g[receiver] - g[donor]
        if gain < 0:
            mass = min(mass, earned / -gain)
        pi[receiver] += mass
        pi[donor] -= mass
        earned = max(0.0, earned + gain * mass)
        if not math.isinf(epsilon):
            budget = max(0.0, budget - mass * (errors[donor] + errors[receiver]))
    return pi


def best_value(
    q: Row,
    baseline: Row,
    errors: Row,
    epsilon: float,
    *,
    g: Row | None = None,
    is_lower: bool = False,
) -> float:
    """Return the largest q.pi by a linear program.

    Args:
        q: Values.
        baseline: The baseline's row.
        errors: Errors; infinite ones pin the row, or with ``is_lower`` forbid increases.
        epsilon: The budget.
        g: If given, sum_a g (pi - baseline) >= 0 is demanded.
        is_lower: Whether only increases cost.
    """
    n = len(q)
    b, e = np.asarray(baseline, dtype=float), np.asarray(errors, dtype=float)
    free = np.isfinite(e) | math.isinf(epsilon)
    eye, zeros = np.eye(n), np.zeros(n)
    upper = [np.hstack([eye, -eye])]  # pi - b <= z
    limit = [b]
    if not is_lower:
        upper.append(np.hstack([-eye, -eye]))
        limit.append(-b)
    if not math.isinf(epsilon):
        upper.append(np.append(zeros, np.where(free, e, 0.0))[None])
        limit.append(np.array([epsilon]))
    if g is not None:
        upper.append(np.append(-np.asarray(g), zeros)[None])
        limit.append(np.array([-float(np.asarray(g) @ b)]))
    low = np.where(free | is_lower, 0.0, b)
    high = np.where(free, 1.0, b)
    solution = scipy.optimize.linprog(
        np.append(-np.asarray(q), zeros),
        A_ub=np.vstack(upper),
        b_ub=np.concatenate(limit),
        A_eq=np.append(np.ones(n), zeros)[None],
        b_eq=[1.0],
        bounds=[*zip(low, high, strict=True), *([(0.0, None)] * n)],
    )
    if solution.x is None:
        raise ArithmeticError(f"linprog failed: {solution.message}")
    return -float(solution.fun or 0.0)


def duipi(
    transition: Array, ending: Array, reward: Array, n_sa: Array, gamma: float, baseline: Array,
    *, xi: float, prior: float, n_sweeps: int,
) -> Array:  # fmt: skip
    """Sweep values, variances and the policy together, one pair after the other."""
    n_states, n_actions = reward.shape
    pi = baseline.copy()
    q, var_q = np.zeros(reward.shape), np.zeros(reward.shape)
    for sweep in range(1, n_sweeps + 1):
        v = np.append((pi * q).sum(axis=1), 0.0)  # the last outcome is ending
        var_v = np.append((pi**2 * var_q).sum(axis=1), 0.0)
        for x in range(n_states):
            for a in range(n_actions):
                n = n_sa[x, a]
                if n == 0:
                    continue
                seen = n * np.append(transition[x, a], ending[x, a])
                p = (seen + prior) / (n + prior * (n_states + 1))
                if prior > 0:
                    var_p = p * (1 - p) / (n + prior * (n_states + 1) + 1)
                else:
                    var_p = p * (1 - p) / (n - 1) if n > 1 else np.where(p > 0, 0.25, 0.0)
                q[x, a] = reward[x, a] + gamma * float(p @ v)
                outcome = reward[x, a] + gamma * v
                var_q[x, a] = float((gamma**2 * p**2 * var_v + outcome**2 * var_p).sum())
        for x in range(n_states):
            tried = [a for a in range(n_actions) if n_sa[x, a] > 0]
            if not tried:
                continue
            worth = {a: q[x, a] - xi * math.sqrt(var_q[x, a]) for a in tried}
            best = max(tried, key=lambda a: (worth[a], -a))
            gain = min(1 / sweep, 1 - pi[x, best])
            rest = 1 - pi[x, best]
            if gain > 0 and rest > 0:
                kept = pi[x, best]
                pi[x] *= (rest - gain) / rest
                pi[x, best] = kept + gain
    return pi


def _bargain(q: Row, errors: Row, donor: int) -> int | None:
    """Return the receiver of largest gain per unit of error, or None if none gains."""
    better = [a for a in range(len(q)) if q[a] > q[donor] and errors[a] < math.inf]
    if not better:
        return None

    def ratio(a: int) -> float:
        return (q[a] - q[donor]) / errors[a] if errors[a] > 0 else math.inf

    return max(better, key=lambda a: (ratio(a), q[a], -a))


def _per_unit(budget: float, error: float) -> float:
    return budget / error if error > 0 else math.inf
