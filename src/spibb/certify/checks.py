"""The conditions that are checked on results, state by state.

Values of a policy that does not end are NaN. They must fail every check, hence the negated
comparisons.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.certify.case import ROUNDING, Case, spent_budget
from spibb.certify.certificate import Condition
from spibb.data.baseline_fit import FIT_LEVEL

Flags = NDArray[np.bool_]
LIMIT_CHECKS = ("limits", "max-states", "min-gain", "costs")


def in_all(
    case: Case,
    name: str,
    statement: str,
    fails: Flags,
    value: float | None = None,
    limit: float | None = 0.0,
) -> Condition:
    """Return what must hold in every state, of flags (S,), or for every pair, of flags (S, A).

    Without a value, what was found is how often it fails.
    """
    first, n = np.argwhere(fails)[:1].tolist(), int(fails.sum())
    where = case.problem.counts.place(*first[0]) if first else None
    value = float(n) if value is None else value
    return Condition(name, statement, True, n == 0, value, limit, n, where)


def none_of(name: str, statement: str, n: int, where: str | None = None) -> Condition:
    """Return what must not occur at all, and occurs so many times."""
    return Condition(name, statement, True, n == 0, float(n), 0.0, n, where)


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
    limit = "finite" if epsilon is None else "<= epsilon"
    most = np.finfo(np.float64).max if epsilon is None else epsilon * (1 + ROUNDING) + ROUNDING
    statement = f"the policy is (pi_b, e, epsilon)-constrained: {cost} {limit}"
    return in_all(case, "constraint", statement, ~(spent <= most), float(spent.max()), epsilon)


def advantage(case: Case, values: NDArray[np.float64], kind: str) -> Condition:
    """Check that the policy is advantageous over the baseline in every state.

    Args:
        case: The case.
        values: sum_a pi(a | x) A_b(x, a), shape (S,).
        kind: By which estimate of the baseline's Q: "the estimated model", "mean returns".
    """
    statement = f"the policy is advantageous in every state by {kind}: sum_a pi A_b >= 0"
    return _not_negative(case, "advantage", statement, values)


def improvement(case: Case) -> Condition:
    """Check that the policy is at least as good as the baseline in the model, in every state."""
    statement = "the policy is an improvement in the estimated model: V >= V_b in every state"
    return _not_negative(case, "improvement", statement, case.improvement)


def _not_negative(case: Case, name: str, statement: str, values: NDArray[np.float64]) -> Condition:
    scale = max(1.0, float(np.abs(case.baseline.q).max()), float(np.abs(case.policy.q).max()))
    least = -ROUNDING * scale - case.value_error
    return in_all(case, name, statement, ~(values >= least), float(values.min()))


def bootstrapped_copy(case: Case, n_wedge: float) -> Condition:
    """Check that the policy equals the baseline on every pair seen less than n_wedge times."""
    moved = np.where(case.problem.counts.n_sa < n_wedge, np.abs(case.difference), 0.0)
    statement = f"the policy equals the baseline on pairs seen less than {n_wedge:g} times"
    return in_all(case, "bootstrapped-copy", statement, moved > ROUNDING, float(moved.max()))


def only_trusted(case: Case, n_wedge: float) -> Condition:
    """Check that neither policy takes a pair seen less than n_wedge times, in any state."""
    taken = (case.policy.policy.probabilities > 0) | (case.problem.baseline.probabilities > 0)
    rare = taken & (case.problem.counts.n_sa < n_wedge) & ~case.problem.model.terminal[:, None]
    statement = (
        f"every pair that policy or baseline takes was seen {n_wedge:g} times: what "
        "rarer pairs are worth does not cancel, since the two visit them differently"
    )
    return in_all(case, "trusted-pairs", statement, rare)


def one_step(case: Case) -> Condition:
    """Check that the estimated Q of the baseline is a mean of observations."""
    counts = case.problem.counts
    n_going_on = int(counts.n_sa.sum()) - counts.n_ended
    return none_of(
        "one-step",
        "gamma = 0, or every row ends the process: else the model's Q of the baseline is "
        "no mean of observations, and its error is not bounded by e_Q",
        n_going_on if case.problem.gamma > 0.0 else 0,
    )


def no_gaps(case: Case) -> Condition:
    """Check that no steps of episodes are missing."""
    return none_of("whole-episodes", "no step of an episode is missing", case.problem.counts.n_gaps)


def states_complete(case: Case, reason: str = "") -> Condition:
    """Check that the states are declared complete, for a reason that is told with it."""
    statement = f"the states are declared complete (states_complete){reason}"
    is_complete = case.problem.declared.states_complete
    return Condition("states-complete", statement, is_satisfied=is_complete)


def made_by_baseline(case: Case) -> Condition:
    """Check that the log does not contradict that the baseline made it.

    The test only refuses: it claims nothing, and so takes nothing of delta. A log that says nothing
    of who made it passes, and the statement names what it then assumes.
    """
    problem = case.problem
    statement = (
        "the actions of the log do not contradict that the baseline made it (p-value of the "
        "likelihood ratio, at any size of the difference)"
    )
    fit = problem.fit
    if fit is None:
        return Condition("made-by-baseline", statement, is_checked=False, is_satisfied=True)
    is_fit = fit.p_value >= FIT_LEVEL
    return Condition(
        "made-by-baseline",
        statement,
        is_satisfied=is_fit,
        value=fit.p_value,
        limit=FIT_LEVEL,
        n_violations=0 if is_fit else 1,
        where=None if is_fit else problem.worst_fit(fit),
    )


def rewards_known(case: Case) -> Condition:
    """Check that no pair has paid different rewards."""
    log = case.problem.whole
    statement = "rewards are known once seen: no pair of the log has paid different ones"
    if log is None:
        return Condition("rewards-known", statement, is_checked=False)
    least, most = log.reward_extremes()
    return in_all(case, "rewards-known", statement, least < most)


def common(case: Case) -> tuple[Condition, ...]:
    """Check what every theorem asks for: confidence, a discount, a start, whole episodes."""
    delta, gamma, n = case.delta, case.problem.gamma, int(case.problem.counts.n_initial.sum())
    confident = "delta < 1, so that the errors are confidence bounds"  # else they are a scale only
    start = (
        "the first state is given (initial), or the log holds at least two episodes: "
        "else where episodes begin is unknown"
    )
    is_known = case.problem.declared.initial is not None or n >= 2
    return (
        Condition("confidence", confident, is_satisfied=delta < 1, value=delta, limit=1.0),
        Condition("discount", "gamma < 1", is_satisfied=gamma < 1, value=gamma, limit=1.0),
        Condition("start", start, is_satisfied=is_known, value=float(n), limit=2.0),
        no_gaps(case),
    )


def limits(case: Case) -> tuple[Condition, ...]:
    """Check that the policy keeps to the limits of its problem, one check for each kind."""
    problem, bounds = case.problem, case.problem.bounds
    if problem.limits is None or bounds is None:
        return ()
    policy = case.policy.policy.probabilities
    texts = problem.limits.statements
    found = []
    if problem.limits.on_actions:
        most = float((policy - bounds.upper)[bounds.acts].max(initial=0.0))
        statement = f"the policy keeps to its limits: {problem.limits.on_actions}"
        found.append(in_all(case, "limits", statement, bounds.exceeded(policy), max(0.0, most)))
    changed = (np.abs(case.difference).sum(axis=1) > 2.0 * ROUNDING) & bounds.acts
    if bounds.max_states is not None:
        n, most_changed = float(changed.sum()), float(bounds.max_states)
        statement = f"the policy differs from the baseline in at most {bounds.max_states} states"
        found.append(Condition("max-states", statement, True, n <= most_changed, n, most_changed))
    if bounds.min_gain is not None:
        gain = ((policy - bounds.start) * case.policy.q).sum(axis=1)
        moved = np.abs(policy - bounds.start).sum(axis=1) > 2.0 * ROUNDING
        poor = moved & ~(gain >= bounds.min_gain * (1.0 - ROUNDING))
        least = float(gain[moved].min()) if moved.any() else None
        found.append(in_all(case, "min-gain", texts["min_gain"], poor, least, bounds.min_gain))
    if bounds.costs is not None:
        dearer = np.asarray(bounds.risen(policy).any(axis=0))
        most = float((bounds.costs * policy).sum(axis=2)[:, bounds.acts].max(initial=0.0))
        statement = f"the policy makes no cost rise: {texts['cost']}"
        found.append(in_all(case, "costs", statement, dearer, max(0.0, most)))
    return tuple(found)
