r"""The safety theorems of the papers as code: conditions, then a number, or no claim.

All bounds are on rho(pi, M*) - rho(pi_b, M*), the true gain over the baseline from the first state
on. V_max is half the width of the range of values (spibb.problem.ranges). Wherever a theorem
has the budget epsilon, the budget that was really spent stands in its place: the event on which the
theorem rests does not depend on the policy, so the policy's own spending is as good. Where a bound
is an average over the first state, it is taken at the worst start that the log cannot rule out.

Where values are known but for an error, which large models have (`Evaluation.error`), bounds are
less by it.

As printed, two of them are false: docs/guarantees.md has the smallest cases. Here each is claimed
under further conditions, checked on the log, under which it is proved there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from spibb.certify import checks
from spibb.certify.case import Case, spent_budget
from spibb.certify.certificate import Condition, Guarantee
from spibb.certify.estimated_baseline import estimation_loss, recorded_in_full, shift_of
from spibb.certify.kappa import kappa
from spibb.certify.model_set import listed_radii
from spibb.certify.occupancy import occupancy_error
from spibb.problem import Problem
from spibb.uncertainty.error_functions import ErrorFunction, HoeffdingQ
from spibb.uncertainty.thresholds import zeta

# Below so many observations the SPIBB radius for a fixed count does not cover a random one.
_FEWEST_TRUSTED = 4.0
_MANY_ROWS = 1e100


def theorem_1(case: Case, error: ErrorFunction | None = None) -> Guarantee:
    """Theorem 1 of the paper: constrained and advantageous policies.

    V - V_b >= A^(x) - epsilon V_max / (1 - gamma) in every state, where A^(x) >= 0 is the policy's
    estimated advantage (the paper drops it).

    Args:
        case: The case.
        error: HoeffdingQ (advantage by the estimated model, as in the paper: proved for one-step
            logs alone) or an error of returns (advantage by mean first-visit returns).
    """
    error = error or HoeffdingQ()
    by_returns = error.meaning == "return-q"
    errors = error.errors(case.problem, case.delta_but_start)
    gain, kind = case.advantage, "the estimated model"
    if by_returns:  # pairs without returns must not have moved
        gain, kind = (case.problem.returns().mean * case.difference).sum(axis=1), "mean returns"

    def bound() -> tuple[float, dict[str, float]]:
        spent = float(spent_budget(case.difference, errors).max())
        start = case.at_worst_start(np.maximum(gain, 0.0))
        start -= 0.0 if by_returns else case.value_error
        loss = spent * case.problem.values.v_max / (1 - case.problem.gamma)
        return start - loss, {"spent": spent, "estimated_advantage": start, "possible_loss": loss}

    return apply_theorem(
        case,
        "Theorem 1 (Soft-SPIBB)" + (", by returns" if by_returns else ""),
        "A (pi_b, e_Q, epsilon)-constrained, advantageous policy loses at most "
        "epsilon V_max / (1 - gamma).",
        (
            *([] if by_returns else [checks.one_step(case)]),
            checks.made_by_baseline(case),
            checks.constraint(case, errors, None),
            checks.advantage(case, gain, kind),
        ),
        bound,
        assumptions=(
            MADE_BY_BASELINE,
            _RETURNS if by_returns else _FIXED,
            *([] if case.problem.declared.states_complete else [_LISTED]),
        ),
        is_uniform=False,
    )


def theorem_2(case: Case) -> Guarantee:
    """Theorem 2 of the paper: constrained policies under Assumption 1.

    V - V_b >= V^ - V^_b - L ||d* - d^||_1 - (1 + gamma) epsilon V_max / ((1 - gamma)^2
    (1 - kappa gamma)), with L = max_x |sum_a Q^(x, a) (pi - pi_b)(a | x)| <= 2 V_max, the paper's
    factor, and the occupancy term bounded by spibb.certify.occupancy.
    """
    needed = kappa(case)

    def bound() -> tuple[float, dict[str, float]]:
        gamma, worst = case.problem.gamma, float(needed.max())
        spent = float(spent_budget(case.difference, case.transition_errors).max())
        local = float(np.abs((case.policy.q * case.difference).sum(axis=1)).max())
        local += 2.0 * case.policy.error
        visits = local * occupancy_error(case)
        scale = (1 + gamma) / ((1 - gamma) ** 2 * (1 - worst * gamma))
        change_loss = scale * spent * case.problem.values.v_max
        details = {
            "spent": spent,
            "kappa": worst,
            "estimated_gain": case.policy.performance - case.baseline.performance,
            "occupancy_loss": float(case.problem.model.initial @ visits),
            "change_loss": change_loss,
        }
        start = case.at_worst_start(case.improvement - visits) - case.value_error
        return start - change_loss, details

    return apply_theorem(
        case,
        "Theorem 2 (Soft-SPIBB)",
        "A (pi_b, e_P, epsilon)-constrained policy keeps its estimated gain up to an occupancy "
        "term and (1 + gamma) epsilon V_max / ((1 - gamma)^2 (1 - kappa gamma)).",
        (
            checks.states_complete(case),
            checks.constraint(case, case.transition_errors, None),
            _assumption_1(case, needed),
        ),
        bound,
    )


def spibb_bound(case: Case, n_wedge: float) -> Guarantee:
    """The bound of Pi_b-SPIBB (Laroche et al. 2019, Theorem 2), where both policies are known.

    rho - rho_b >= rho^ - rho^_b - zeta(n_wedge), with the original zeta of
    spibb.uncertainty.thresholds, where (1 - gamma) r_R + gamma r_P at n_wedge rows is at most twice
    the root of zeta: docs/guarantees.md proves that it is, from 4 to 1e9 rows, for delta <= 1/4,
    and here it is checked. The tighter ones rest on a reduction that is not proved.
    """
    threshold = max(n_wedge, _FEWEST_TRUSTED)

    def bound() -> tuple[float, dict[str, float]]:
        n_states, n_actions = case.problem.counts.n_sa.shape
        loss = zeta(
            n_wedge=threshold,
            delta=case.delta_but_start,
            n_states=n_states,
            n_actions=n_actions,
            v_max=case.problem.values.v_max,
            gamma=case.problem.gamma,
        )
        gain = case.at_worst_start(case.improvement) - case.value_error
        return gain - loss, {"estimated_gain": gain, "possible_loss": loss}

    return apply_theorem(
        case,
        "SPIBB bound (Pi_b)",
        "A policy that equals the baseline on rare pairs keeps its estimated gain up to "
        "4 V_max r(n_wedge) / (1 - gamma).",
        (
            checks.states_complete(case),
            checks.bootstrapped_copy(case, threshold),
            checks.only_trusted(case, threshold),
            _small_radii(case, threshold),
        ),
        bound,
    )


def _small_radii(case: Case, n_wedge: float) -> Condition:
    """Check that the radii at n_wedge rows are paid for by zeta, weighted as values weigh them."""
    problem, n_pairs = case.problem, case.problem.counts.n_sa.size
    n_states, gamma, delta = problem.counts.n_states, problem.gamma, case.delta_but_start
    n_wedge = min(n_wedge, _MANY_ROWS)  # an infinite threshold trusts no pair anyway
    transition, reward = listed_radii(n_wedge, n_pairs, n_states + 1, gamma, delta)
    log_term = math.log(2.0 * n_pairs / delta) + n_states * math.log(2.0)
    weighted = (1.0 - gamma) * reward + gamma * transition
    limit = 2.0 * math.sqrt(2.0 / n_wedge * log_term)
    statement = (
        "at n_wedge rows (1 - gamma) r_R + gamma r_P, the radii for random counts, is at most "
        "twice the radius for a fixed one"
    )
    return Condition("radii", statement, True, weighted <= limit, weighted, limit)


def lemma_1(case: Case) -> NDArray[np.float64] | None:
    """Bound |Q* - Q^| of the policy for every pair (Lemma 1), or None if Assumption 1 fails.

    (e_P + gamma epsilon / (1 - gamma)) V_max / (1 - kappa gamma), with the budget spent as epsilon.
    """
    gamma = case.problem.gamma
    needed = kappa(case)
    if gamma >= 1 or case.delta >= 1 or not _assumption_1(case, needed).is_satisfied:
        return None
    errors = case.transition_errors
    spent = float(spent_budget(case.difference, errors).max())
    scale = case.problem.values.v_max / (1 - gamma * float(needed.max()))
    return np.asarray((errors + gamma * spent / (1 - gamma)) * scale + case.policy.error)


MARKOV = (
    "The recorded state decides alone, chance apart, what follows and what those who made the log "
    "did; the process does not change over time."
)
MADE_BY_BASELINE = (
    "The log was made by the baseline, in every state, and the state it records is all that "
    "decided its action."
)
_LISTED = "The list of states and actions was fixed before the log was seen."
_FIXED = "How often each action was taken does not depend on what it earned."
_ESTIMATED = (
    "The baseline was estimated from the same log, and the estimate is taken to be the policy that "
    "made it: the gain is over the estimate."
)
_STOPS = (
    "That a record stops, or lacks a next state, says nothing of what came next, nor of what its "
    "last row paid, which is not counted."
)
_TERMINAL = "States that the log enters only as an end are terminal."
_EPISODES = "Episodes are independent; one that is not over after {longest} steps is cut there."
_RETURNS = "Episodes are independent of each other and alike in distribution."
_ELSEWHERE = (
    "In a state that neither the log nor the baseline names, the baseline's own rule goes on "
    "acting."
)
_STARTS = "First states of episodes are drawn independently of each other, from one distribution."


def apply_theorem(
    case: Case,
    theorem: str,
    statement: str,
    conditions: Iterable[Condition],
    bound: Callable[[], tuple[float, dict[str, float]]],
    *,
    assumptions: tuple[str, ...] = (MARKOV,),
    is_uniform: bool = True,
) -> Guarantee:
    """Apply a theorem: its number is computed only if every condition holds.

    Args:
        case: The case.
        theorem: Its name.
        statement: What it says.
        conditions: What it asks for beside what all theorems do.
        bound: Returns its number, and those that it is made of.
        assumptions: What cannot be checked, beside what all theorems assume.
        is_uniform: Whether it holds for all baselines at once, an estimated one among them.
    """
    problem, delta, n_episodes = case.problem, case.delta, 0
    values, is_estimated = problem.values, problem.baseline.is_estimated
    conditions = (*checks.common(case), *conditions)
    assumptions = (*assumptions, *_common_assumptions(problem))
    is_kept = not case.difference.any()  # the baseline gains nothing over itself, and loses nothing
    if is_kept and not is_estimated:  # whatever the log is like; without a discount nothing is said
        conditions = tuple(part for part in conditions if part.name == "discount")
        assumptions = ()
    if is_estimated and is_uniform and problem.log is not None:
        # Beside it stands the event that the estimate of the baseline is near: delta for each. It
        # is a union over all states, which the log must not have drawn up.
        condition, n_episodes, longest = recorded_in_full(problem.log)
        if not any(part.name == "states-complete" for part in conditions):
            reason = ", since what the estimate of the baseline may miss is a sum over all of them"
            conditions += (checks.states_complete(case, reason),)
        conditions += (condition,)
        assumptions += (_EPISODES.format(longest=longest),)
        delta = min(1.0, 2 * delta)
        theorem += ", estimated baseline"
        statement += " What the estimate of the baseline may miss is subtracted."
    elif is_estimated:
        assumptions += (_ESTIMATED,)
    number: float | None = None
    details: dict[str, float] = {}
    if all(condition.is_satisfied for condition in conditions):
        number, details = (0.0, {}) if is_kept else bound()
        if n_episodes and problem.log is not None:
            shift = shift_of(problem.log, problem.baseline.probabilities)
            loss = estimation_loss(
                values, case.difference.size, n_episodes, longest, case.delta, shift
            )
            number, details = number - loss, {**details, "estimation_loss": loss}
    proviso = problem.proviso if assumptions else None
    return Guarantee(
        theorem=theorem,
        statement=statement,
        conditions=conditions,
        assumptions=assumptions,
        delta=delta,
        bound=number,
        details=details,
        worst_loss=2.0 * values.v_max,
        is_exact=proviso is None,
        proviso=proviso,
    )


def _common_assumptions(problem: Problem) -> tuple[str, ...]:
    values, counts, declared = problem.values, problem.counts, problem.declared
    origin = "as observed in the log, not given" if values.is_observed else "as given"
    texts = {
        f"Rewards lie in [{values.low:g}, {values.high:g}], {origin}.": True,
        _ELSEWHERE: not declared.states_complete,
        _STARTS: declared.initial is None,
        _TERMINAL: counts.terminal.any(),
        _STOPS: counts.n_dropped,
    }
    pooled = () if problem.loggers is None else (problem.loggers.assumption,)
    return (*(text for text, holds in texts.items() if holds), *pooled, *declared.statements)


def _assumption_1(case: Case, needed: NDArray[np.float64]) -> Condition:
    gamma, most = case.problem.gamma, float(needed.max())
    limit = 1 / gamma if gamma > 0 else math.inf
    statement = "Assumption 1 holds with kappa < 1 / gamma for every model in the L1 ball"
    return checks.in_all(case, "assumption-1", statement, needed >= limit, most, limit)
