r"""The regret test: how much a policy surely gains over the baseline, in every model of a set.

With m = min(pi, pi_b) and the set of spibb.certify.model_set,

    D(x) = sum_a m(a) gamma min_P P.D + sum_a (pi - m)(a) Q_worst(x, a)
           - sum_a (pi_b - m)(a) Q_best_b(x, a),      rho(pi, M*) - rho(pi_b, M*) >= min_p p.D.

Where both policies act alike, their rewards cancel and only the difference later on is bounded. D
is the fixed point of a monotone contraction of which the true difference is a super-solution; it is
0 for pi = pi_b, and never below worst value minus best value. In a state that nobody named, both
act alike: D there is gamma times the least D. Computed values are used with their errors on the
safe side. Derivation: docs/algorithms/robust-baseline-regret.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spibb.certify.model_set import ModelSet
from spibb.mdp.batch import ModelBatch
from spibb.mdp.mixed_action import with_mixed_action
from spibb.mdp.robust import Balls, RobustValues, robust_evaluation
from spibb.problem import ProblemBatch

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RegretTest:
    """The test of any number of policies against one baseline, for each problem of a batch.

    Attributes:
        models: The set.
        baseline: With a row for elsewhere, shape (B, S, A).
        ceiling: Values of the baseline in its best model.
        frame: The estimated models with one more action, which ends: its reward is what a policy
            gains and loses at once by acting unlike the baseline.
        balls: The balls around the rows of the frame.
    """

    models: ModelSet
    baseline: Array
    ceiling: RobustValues
    frame: ModelBatch
    balls: Balls

    @classmethod
    def of(cls, problems: ProblemBatch, delta: float) -> RegretTest:
        """Prepare the test against the baselines of problems, at level delta."""
        models = ModelSet.of(problems, delta)
        baseline = models.policy(problems.baseline)
        ceiling = models.best(baseline, models.values(problems.baseline_values[0]))
        zeros = np.zeros(baseline.shape)
        frame = with_mixed_action(replace(models.low, reward=zeros), zeros, zeros[:, :, 0])
        return cls(models, baseline, ceiling, frame, models.balls.with_free_action())

    def differences(
        self, policy: Array, floor: RobustValues, start: Array | None = None
    ) -> RobustValues:
        """Return D as v, and gamma min P.D of every pair as q.

        Args:
            policy: With a row for elsewhere, shape (B, S, A).
            floor: Its values in its worst model.
            start: D of a policy nearby, to start from; shape (B, S).
        """
        common = np.minimum(policy, self.baseline)
        gained = (policy - common) * (floor.q - floor.error[:, None, None])
        lost = (self.baseline - common) * (self.ceiling.q + self.ceiling.error[:, None, None])
        at_once = (gained - lost).sum(axis=2, keepdims=True)
        found = robust_evaluation(
            replace(self.frame, reward=np.append(np.zeros(policy.shape), at_once, axis=2)),
            self.balls,
            np.append(common, np.ones(at_once.shape), axis=2),
            at_once[:, :, 0] if start is None else start,
        )
        return replace(found, q=found.q[:, :, :-1])

    def bounds(self, differences: RobustValues) -> Array:
        """Return D at the worst start, its error subtracted; shape (B,)."""
        return self.models.start.worst(differences.v) - differences.error

    def tested(self, policy: Array, v: Array | None = None) -> RobustValues:
        """Return the differences of policies (B, S, A) of the listed states.

        Args:
            policy: The policies.
            v: Values near those of the policies, to start from; shape (B, S).
        """
        table = self.models.policy(policy)
        floor = self.models.worst(table, None if v is None else self.models.values(v))
        return self.differences(table, floor)
