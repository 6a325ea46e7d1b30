r"""Robust MDP with a safety test (Iyengar 2005, Nilim and El Ghaoui 2005; Petrik et al. 2016).

    pi = argmax_pi min_{M in the set} rho(pi, M);   return pi if its worst value is at least the
    *best* value of the baseline in the set, wherever episodes may begin, else the baseline.

The set is that of spibb.certify.model_set: transitions and rewards within confidence radii, ending
and a state that nobody named among the outcomes, and a ball around the first states.

Guarantee: with probability 1 - delta the true model is in the set, and then the policy that is
returned is worth at least as much as the baseline; the certificate states how much more.

Deviations from the released code of SPIBB: rewards R(x, a) are estimated, uncertain, and of any
sign; pairs without data may do anything, for the least reward; the radius holds for all pairs and
random counts; the start is uncertain; values are exact up to an error that the test accounts for
(the code stops after 200 sweeps or at 0.005); the test decides what is returned; and the baseline's
value, which is unknown, enters by its upper bound. Ties keep the baseline's row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.base import DEFAULT_DELTA, Algorithm, Rng
from spibb.certify.case import Case
from spibb.certify.certificate import Guarantee
from spibb.certify.model_set import ModelSet
from spibb.certify.robust import robust_bounds, robust_test
from spibb.mdp.evaluation import evaluate_batch
from spibb.mdp.planning import SearchResult, Status
from spibb.mdp.robust import robust_planning
from spibb.problem import ProblemBatch
from spibb.uncertainty.error_functions import ErrorFunction, HoeffdingP, checked_delta


@dataclass(frozen=True, kw_only=True)
class ModelSetAlgorithm(Algorithm):
    """Base of the algorithms that plan in a set of models."""

    delta: float = DEFAULT_DELTA

    def __post_init__(self) -> None:
        checked_delta(self.delta)

    @property
    def yardstick(self) -> tuple[ErrorFunction, float | None]:
        """The L1 error of transitions; there is no budget."""
        return HoeffdingP(), None


@dataclass(frozen=True, kw_only=True)
class RobustMDP(ModelSetAlgorithm):
    """Plan for the worst model of a set, and return the plan only if it is surely no worse.

    Args:
        delta: Allowed probability that the true model is not in the set.

    Example:
        Rewards are known to sqrt(0.022 (log 40 + log(11) / 2)) / 2 = 0.1639 with 100 rows each.
        Action 1 is worth at least 0.8361, the baseline at most (0.1639 + 1) / 2.

        >>> from spibb import Log, TabularPolicy
        >>> log = Log.from_arrays(state=[0] * 200, action=[0, 1] * 100, reward=[0.0, 1.0] * 100,
        ...                       terminated=[True] * 200, episode=range(200))
        >>> result = RobustMDP(delta=0.05).improve(
        ...     log, baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.0, reward_range=(0.0, 1.0),
        ...     initial=[1.0], states_complete=True)
        >>> result.policy.probabilities, round(result.certificate.others[0].bound, 4)
        (array([[0., 1.]]), 0.2541)
    """

    id: ClassVar[str] = "robust-mdp"

    def search(self, problems: ProblemBatch, rng: Rng = None) -> SearchResult:
        """Plan, then test."""
        models = ModelSet.of(problems, self.delta)
        baseline = models.policy(problems.baseline)
        start = models.values(problems.baseline_values[0])
        plan = robust_planning(models.low, models.balls, baseline, start)
        bounds = robust_bounds(models, plan.values, models.best(baseline, start))
        policy = models.listed(plan.policy)
        return passed_or_kept(problems, policy, plan.n_iterations, plan.is_settled, bounds)

    def claim(self, case: Case, finding: Any = None) -> Guarantee | None:
        """Claim what the safety test found."""
        return robust_test(case, finding)


def passed_or_kept(
    problems: ProblemBatch,
    candidates: NDArray[np.float64],
    n_iterations: NDArray[np.int64],
    is_settled: NDArray[np.bool_],
    bounds: NDArray[np.float64] | None = None,
) -> SearchResult:
    """Return the candidates that passed, the baseline elsewhere.

    Args:
        problems: The problems.
        candidates: Shape (B, S, A).
        n_iterations: Improvement steps, shape (B,).
        is_settled: Whether the search ended by itself, shape (B,).
        bounds: Lower bounds on their gains, shape (B,); a candidate passes if its bound is not
            negative, and if it is not the baseline itself. None: there is no test.
    """
    status = np.full(len(problems), Status.CONVERGED, dtype=object)
    status[~is_settled] = Status.MAX_ITERATIONS
    if bounds is not None:
        passed = (bounds >= 0.0) & (candidates != problems.baseline).any(axis=(1, 2))
        candidates = np.where(passed[:, None, None], candidates, problems.baseline)
        status[~passed] = Status.BASELINE_KEPT
    v, q, _ = evaluate_batch(problems.models, candidates)
    findings = None if bounds is None else bounds.tolist()
    return SearchResult(candidates, v, q, n_iterations, status, findings)
