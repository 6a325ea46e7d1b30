"""Lower-Approx-Soft-SPIBB (Scholl, Dietrich, Otte, Udluft, ICAART 2022) and its exact variant.

    max_pi rho(pi, M^)  s.t.  sum_a e(x, a) max(0, pi - pi_b)(a | x) <= epsilon  in every state x

Only increases cost: doing less of something uncertain is free. Guarantee: none beyond improving in
the estimated model; reported as the best of the SPIBB class in mean and 1 %-CVaR on Random MDPs and
Wet Chicken. An infinite error forbids increases only.

Deviations: as in soft_spibb; the exact variant, unpublished, is the closed form of
spibb.operators.soft_exact with donors that pay nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from spibb.algorithms.soft_spibb import SoftSPIBB
from spibb.operators.rows import Operator


@dataclass(frozen=True, kw_only=True)
class LowerApproxSoftSPIBB(SoftSPIBB):
    """Soft-SPIBB with a budget on increases only, by the approximate step.

    Arguments as in :class:`spibb.ExactSoftSPIBB`.

    Example:
        Both actions have error 1 (given): a budget of 0.2 moves mass 0.2, twice the two-sided one.

        >>> from spibb import Log, TabularPolicy
        >>> log = Log.from_arrays(state=[0] * 4, action=[0, 0, 1, 1], reward=[1.0, 1.0, 2.0, 2.0],
        ...                       terminated=[True] * 4, episode=[0, 1, 2, 3])
        >>> LowerApproxSoftSPIBB(epsilon=0.2, error=[[1.0, 1.0]]).improve(
        ...     log, baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.9).policy.probabilities
        array([[0.3, 0.7]])
    """

    id: ClassVar[str] = "lower-approx-soft-spibb"
    operator: ClassVar[Operator] = Operator.LOWER_APPROX
    is_one_sided: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class ExactLowerSoftSPIBB(SoftSPIBB):
    """Soft-SPIBB with a budget on increases only, by the exact step.

    Arguments as in :class:`spibb.ExactSoftSPIBB`.

    Example:
        >>> from spibb import Log, TabularPolicy
        >>> log = Log.from_arrays(state=[0] * 4, action=[0, 0, 1, 1], reward=[1.0, 1.0, 2.0, 2.0],
        ...                       terminated=[True] * 4, episode=[0, 1, 2, 3])
        >>> ExactLowerSoftSPIBB(epsilon=0.2, error=[[1.0, 1.0]]).improve(
        ...     log, baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.9).policy.probabilities
        array([[0.3, 0.7]])
    """

    id: ClassVar[str] = "exact-lower-soft-spibb"
    operator: ClassVar[Operator] = Operator.LOWER_EXACT
    is_one_sided: ClassVar[bool] = True
