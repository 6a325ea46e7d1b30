"""Judge any policy against a log and the baseline that made it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.certify import checks
from spibb.certify.case import Case, spent_budget
from spibb.certify.certificate import Certificate, Guarantee, StateAudit
from spibb.certify.robust import regret_test
from spibb.certify.theorems import spibb_bound, theorem_1, theorem_2
from spibb.data.baseline import align, align_to_counts
from spibb.data.counts import Counts
from spibb.data.estimate import Unseen
from spibb.data.log import Log
from spibb.errors import PolicyError, SettingsError
from spibb.mdp.evaluation import evaluate
from spibb.mdp.policy import TabularPolicy
from spibb.problem import Problem
from spibb.uncertainty.declared import Start, Successors
from spibb.uncertainty.error_functions import ErrorFunction, HoeffdingQ, checked_delta


def certify(
    case: Case,
    *,
    errors: NDArray[np.float64],
    epsilon: float | None,
    guarantee: Guarantee,
    is_one_sided: bool = False,
    others: tuple[Guarantee, ...] = (),
) -> Certificate:
    """Assemble a certificate: the checks, what is claimed, and what stands beside it.

    Args:
        case: The case.
        errors: Errors by which the spent budget is measured.
        epsilon: The budget, or None if there was none.
        guarantee: What is claimed, decided before the data were seen.
        is_one_sided: Whether the budget is for increases only.
        others: Further theorems, for information.
    """
    return Certificate(
        guarantee=guarantee,
        others=others,
        checks=(
            checks.constraint(case, errors, epsilon, is_one_sided=is_one_sided),
            checks.advantage(case, case.advantage, "the estimated model"),
            checks.improvement(case),
        ),
        delta=guarantee.delta,
        states=StateAudit(
            spent=spent_budget(case.difference, errors, is_one_sided=is_one_sided),
            moved=np.abs(case.difference).sum(axis=1) / 2.0,
            advantage=case.advantage,
            improvement=case.improvement,
            n_rows=case.evidence.counts.n_sa.sum(axis=1),
        ),
    )


def audit(
    log: Log | Counts,
    *,
    baseline: TabularPolicy,
    policy: TabularPolicy,
    gamma: float,
    delta: float = 0.05,
    epsilon: float | None = None,
    n_wedge: float | None = None,
    error: ErrorFunction | None = None,
    reward_range: tuple[float, float] | None = None,
    initial: Start | None = None,
    unseen: Unseen = "average",
    states_complete: bool = False,
    never_ends: bool = False,
    successors: Successors | None = None,
) -> Certificate:
    """Check any policy: how far it is from the baseline, what is guaranteed, where it fails.

    The regret test is the claim; Theorems 1 and 2, and the SPIBB bound where ``n_wedge`` is given,
    are reported beside it.

    Args:
        log: The log that the baseline made, or its counts.
        baseline: The policy that made the log.
        policy: The policy to judge.
        gamma: The discount.
        delta: Allowed probability of error.
        epsilon: Budget to hold the policy to; None only measures what it spends.
        n_wedge: Threshold to hold the policy to, as in Pi_b-SPIBB.
        error: Error function, HoeffdingQ if None.
        reward_range: Smallest and largest possible reward; None: those in the log.
        initial: Distribution of the first state; see :class:`spibb.Problem`, as for the others.
        unseen: What pairs without data do in the estimated model.
        states_complete: Declares that there are no other states.
        never_ends: Declares that the process never ends.
        successors: Declares what may follow.
    """
    if epsilon is not None and not epsilon >= 0:
        raise SettingsError(f"epsilon is {epsilon}", expected="a budget >= 0")
    if n_wedge is not None and not n_wedge >= 0:
        raise SettingsError(f"n_wedge is {n_wedge}", expected="a number of observations >= 0")
    if isinstance(log, Log):
        log, baseline = align(log, baseline)
        policy = _aligned_policy(log, baseline, policy)
    problem = Problem.of(
        log,
        baseline=baseline,
        gamma=gamma,
        reward_range=reward_range,
        initial=initial,
        unseen=unseen,
        states_complete=states_complete,
        never_ends=never_ends,
        successors=successors,
    )
    policy = align_to_counts(problem.counts, policy, role="policy")
    if policy.probabilities.shape != problem.baseline.probabilities.shape:
        raise PolicyError(
            f"a policy of shape {policy.probabilities.shape}",
            expected=f"{problem.baseline.probabilities.shape}, as the baseline",
        )
    model = problem.model()
    case = Case(
        problem.evidence,
        model,
        evaluate(model, problem.baseline),
        evaluate(model, policy),
        checked_delta(delta),
    )
    chosen = error if error is not None else HoeffdingQ()
    others = [theorem_1(case, chosen)] if chosen.meaning.endswith("-q") else []
    others.append(theorem_2(case))
    if n_wedge is not None:
        others.append(spibb_bound(case, n_wedge))
    return certify(
        case,
        errors=chosen.errors(case.evidence, case.delta),
        epsilon=epsilon,
        guarantee=regret_test(case),
        others=tuple(others),
    )


def _aligned_policy(log: Log, baseline: TabularPolicy, policy: TabularPolicy) -> TabularPolicy:
    """Bring the policy to the states and actions that the log and the baseline agreed on."""
    _, aligned = align(log, policy, role="policy")
    if aligned.probabilities.shape != baseline.probabilities.shape:
        states = {aligned.state_name(x) for x in range(aligned.n_states)}
        actions = {aligned.action_name(a) for a in range(aligned.n_actions)}
        states -= {baseline.state_name(x) for x in range(baseline.n_states)}
        actions -= {baseline.action_name(a) for a in range(baseline.n_actions)}
        extra = f"state {min(states)!r}" if states else f"action {min(actions)!r}"
        raise PolicyError(
            f"the policy has {extra}, which neither the log nor the baseline knows",
            expected=f"their {baseline.n_states} states and {baseline.n_actions} actions",
        )
    return aligned
