r"""Bounds that hold in every model the log cannot rule out.

The set: for every pair, ||P - P^||_1 <= r and |R - R^| <= r R_max, r = min(2, e_P) by HoeffdingP,
and rewards inside their range; ending is an outcome of value 0. M* is in it with probability
1 - delta, for all pairs at once. This event does not depend on any policy, so any number of
policies may be tested on it, and the best one kept, at no cost in confidence.

* Robust test: rho(pi, M*) - rho(pi_b, M*) >= min_M rho(pi, M) - max_M rho(pi_b, M).
* Robust baseline regret, with m = min(pi, pi_b):

      D(x) = sum_a m(a) gamma min_P P.D + sum_a (pi - m)(a) Q_worst(x, a)
             - sum_a (pi_b - m)(a) Q_best_b(x, a),      rho(pi, M*) - rho(pi_b, M*) >= D(x_0).

  Where both policies act alike, their rewards cancel and only the difference later on is bounded.
  D is the fixed point of a monotone contraction of which the true difference is a
  super-solution; it is 0 for pi = pi_b, and never below the robust test's bound.

Values are computed, not exact: each is used with its error on the safe side. Derivations are in
docs/algorithms/robust-mdp.md and robust-baseline-regret.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spibb.certify import checks
from spibb.certify.case import Case
from spibb.certify.certificate import Guarantee
from spibb.certify.theorems import apply_theorem
from spibb.mdp.batch import ModelBatch
from spibb.mdp.mixed_action import with_mixed_action
from spibb.mdp.robust import (
    RobustValues,
    optimistic_evaluation,
    robust_evaluation,
)
from spibb.uncertainty.error_functions import Evidence, HoeffdingP

Array = NDArray[np.float64]


def weissman_radius(n_sa: NDArray[np.int64], delta: float) -> Array:
    """Return the L1 radius of the transitions alone, for rewards that are known.

    sqrt((2 / N) log(|X| |A| (2^(|X| + 1) - 2) / delta)): Weissman et al. (2003) for |X| + 1
    outcomes, ending being one, and all pairs at once; 2 where nothing was seen.
    """
    n_states, n_actions = n_sa.shape
    log_term = np.log(2.0 * n_states * n_actions / delta) + n_states * np.log(2.0)
    log_term += np.log1p(-np.exp2(-n_states))
    squared = np.divide(2.0 * log_term, n_sa, out=np.full(n_sa.shape, 4.0), where=n_sa > 0)
    return np.asarray(np.minimum(2.0, np.sqrt(squared)))


@dataclass(frozen=True, eq=False)
class ModelSet:
    """All models that a log cannot rule out, for each problem of a batch.

    Attributes:
        low: The estimated transitions with the smallest rewards of the set.
        high: The same with the largest rewards.
        radius: L1 radius of every pair, shape (B, S, A); 0 in terminal states.
    """

    low: ModelBatch
    high: ModelBatch
    radius: Array

    @classmethod
    def of(
        cls,
        evidence: Sequence[Evidence],
        batch: ModelBatch,
        delta: float,
        *,
        known_rewards: bool = False,
    ) -> ModelSet:
        """Return the set of confidence 1 - delta.

        Args:
            evidence: Counts and ranges of rewards, one for each problem.
            batch: The estimated models.
            delta: Probability that the true model is not in the set.
            known_rewards: Whether the mean rewards of the log are the true ones.
        """
        evidence = list(evidence)  # made once
        n_sa = np.stack([part.counts.n_sa for part in evidence])
        if known_rewards:
            radius = np.stack([weissman_radius(part.counts.n_sa, delta) for part in evidence])
            slack = np.zeros(radius.shape)
        else:
            errors = np.stack([HoeffdingP().errors(part, delta) for part in evidence])
            radius = np.minimum(2.0, errors)
            slack = radius * _column([part.values.r_max for part in evidence])
        # A pair without data may pay anything in the range; no pair pays anything outside it.
        slack = np.where(n_sa > 0, slack, np.inf)
        least = _column([part.values.low for part in evidence])
        most = _column([part.values.high for part in evidence])
        # Nothing is done in a terminal state, so nothing is uncertain there: it ends and pays 0.
        terminal = np.stack([part.counts.terminal for part in evidence])[:, :, None]
        return cls(
            low=replace(
                batch, reward=np.where(terminal, 0.0, np.clip(batch.reward - slack, least, most))
            ),
            high=replace(
                batch, reward=np.where(terminal, 0.0, np.clip(batch.reward + slack, least, most))
            ),
            radius=np.where(terminal, 0.0, radius),
        )

    def worst(self, policy: Array, start: Array | None = None) -> RobustValues:
        """Evaluate policies in their worst models."""
        return robust_evaluation(self.low, self.radius, policy, start)

    def best(self, policy: Array, start: Array | None = None) -> RobustValues:
        """Evaluate policies in their best models."""
        return optimistic_evaluation(self.high, self.radius, policy, start)

    def at_most(self, values: RobustValues) -> Array:
        """Average values over the first state, errors added; shape (B,)."""
        return np.asarray((self.low.initial * values.v).sum(axis=1) + values.error)

    def at_least(self, values: RobustValues) -> Array:
        """Average values over the first state, errors subtracted; shape (B,)."""
        return np.asarray((self.low.initial * values.v).sum(axis=1) - values.error)


def _column(numbers: Sequence[float]) -> Array:
    return np.array(numbers, dtype=np.float64)[:, None, None]


@dataclass(frozen=True, eq=False)
class RegretTest:
    """The test of robust baseline regret: any number of policies against one baseline.

    Attributes:
        models: The set.
        baseline: Shape (B, S, A).
        ceiling: Values of the baseline in its best model.
        frame: The estimated models with one more action, which ends: its reward is what a policy
            gains and loses at once by acting unlike the baseline.
    """

    models: ModelSet
    baseline: Array
    ceiling: RobustValues
    frame: ModelBatch

    @classmethod
    def against(cls, models: ModelSet, baseline: Array, ceiling: RobustValues) -> RegretTest:
        """Prepare the test against a baseline."""
        zeros = np.zeros(baseline.shape)
        frame = with_mixed_action(replace(models.low, reward=zeros), zeros, zeros[:, :, 0])
        return cls(models, baseline, ceiling, frame)

    def differences(
        self, policy: Array, floor: RobustValues, start: Array | None = None
    ) -> RobustValues:
        """Return D as v, and gamma min P.D of every pair as q.

        Args:
            policy: Shape (B, S, A).
            floor: Its values in its worst model.
            start: D of a policy nearby, to start from; shape (B, S).
        """
        common = np.minimum(policy, self.baseline)
        gained = (policy - common) * (floor.q - floor.error[:, None, None])
        lost = (self.baseline - common) * (self.ceiling.q + self.ceiling.error[:, None, None])
        at_once = (gained - lost).sum(axis=2, keepdims=True)
        found = robust_evaluation(
            replace(self.frame, reward=np.append(np.zeros(policy.shape), at_once, axis=2)),
            np.append(self.models.radius, np.zeros(at_once.shape), axis=2),
            np.append(common, np.ones(at_once.shape), axis=2),
            start,
        )
        return replace(found, q=found.q[:, :, :-1])


@dataclass(frozen=True)
class Verdict:
    """What a safety test found for one problem.

    Attributes:
        bound: Lower bound on the true gain of the policy that is returned.
        details: The numbers it is made of.
    """

    bound: float
    details: dict[str, float]


def robust_test(
    case: Case, verdict: Verdict | None = None, *, known_rewards: bool = False
) -> Guarantee:
    """Claim the worst value of the policy minus the best value of the baseline.

    Args:
        case: The case.
        verdict: What the search's own test found; None: test the policy of the case.
        known_rewards: Whether the set takes the mean rewards of the log for the true ones.
    """

    def test() -> Verdict:
        models, policy, baseline = _of_case(case, known_rewards)
        worst = float(models.at_least(models.worst(policy))[0])
        best = float(models.at_most(models.best(baseline))[0])
        return Verdict(worst - best, {"worst_value": worst, "baseline_best_value": best})

    return _claim(
        case,
        theorem="Robust test" + (", rewards known" if known_rewards else ""),
        statement="In every model that the log cannot rule out, the policy is worth at least its "
        "worst value and the baseline at most its best value.",
        assumptions=(_KNOWN_REWARDS,) if known_rewards else (),
        test=(lambda: verdict) if verdict is not None else test,
    )


def regret_test(case: Case, verdict: Verdict | None = None) -> Guarantee:
    """Claim the bound D of robust baseline regret; arguments as in :func:`robust_test`."""

    def test() -> Verdict:
        models, policy, baseline = _of_case(case, known_rewards=False)
        against = RegretTest.against(models, baseline, models.best(baseline))
        found = against.differences(policy, models.worst(policy))
        bound = float(models.at_least(found)[0])
        return Verdict(bound, {"difference": bound})

    return _claim(
        case,
        theorem="Robust baseline regret",
        statement="In every model that the log cannot rule out, the policy is worth at least D "
        "more than the baseline.",
        assumptions=(),
        test=(lambda: verdict) if verdict is not None else test,
    )


_TERMINAL = "States that the log enters only as an end are terminal."
_KNOWN_REWARDS = (
    "The reward of a pair is known once it has been seen: its mean in the log is taken for the "
    "truth, and only transitions are uncertain."
)


def _of_case(case: Case, known_rewards: bool) -> tuple[ModelSet, Array, Array]:
    """Return the set of one problem, the policy and the baseline."""
    models = ModelSet.of(
        [case.evidence],
        ModelBatch.stack([case.model]),
        case.delta,
        known_rewards=known_rewards,
    )
    policy, baseline = case.policy.policy, case.baseline.policy
    return models, policy.probabilities[None].copy(), baseline.probabilities[None].copy()


def _claim(
    case: Case,
    *,
    theorem: str,
    statement: str,
    assumptions: tuple[str, ...],
    test: Callable[[], Verdict],
) -> Guarantee:
    def bound() -> tuple[float, dict[str, float]]:
        verdict = test()
        return verdict.bound, dict(verdict.details)

    return apply_theorem(
        case,
        theorem=theorem,
        statement=statement,
        conditions=(checks.confident(case), checks.discounted(case)),
        assumptions=(_TERMINAL, *assumptions),
        bound=bound,
        is_uniform=True,  # the event is about the model alone, whatever the policies
    )
