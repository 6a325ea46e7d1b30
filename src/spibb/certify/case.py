"""A policy to be judged on a problem."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spibb.certify.model_set import StartBall, radii, start_share
from spibb.mdp.evaluation import Evaluation
from spibb.problem import Problem, ProblemBatch

# Values come out of linear solves: differences below this share of their size are rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Case:
    """Everything a theorem may look at.

    Attributes:
        problem: The log and its baseline, with the estimated model.
        policy: The policy to be judged, and its values in the model.
        delta: Allowed probability of error.
    """

    problem: Problem
    policy: Evaluation
    delta: float

    @property
    def baseline(self) -> Evaluation:
        """The baseline, and its values in the model."""
        return self.problem.baseline_values

    @cached_property
    def batch(self) -> ProblemBatch:
        """The problem as a batch of one."""
        return ProblemBatch.alone(self.problem)

    @property
    def difference(self) -> NDArray[np.float64]:
        """Pi - pi_b, shape (S, A); 0 where everything is over, whatever the rows say."""
        difference = self.policy.policy.probabilities - self.baseline.policy.probabilities
        return np.where(self.problem.counts.terminal[:, None], 0.0, difference)

    @cached_property
    def advantage(self) -> NDArray[np.float64]:
        """sum_a pi(a | x) A_b(x, a) in the model, shape (S,)."""
        return np.asarray((self.difference * self.baseline.q).sum(axis=1))

    @cached_property
    def improvement(self) -> NDArray[np.float64]:
        """V of the policy minus V of the baseline in the model, shape (S,)."""
        return self.policy.v - self.baseline.v

    @property
    def value_error(self) -> float:
        """How far `improvement` may be from exact, and `advantage` too; 0 but for large models."""
        # Rows of the difference have an L1 norm of at most 2, and errors of q are those of v.
        return max(self.policy.error + self.baseline.error, 2.0 * self.baseline.error)

    @cached_property
    def transition_errors(self) -> NDArray[np.float64]:
        """Errors e <= 2 with ||P* - P^||_1 <= e and |R* - R^| <= e R_max, as the set's radii."""
        transition, reward = radii(self.batch, self.delta)
        scale = self.problem.values.r_max
        rewards = reward / scale if scale > 0 else np.zeros(reward.shape)
        return np.asarray(np.minimum(2.0, np.maximum(transition, rewards))[0])

    @property
    def delta_but_start(self) -> float:
        """What is left of delta when the first state has had its share."""
        return self.delta - start_share(self.problem, self.delta)

    def at_worst_start(self, values: NDArray[np.float64]) -> float:
        """Return the least mean of gains (S,) over where episodes may begin; elsewhere it is 0.

        The ball has the share of delta that `delta_but_start` leaves to it.
        """
        if not self.problem.declared.states_complete:
            values = np.append(values, 0.0)
        share = start_share(self.problem, self.delta)
        return float(StartBall.of(self.batch, self.delta, share).worst(values[None])[0])


def spent_budget(
    difference: NDArray[np.float64], errors: NDArray[np.float64], *, is_one_sided: bool = False
) -> NDArray[np.float64]:
    """Return sum_a e(x, a) |pi - pi_b|(a | x) for every state; inf x 0 counts as 0.

    Args:
        difference: pi - pi_b, shape (S, A).
        errors: e, shape (S, A).
        is_one_sided: Whether only increases cost.
    """
    moved = np.maximum(difference, 0.0) if is_one_sided else np.abs(difference)
    cost = np.multiply(errors, moved, out=np.zeros(moved.shape), where=moved > 0)
    return np.asarray(cost.sum(axis=1))
