r"""Robust MDP with a safety test (Iyengar 2005, Nilim and El Ghaoui 2005; Petrik et al. 2016).

    pi = argmax_pi min_{M in the set} rho(pi, M);   return pi if its worst value is at least the
    *best* value of the baseline in the set, otherwise return the baseline.

The set holds, for every pair, the transitions within min(2, e_P) of P^ in L1 norm, ending being an
outcome, and the rewards within min(2, e_P) R_max of R^ and inside their range.

Guarantee: with probability 1 - delta the true model is in the set, and then the policy that is
returned is worth at least as much as the baseline; the certificate states how much more.

Deviations from the released code of SPIBB: rewards R(x, a) are estimated, uncertain, and of any
sign; pairs without data may do anything, for the least reward; the radius has the factor 2 in its
logarithm; values are exact up to an error that the test accounts for (the code stops after 200
sweeps or at 0.005); the test decides what is returned; and the baseline's value, which is unknown,
enters by its upper bound. Ties keep the baseline's row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.base import DEFAULT_DELTA, Algorithm, Problems
from spibb.certify.case import Case
from spibb.certify.certificate import Guarantee
from spibb.certify.robust import ModelSet, Verdict, robust_test
from spibb.mdp.evaluation import evaluate_batch
from spibb.mdp.planning import Iterated, Status
from spibb.mdp.robust import robust_planning
from spibb.uncertainty.error_functions import ErrorFunction, HoeffdingP, checked_delta


@dataclass(frozen=True, kw_only=True)
class RobustMDP(Algorithm):
    """Plan for the worst model of a set, and return the plan only if it is surely no worse.

    Args:
        delta: Allowed probability that the true model is not in the set.

    Example:
        With 100 rows each, e_P = sqrt(0.02 (log 80 + log 2)) = 0.3186 and R_max = 1 / 2. Action 1
        is worth at least 1 - e_P / 2, the baseline at most (e_P / 2 + 1) / 2.

        >>> from spibb import Log, TabularPolicy
        >>> log = Log.from_arrays(state=[0] * 200, action=[0, 1] * 100, reward=[0.0, 1.0] * 100,
        ...                       terminated=[True] * 200, episode=range(200))
        >>> result = RobustMDP(delta=0.05).improve(
        ...     log, baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.0, reward_range=(0.0, 1.0))
        >>> result.policy.probabilities, round(result.certificate.bound, 4)
        (array([[0., 1.]]), 0.2611)
    """

    delta: float = DEFAULT_DELTA
    id: ClassVar[str] = "robust-mdp"

    def __post_init__(self) -> None:
        checked_delta(self.delta)

    def search(self, problems: Problems, rng: np.random.Generator | None = None) -> Iterated:
        """Plan, then test."""
        models = ModelSet.of(problems.evidence, problems.batch, self.delta)
        start = problems.first[0]
        plan = robust_planning(models.low, models.radius, problems.baseline, start)
        worst = models.at_least(plan.values)
        best = models.at_most(models.best(problems.baseline, start))
        verdicts = [
            Verdict(gap, {"worst_value": gap + limit, "baseline_best_value": limit})
            for gap, limit in zip((worst - best).tolist(), best.tolist(), strict=True)
        ]
        return decided(problems, plan.policy, verdicts, plan.n_iterations, plan.is_settled)

    def claim(self, case: Case, finding: Any = None) -> Guarantee | None:
        """Claim what the safety test found."""
        return robust_test(case, finding)

    def yardstick(self) -> tuple[ErrorFunction, float | None]:
        """Judge by the radii of the set; there is no budget."""
        return HoeffdingP(), None


def decided(
    problems: Problems,
    candidates: NDArray[np.float64],
    verdicts: Sequence[Verdict],
    n_iterations: NDArray[np.int64],
    is_settled: NDArray[np.bool_],
) -> Iterated:
    """Return the candidates that passed, the baseline elsewhere.

    Args:
        problems: The problems.
        candidates: Shape (B, S, A).
        verdicts: What the test found; a candidate passes if its bound is not negative, and if it
            is not the baseline itself.
        n_iterations: Improvement steps, shape (B,).
        is_settled: Whether the search ended by itself, shape (B,).
    """
    passed = np.array([verdict.bound >= 0.0 for verdict in verdicts])
    passed &= (candidates != problems.baseline).any(axis=(1, 2))
    policy = np.where(passed[:, None, None], candidates, problems.baseline)
    v, q, _ = evaluate_batch(problems.batch, policy)
    status = np.full(len(passed), Status.CONVERGED, dtype=object)
    status[~is_settled] = Status.MAX_ITERATIONS
    status[~passed] = Status.BASELINE_KEPT
    # The baseline gains nothing over itself, whatever the test said of the candidate.
    findings = [
        verdict if accepted else Verdict(0.0, verdict.details)
        for verdict, accepted in zip(verdicts, passed, strict=True)
    ]
    return Iterated(policy, v, q, n_iterations, status, findings)
