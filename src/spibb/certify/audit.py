"""Judge any policy against a log and the baseline that made it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from spibb.certify import checks
from spibb.certify.case import Case, spent_budget
from spibb.certify.certificate import Certificate, Guarantee, StateAudit
from spibb.certify.robust import regret_test
from spibb.certify.theorems import spibb_bound, theorem_1, theorem_2
from spibb.errors import checked_number
from spibb.mdp.evaluation import evaluate
from spibb.mdp.policy import TabularPolicy
from spibb.problem import Problem, ProblemOptions
from spibb.problem.origin import TOLD, policy_origin
from spibb.problem.problem import Baseline
from spibb.uncertainty.error_functions import ErrorFunction, HoeffdingQ, checked_delta

_HOLDS = (
    " What is guaranteed here holds for every policy at once, and so for one that this log chose; "
    "its estimated gain is optimistic."
)


def certify(
    case: Case,
    claims: Sequence[Guarantee],
    error: ErrorFunction,
    epsilon: float | None,
    *,
    is_one_sided: bool = False,
) -> Certificate:
    """Assemble a certificate: the checks, what is claimed, and what stands beside it.

    Args:
        case: The case.
        claims: What is claimed, decided before the data were seen, then others, for information.
        error: Errors by which the spent budget is measured.
        epsilon: The budget, or None if there was none.
        is_one_sided: Whether the budget is for increases only.
    """
    errors = error.errors(case.problem, case.delta)
    return Certificate(
        guarantee=claims[0],
        others=tuple(claims[1:]),
        checks=(
            checks.constraint(case, errors, epsilon, is_one_sided=is_one_sided),
            checks.advantage(case, case.advantage, "the estimated model"),
            checks.improvement(case),
            *checks.limits(case),
        ),
        delta=claims[0].delta,
        states=StateAudit(
            spent=spent_budget(case.difference, errors, is_one_sided=is_one_sided),
            moved=np.abs(case.difference).sum(axis=1) / 2.0,
            advantage=case.advantage,
            improvement=case.improvement,
            n_rows=case.problem.counts.n_sa.sum(axis=1),
        ),
    )


def audit(
    log: Any,
    *,
    policy: TabularPolicy,
    baseline: Baseline | None = None,
    gamma: float | None = None,
    delta: float = 0.05,
    epsilon: float | None = None,
    n_wedge: float | None = None,
    error: ErrorFunction | None = None,
    **options: Unpack[ProblemOptions],
) -> Certificate:
    """Check any policy: how far it is from the baseline, what is guaranteed, where it fails.

    The regret test is the claim; Theorems 1 and 2, and the SPIBB bound where ``n_wedge`` is given,
    are reported beside it.

    Args:
        log: The log that the baseline made, or a problem; see :meth:`spibb.Problem.of`.
        policy: The policy to judge.
        baseline: The policy that made the log, or "estimate".
        gamma: The discount.
        delta: Allowed probability of error.
        epsilon: Budget to hold the policy to; None only measures what it spends.
        n_wedge: Threshold to hold the policy to, as in Pi_b-SPIBB.
        error: Error function, HoeffdingQ if None.
        **options: As for :meth:`spibb.Problem.of`.
    """
    if epsilon is not None:
        checked_number(epsilon, "epsilon", "a budget >= 0", least=0)
    if n_wedge is not None:
        checked_number(n_wedge, "n_wedge", "a number of observations >= 0", least=0)
    problem = Problem.of(log, baseline=baseline, gamma=gamma, **options)
    problem.check_state()
    policy = problem.align(policy)
    judged, origin = evaluate(problem.model, policy), policy_origin(problem, policy)
    case = Case(problem, judged, checked_delta(delta))
    error = error or HoeffdingQ()
    claims = [regret_test(case)]
    if error.meaning.endswith("-q"):
        claims.append(theorem_1(case, error))
    claims.append(theorem_2(case))
    if n_wedge is not None:
        claims.append(spibb_bound(case, n_wedge))
    told = TOLD[origin] + (_HOLDS if origin == "same" else "")
    return replace(certify(case, claims, error, epsilon), origin=told)
