r"""Robust baseline regret (Petrik, Ghavamzadeh, Chow, NeurIPS 2016), with a test that is valid.

    max_pi min_{M in the set} [rho(pi, M) - rho(pi_b, M)],   the set being that of RobustMDP.

The problem is NP-hard. Candidates are found by relaxations, each is held to a lower bound D on the
minimum (spibb.certify.regret), and the one of largest D at the worst start is returned if that is
not negative, otherwise the baseline. Candidates:

1. the surrogate's optimum: the robust MDP with one more action, "follow the baseline", free of
   error;
2. RobustMDP's optimum, so that whatever RobustMDP accepts is accepted here, with a larger bound;
3. a regret step from the baseline, and a few more from the better of 1 and 2. With Q_worst and D
   of the policy at hand, the row that maximises D one step ahead has a closed form: an action keeps
   the baseline's probability if gamma min P.D + Q_best_b is not below max Q_worst, the rest goes to
   the action of largest Q_worst. The step from the baseline cannot make D negative anywhere.

Guarantee: with probability 1 - delta, rho(pi, M*) - rho(pi_b, M*) >= D. The event does not depend
on the policy, so testing several candidates costs nothing.

Deviations: the paper keeps the surrogate's optimum if its surrogate value beats the baseline's.
That is unsafe: it can steer into states where the baseline's own action is uncertain. No public
code of the method is known. The baseline may be stochastic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.base import Rng
from spibb.algorithms.robust_mdp import ModelSetAlgorithm, passed_or_kept
from spibb.certify.case import Case
from spibb.certify.certificate import Guarantee
from spibb.certify.model_set import ModelSet
from spibb.certify.regret import RegretTest
from spibb.certify.robust import regret_test
from spibb.mdp.mixed_action import with_mixed_action
from spibb.mdp.planning import SearchResult
from spibb.mdp.robust import RobustPlan, RobustValues, robust_planning
from spibb.problem import ProblemBatch

# Regret steps from the better plan; on random problems a fifth one finds next to nothing.
_STEPS = 4

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class RobustBaselineRegret(ModelSetAlgorithm):
    """Return the policy whose surely gained value over the baseline is largest.

    Args:
        delta: Allowed probability that the true model is not in the set.

    Example:
        Rewards are known to r = sqrt(0.15 (log 40 + log(3) / 2)) / 2 = 0.3987 with 20 rows each.
        Half of the probability changes its action: D = (1 - r) / 2 - r / 2. RobustMDP, which
        bounds each policy on its own, refuses: 1 - r < (r + 1) / 2.

        >>> from spibb import Log, TabularPolicy
        >>> log = Log.from_arrays(state=[0] * 40, action=[0, 1] * 20, reward=[0.0, 1.0] * 20,
        ...                       terminated=[True] * 40, episode=range(40))
        >>> result = RobustBaselineRegret(delta=0.05).improve(
        ...     log, baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.0, reward_range=(0.0, 1.0),
        ...     initial=[1.0], states_complete=True)
        >>> result.policy.probabilities, round(result.certificate.bound, 4)
        (array([[0., 1.]]), 0.1013)
    """

    id: ClassVar[str] = "robust-baseline-regret"

    def search(self, problems: ProblemBatch, rng: Rng = None) -> SearchResult:
        """Find candidates, test each, keep the best."""
        test = RegretTest.of(problems, self.delta)
        models, baseline = test.models, test.baseline
        start = models.values(problems.baseline_values[0])
        surrogate = _surrogate(problems, models)
        plain = robust_planning(models.low, models.balls, baseline, start)
        held = _Tested.of(test, baseline)
        best = held.or_better(_stepped(test, held))
        current = _Tested.of(test, plain.policy, best)
        current = current.or_better(_Tested.of(test, surrogate.policy, current))
        best = best.or_better(current)
        for _ in range(_STEPS):
            current = _stepped(test, current)
            best = best.or_better(current)
        steps = surrogate.n_iterations + plain.n_iterations + 1 + _STEPS
        settled = surrogate.is_settled & plain.is_settled
        return passed_or_kept(problems, models.listed(best.policy), steps, settled, best.bound)

    def claim(self, case: Case, finding: Any = None) -> Guarantee | None:
        """Claim what the test found."""
        return regret_test(case, finding)


@dataclass(frozen=True, eq=False)
class _Tested:
    """A candidate for each problem, with what the test needs and finds.

    Attributes:
        policy: Shape (B, S, A).
        floor: Its values in its worst model.
        differences: Its D.
        bound: D at the worst start, shape (B,).
    """

    policy: Array
    floor: RobustValues
    differences: RobustValues
    bound: Array

    @classmethod
    def of(cls, test: RegretTest, policy: Array, near: _Tested | None = None) -> _Tested:
        """Test candidates, starting from the values of others; elsewhere all act alike."""
        policy = test.models.policy(test.models.listed(policy))
        floor = test.models.worst(policy, None if near is None else near.floor.v)
        found = test.differences(policy, floor, None if near is None else near.differences.v)
        return cls(policy, floor, found, test.bounds(found))

    def or_better(self, other: _Tested) -> _Tested:
        """Return, for each problem, the other candidate if its bound is larger."""
        better = other.bound > self.bound

        def choose(theirs: Any, ours: Any) -> Any:
            if not isinstance(ours, np.ndarray):  # all arrays in it, one by one
                return type(ours)(*map(choose, vars(theirs).values(), vars(ours).values()))
            return np.where(better.reshape(-1, *[1] * (ours.ndim - 1)), theirs, ours)

        chosen: _Tested = choose(other, self)
        return chosen


def _surrogate(problems: ProblemBatch, models: ModelSet) -> RobustPlan:
    """Plan in the robust MDP in which following the baseline is free of error."""
    baseline = models.policy(problems.baseline)
    shape = (*baseline.shape[:2], 1)
    # Elsewhere nobody knows what following pays, nor where it leads: it keeps its own row.
    followed = models.low.reward[:, :, 0].copy()
    listed = (problems.baseline * problems.models.reward).sum(axis=2)
    followed[:, : listed.shape[1]] = listed
    plan = robust_planning(
        with_mixed_action(models.low, baseline, followed),
        models.balls.with_free_action(),
        np.append(np.zeros(baseline.shape), np.ones(shape), axis=2),
        models.values(problems.baseline_values[0]),
    )
    policy = plan.policy[:, :, :-1] + plan.policy[:, :, -1:] * baseline
    return RobustPlan(policy, plan.values, plan.n_iterations, plan.is_settled)


def _stepped(test: RegretTest, from_: _Tested) -> _Tested:
    """Take one regret step and test what it gives."""
    return _Tested.of(test, regret_step(test, from_.floor, from_.differences), from_)


def regret_step(test: RegretTest, floor: RobustValues, differences: RobustValues) -> Array:
    """Return the rows that maximise D one step ahead.

    Args:
        test: The test, with the baseline and its best values.
        floor: Values of the policy at hand in its worst model.
        differences: D of the policy at hand.
    """
    receiver = floor.q.argmax(axis=2)[:, :, None]
    offered = np.take_along_axis(floor.q, receiver, axis=2)
    keeps = differences.q + test.ceiling.q >= offered
    np.put_along_axis(keeps, receiver, True, axis=2)
    kept = np.where(keeps, test.baseline, 0.0)
    given = np.where(keeps, 0.0, test.baseline).sum(axis=2, keepdims=True)
    np.put_along_axis(kept, receiver, np.take_along_axis(kept, receiver, axis=2) + given, axis=2)
    return kept
