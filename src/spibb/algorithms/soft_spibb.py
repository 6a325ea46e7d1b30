"""Exact- and Approx-Soft-SPIBB (Nadjahi, Laroche, Tachet des Combes 2019, Pseudo-codes 1 and 2).

    max_pi rho(pi, M^)  s.t.  sum_a e(x, a) |pi - pi_b|(a | x) <= epsilon  in every state x

by policy iteration: each step improves one state at a time within the budget, exactly or
approximately. ``max_iterations=1`` gives the paper's 1-step variants.

Guarantee: Theorem 1 (e = e_Q) for results that are advantageous over the baseline in every state;
1-step results are, by construction, in the estimated model; multi-step results need not be, so the
certificate checks. Theorem 2 (e = e_P) under Assumption 1, which the certificate checks too.

Deviations: `epsilon` is the budget of the constraint itself (the released code spends twice the
number it reports); errors of pairs without data are infinite; the exact step is solved in closed
form; the approximate one never overspends (see spibb.operators).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from spibb.algorithms.base import DEFAULT_DELTA
from spibb.algorithms.iterating import PolicyIterating, Step
from spibb.certify.case import Case
from spibb.certify.certificate import Guarantee
from spibb.certify.theorems import theorem_1, theorem_2
from spibb.errors import checked_number
from spibb.mdp.planning import checked_cap
from spibb.operators.rows import Operator
from spibb.problem import ProblemBatch
from spibb.uncertainty.error_functions import ErrorFunction, GivenErrors, HoeffdingQ, checked_delta


@dataclass(frozen=True, kw_only=True)
class SoftSPIBB(PolicyIterating):
    """What the soft algorithms share: a budget, errors, and the theorems for them."""

    epsilon: float = 0.5
    delta: float = DEFAULT_DELTA
    error: Any = field(default_factory=HoeffdingQ)  # or an array, which becomes one
    max_iterations: int | None = None
    operator: ClassVar[Operator]

    def __post_init__(self) -> None:
        checked_number(self.epsilon, "epsilon", "a budget >= 0, inf for none", least=0)
        checked_delta(self.delta)
        checked_cap(self.max_iterations)
        if not hasattr(self.error, "errors"):
            object.__setattr__(self, "error", GivenErrors(self.error))

    def step(self, problems: ProblemBatch) -> Step:
        """Move within the budget; where the operator wants the baseline's Q, by mean returns."""
        errors, returns = self.error.of_batch(problems, self.delta), None
        if self.operator.needs.q_baseline:
            returns = np.stack([part.returns().mean for part in problems])
        return Step(self.operator, errors, self.epsilon, returns)

    @property
    def needs_log(self) -> bool:
        """Whether errors or the baseline's Q are of returns."""
        return bool(self.error.needs_log or self.operator.needs.q_baseline)

    @property
    def yardstick(self) -> tuple[ErrorFunction, float | None]:
        """The algorithm's own errors and budget."""
        return self.error, self.epsilon

    def claim(self, case: Case, finding: Any = None) -> Guarantee | None:
        """Claim the theorem that the error function is made for; none has a one-sided budget."""
        if self.is_one_sided or self.error.meaning not in ("model-p", "model-q", "return-q"):
            return None
        return theorem_2(case) if self.error.meaning == "model-p" else theorem_1(case, self.error)


@dataclass(frozen=True, kw_only=True)
class ExactSoftSPIBB(SoftSPIBB):
    """Soft-SPIBB with the optimal step in every state.

    Args:
        epsilon: Budget of the constraint in every state; 0 returns the baseline, inf drops it.
        delta: Allowed probability of error of the errors; 1 makes them a scale only.
        error: Error function, or an array of errors (S, A).
        max_iterations: Improvement steps at most; 1 is the one-step variant. None: 1,000.

    Example:
        Both actions were seen twice and have error 1 (given): mass 0.1 moves for a budget of 0.2.

        >>> from spibb import Log, TabularPolicy
        >>> log = Log.from_arrays(state=[0] * 4, action=[0, 0, 1, 1], reward=[1.0, 1.0, 2.0, 2.0],
        ...                       terminated=[True] * 4, episode=[0, 1, 2, 3])
        >>> ExactSoftSPIBB(epsilon=0.2, error=[[1.0, 1.0]]).improve(
        ...     log, baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.9).policy.probabilities
        array([[0.4, 0.6]])
    """

    id: ClassVar[str] = "exact-soft-spibb"
    operator: ClassVar[Operator] = Operator.SOFT_EXACT


@dataclass(frozen=True, kw_only=True)
class ApproxSoftSPIBB(SoftSPIBB):
    """Soft-SPIBB with the paper's approximate step in every state.

    Arguments as in :class:`ExactSoftSPIBB`.

    Example:
        >>> from spibb import Log, TabularPolicy
        >>> log = Log.from_arrays(state=[0] * 4, action=[0, 0, 1, 1], reward=[1.0, 1.0, 2.0, 2.0],
        ...                       terminated=[True] * 4, episode=[0, 1, 2, 3])
        >>> ApproxSoftSPIBB(epsilon=0.2, error=[[1.0, 1.0]]).improve(
        ...     log, baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.9).policy.probabilities
        array([[0.4, 0.6]])
    """

    id: ClassVar[str] = "approx-soft-spibb"
    operator: ClassVar[Operator] = Operator.SOFT_APPROX
