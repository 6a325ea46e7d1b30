"""Adv-Approx-Soft-SPIBB (Scholl, Dietrich, Otte, Udluft, ICAART 2022) and its exact variant.

    max_pi rho(pi, M^)  s.t.  sum_a e(x, a) |pi - pi_b|(a | x) <= epsilon,
                              sum_a Q_b(x, a) (pi - pi_b)(a | x) >= 0   in every state x

where Q_b is the mean of *first-visit returns* of the log, and e bounds its error with the number of
episodes that visit the pair. Steps rank actions by the current policy's values in the model; the
second constraint keeps every iterate advantageous.

Guarantee: with probability 1 - delta, V(x) - V_b(x) >= A^(x) - epsilon V_max / (1 - gamma) in every
state, A^(x) >= 0 being the advantage by returns. It needs no assumption on the estimated model. It
does need that the log was made by the baseline, in independent episodes, and that e bounds the
error of returns: with HoeffdingQ or HoeffdingP the certificate is that of Soft-SPIBB, with all that
it assumes and checks.

Deviations from the released code: returns of first visits instead of thinned or every visits, which
are not independent; truncated returns carry what may be missing; the factor V_max is not left out.
The exact variant follows spibb.operators.advantageous.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from spibb.algorithms.soft_spibb import SoftSPIBB
from spibb.operators.rows import Operator
from spibb.uncertainty.error_functions import HoeffdingReturns


@dataclass(frozen=True, kw_only=True)
class AdvApproxSoftSPIBB(SoftSPIBB):
    """Soft-SPIBB that stays advantageous by Monte-Carlo returns, by the approximate step.

    Arguments as in :class:`spibb.ExactSoftSPIBB`. The log must have episodes; the guarantee by
    returns takes an `error` of returns, HoeffdingReturns or EmpiricalBernstein.

    Example:
        By returns and by the model action 1 is better, so it gains.

        >>> from spibb import Log, TabularPolicy
        >>> log = Log.from_arrays(state=[0] * 4, action=[0, 0, 1, 1], reward=[1.0, 1.0, 2.0, 2.0],
        ...                       terminated=[True] * 4, episode=[0, 1, 2, 3])
        >>> AdvApproxSoftSPIBB(epsilon=0.2, error=[[1.0, 1.0]]).improve(
        ...     log, baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.9).policy.probabilities
        array([[0.4, 0.6]])
    """

    error: Any = field(default_factory=HoeffdingReturns)
    id: ClassVar[str] = "adv-approx-soft-spibb"
    operator: ClassVar[Operator] = Operator.ADV_APPROX


@dataclass(frozen=True, kw_only=True)
class ExactAdvSoftSPIBB(SoftSPIBB):
    """Soft-SPIBB that stays advantageous by Monte-Carlo returns, by the exact step.

    Arguments as in :class:`AdvApproxSoftSPIBB`.

    Example:
        >>> from spibb import Log, TabularPolicy
        >>> log = Log.from_arrays(state=[0] * 4, action=[0, 0, 1, 1], reward=[1.0, 1.0, 2.0, 2.0],
        ...                       terminated=[True] * 4, episode=[0, 1, 2, 3])
        >>> ExactAdvSoftSPIBB(epsilon=0.2, error=[[1.0, 1.0]]).improve(
        ...     log, baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.9).policy.probabilities
        array([[0.4, 0.6]])
    """

    error: Any = field(default_factory=HoeffdingReturns)
    id: ClassVar[str] = "exact-adv-soft-spibb"
    operator: ClassVar[Operator] = Operator.ADV_EXACT
