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


def only_trusted(case: Case, n_wedge: float) -> Condition:
    """Check that neither policy takes a pair seen less than n_wedge times, in any state."""
    taken = (case.policy.policy.probabilities > 0) | (case.baseline.policy.probabilities > 0)
    rare = taken & (case.evidence.counts.n_sa < n_wedge) & ~case.model.terminal[:, None]
    return Condition(
        name="trusted-pairs",
        statement=f"every pair that policy or baseline takes was seen {n_wedge:g} times: what "
        "rarer pairs are worth does not cancel, since the two visit them differently",
        is_satisfied=not rare.any(),
        value=float(rare.sum()),
        limit=0.0,
        n_violations=int(rare.sum()),
        where=_first(case, np.asarray(rare.any(axis=1))),
    )


def one_step(case: Case) -> Condition:
    """Check that the estimated Q of the baseline is a mean of observations."""
    counts = case.evidence.counts
    n_going_on = int(counts.n_sa.sum()) - counts.n_ended
    return Condition(
        name="one-step",
        statement="gamma = 0, or every row ends the process: else the model's Q of the baseline is "
        "no mean of observations, and its error is not bounded by e_Q",
        is_satisfied=case.model.gamma == 0.0 or n_going_on == 0,
        value=float(n_going_on),
        limit=0.0,
        n_violations=n_going_on,
    )


def start_known(case: Case) -> Condition:
    """Check that the first state is given, or that several episodes show it."""
    n_episodes = int(case.evidence.counts.n_initial.sum())
    return Condition(
        name="start",
        statement="the first state is given (initial), or the log holds at least two episodes: "
        "else where episodes begin is unknown",
        is_satisfied=case.evidence.declared.initial is not None or n_episodes >= 2,
        value=float(n_episodes),
        limit=2.0,
    )


def no_gaps(case: Case) -> Condition:
    """Check that no steps of episodes are missing."""
    n_gaps = case.evidence.counts.n_gaps
    return Condition(
        name="whole-episodes",
        statement="no step of an episode is missing",
        is_satisfied=n_gaps == 0,
        value=float(n_gaps),
        limit=0.0,
        n_violations=n_gaps,
    )


def states_listed(case: Case) -> Condition:
    """Check that the list of states does not come from the log itself."""
    given = not case.baseline.policy.is_estimated
    return Condition(
        name="states-listed",
        statement="the states are listed by the baseline, or declared complete (states_complete): "
        "a list that the log itself has drawn up grows with chance",
        is_satisfied=given or case.evidence.declared.states_complete,
    )


def states_complete(case: Case) -> Condition:
    """Check that the states are declared complete."""
    return Condition(
        name="states-complete",
        statement="the states are declared complete (states_complete)",
        is_satisfied=case.evidence.declared.states_complete,
    )


def rewards_known(case: Case) -> Condition:
    """Check that no pair has paid different rewards."""
    log = case.evidence.log
    statement = "rewards are known once seen: no pair of the log has paid different ones"
    if log is None:
        return Condition("rewards-known", statement, is_checked=False)
    pair = log.state * log.n_actions + log.action
    least = np.full(case.difference.size, np.inf)
    most = np.full(case.difference.size, -np.inf)
    np.minimum.at(least, pair, log.reward)
    np.maximum.at(most, pair, log.reward)
    varies = (least < most).reshape(case.difference.shape)
    return Condition(
        name="rewards-known",
        statement=statement,
        is_satisfied=not varies.any(),
        value=float(varies.sum()),
        limit=0.0,
        n_violations=int(varies.sum()),
        where=_first(case, np.asarray(varies.any(axis=1))),
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
