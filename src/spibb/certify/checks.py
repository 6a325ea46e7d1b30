"""The conditions that are checked on every result, state by state.

Values of a policy that does not end are NaN. They must fail every check, hence the negated
comparisons.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.certify.case import ROUNDING, Case, spent_budget
from spibb.certify.certificate import Condition


def constraint(
    case: Case,
    errors: NDArray[np.float64],
    epsilon: float | None,
    *,
    is_one_sided: bool = False,
) -> Condition:
    """Check sum_a e |pi - pi_b| <= epsilon in every state; without epsilon, that it is finite."""
    spent = spent_budget(case.difference, errors, is_one_sided=is_one_sided)
    cost = "sum_a e max(0, pi - pi_b)" if is_one_sided else "sum_a e |pi - pi_b|"
    if epsilon is None:
        fails = ~np.isfinite(spent)
    else:
        fails = ~(spent <= epsilon * (1 + ROUNDING) + ROUNDING)
    limit = "finite" if epsilon is None else "<= epsilon"
    return Condition(
        name="constraint",
        statement=f"the policy is (pi_b, e, epsilon)-constrained: {cost} {limit}",
        is_satisfied=not fails.any(),
        value=float(spent.max()),
        limit=epsilon,
        n_violations=int(fails.sum()),
        where=_first(case, fails),
    )


def advantage(case: Case, values: NDArray[np.float64], kind: str) -> Condition:
    """Check that the policy is advantageous over the baseline in every state.

    Args:
        case: The case.
        values: sum_a pi(a | x) A_b(x, a), shape (S,).
        kind: By which estimate of the baseline's Q: "the estimated model", "mean returns".
    """
    fails = ~(values >= -ROUNDING * case.value_scale)
    return Condition(
        name="advantage",
        statement=f"the policy is advantageous in every state by {kind}: sum_a pi A_b >= 0",
        is_satisfied=not fails.any(),
        value=float(values.min()),
        limit=0.0,
        n_violations=int(fails.sum()),
        where=_first(case, fails),
    )


def improvement(case: Case) -> Condition:
    """Check that the policy is at least as good as the baseline in the model, in every state."""
    fails = ~(case.improvement >= -ROUNDING * case.value_scale)
    return Condition(
        name="improvement",
        statement="the policy is an improvement in the estimated model: V >= V_b in every state",
        is_satisfied=not fails.any(),
        value=float(case.improvement.min()),
        limit=0.0,
        n_violations=int(fails.sum()),
        where=_first(case, fails),
    )


def bootstrapped_copy(case: Case, n_wedge: float) -> Condition:
    """Check that the policy equals the baseline on every pair seen less than n_wedge times."""
    rare = case.evidence.counts.n_sa < n_wedge
    moved = np.where(rare, np.abs(case.difference), 0.0)
    fails = np.asarray((moved > ROUNDING).any(axis=1))
    return Condition(
        name="bootstrapped-copy",
        statement=f"the policy equals the baseline on pairs seen less than {n_wedge:g} times",
        is_satisfied=not fails.any(),
        value=float(moved.max()),
        limit=0.0,
        n_violations=int((moved > ROUNDING).sum()),
        where=_first(case, fails),
    )


def discounted(case: Case) -> Condition:
    """Check gamma < 1."""
    gamma = case.model.gamma
    return Condition(
        name="discount", statement="gamma < 1", is_satisfied=gamma < 1, value=gamma, limit=1.0
    )


def confident(case: Case) -> Condition:
    """Check delta < 1: with delta = 1 the errors are a scale only."""
    return Condition(
        name="confidence",
        statement="delta < 1, so that the errors are confidence bounds",
        is_satisfied=case.delta < 1,
        value=case.delta,
        limit=1.0,
    )


def _first(case: Case, fails: NDArray[np.bool_]) -> str | None:
    if not fails.any():
        return None
    return f"state {case.policy.policy.state_name(int(np.argmax(fails)))}"
