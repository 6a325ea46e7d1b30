r"""Guarantees that hold in every model the log cannot rule out (spibb.certify.model_set).

* The regret test, for any policy: rho(pi, M*) - rho(pi_b, M*) >= D (spibb.certify.regret).
* The robust test: at least the least of V_worst - V_best_b over where episodes may begin, V_worst
  the policy's values in its worst model and V_best_b the baseline's in its best one. Never above D.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.certify import checks
from spibb.certify.case import Case
from spibb.certify.certificate import Guarantee
from spibb.certify.model_set import ModelSet
from spibb.certify.regret import RegretTest
from spibb.certify.theorems import MARKOV, apply_theorem
from spibb.mdp.robust import RobustValues
from spibb.problem import Problem

Array = NDArray[np.float64]


def robust_bounds(models: ModelSet, worst: RobustValues, best: RobustValues) -> Array:
    """Return the robust test's bounds, shape (B,).

    Args:
        models: The set.
        worst: Values of the policies in their worst models.
        best: Values of the baselines in their best models.
    """
    return models.start.worst(worst.v - best.v) - worst.error - best.error


def obstacle(problem: Problem) -> str | None:
    """Say why the regret test would claim nothing on a log, whatever the policy; None if it may."""
    counts = problem.counts
    if problem.gamma >= 1.0:
        return "gamma is 1"
    if counts.n_gaps:
        return f"steps are missing after {counts.n_gaps} rows"
    if problem.declared.initial is None and int(counts.n_initial.sum()) < 2:
        return "where episodes begin is unknown"
    return "the baseline is estimated from the log" if problem.baseline.is_estimated else None


def regret_test(case: Case, found: float | None = None) -> Guarantee:
    """Claim the bound D of the regret test.

    Args:
        case: The case.
        found: What the search's own test found; None: test the policy of the case.
    """

    def bound() -> tuple[float, dict[str, float]]:
        number = found
        if number is None:
            test = RegretTest.of(case.batch, case.delta)
            table = case.policy.policy.probabilities[None].copy()
            number = float(test.bounds(test.tested(table, case.policy.v[None]))[0])
        return number, {"difference": number}

    return apply_theorem(
        case,
        "Regret test",
        "In every model that the log cannot rule out, the policy's value less the baseline's is at "
        "least this bound.",
        (),
        bound,
    )


_KNOWN_REWARDS = (
    "The reward of a pair is known once it has been seen: its mean in the log is taken for the "
    "truth, and only transitions are uncertain."
)


def robust_test(
    case: Case, found: float | None = None, *, known_rewards: bool = False
) -> Guarantee:
    """Claim the worst value of the policy minus the best value of the baseline.

    Args:
        case: The case.
        found: What the search's own test found; None: test the policy of the case.
        known_rewards: Whether the set takes the mean rewards of the log for the true ones.
    """

    def bound() -> tuple[float, dict[str, float]]:
        number = found
        if number is None:
            models = ModelSet.of(case.batch, case.delta, known_rewards=known_rewards)
            policy = models.policy(case.policy.policy.probabilities[None])
            best = models.best(models.policy(case.batch.baseline))
            number = float(robust_bounds(models, models.worst(policy), best)[0])
        return number, {"difference": number}

    conditions = [checks.rewards_known(case)] * known_rewards
    return apply_theorem(
        case,
        "Robust test" + (", rewards known" if known_rewards else ""),
        "In every model that the log cannot rule out, the policy is worth at least its worst value "
        "and the baseline at most its best value.",
        conditions,
        bound,
        assumptions=(MARKOV, _KNOWN_REWARDS) if known_rewards else (MARKOV,),
    )
