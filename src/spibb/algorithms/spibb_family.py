"""Pi_b-SPIBB and Pi_<=b-SPIBB (Laroche, Trichelair, Tachet des Combes, ICML 2019).

    max_pi rho(pi, M^)  s.t.  pi(a | x) = pi_b(a | x)   where N(x, a) < n_wedge   (Pi_b)
                              pi(a | x) <= pi_b(a | x)  where N(x, a) < n_wedge   (Pi_<=b)

Guarantee: the regret test, as for every policy. Published with Pi_b: its true gain is at least its
estimated gain minus 4 V_max / (1 - gamma) sqrt((2 / n_wedge) log(2 |X| |A| 2^|X| / delta)), with
probability 1 - delta. That is false in general: the two policies visit rare pairs differently, so
that what these are worth does not cancel (docs/guarantees.md). The certificate shows it only where
neither policy takes a rare pair anywhere. Pi_<=b was published without a bound.

Deviation from the released code, which demands N > n_wedge: a pair is trusted iff N >= n_wedge, as
in the papers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from spibb.algorithms.base import DEFAULT_DELTA
from spibb.algorithms.iterating import PolicyIterating, Step
from spibb.certify.case import Case
from spibb.certify.certificate import Guarantee
from spibb.certify.theorems import spibb_bound
from spibb.errors import checked_number
from spibb.operators.rows import Operator
from spibb.problem import ProblemBatch
from spibb.uncertainty.error_functions import checked_delta


@dataclass(frozen=True, kw_only=True)
class _Bootstrapping(PolicyIterating):
    n_wedge: float = 10
    delta: float = DEFAULT_DELTA
    operator: ClassVar[Operator]

    def __post_init__(self) -> None:
        checked_number(self.n_wedge, "n_wedge", "a number of observations >= 0", least=0)
        checked_delta(self.delta)

    def step(self, problems: ProblemBatch) -> Step:
        """Bootstrap on rare pairs."""
        errors = np.where(problems.n_sa >= self.n_wedge, 0.0, np.inf)
        return Step(self.operator, errors, 0.0)


@dataclass(frozen=True, kw_only=True)
class PiBSPIBB(_Bootstrapping):
    """Copy the baseline on rare pairs, optimise on the others.

    Args:
        n_wedge: How often a pair must have been seen to be trusted; inf returns the baseline.
        delta: Allowed probability of error of the published bound, where it is shown.

    Example:
        Action 1 pays more, but has been seen once only: with n_wedge = 2 nothing changes.

        >>> from spibb import Log, TabularPolicy
        >>> log = Log.from_arrays(state=[0, 0, 0], action=[0, 0, 1], reward=[1.0, 1.0, 2.0],
        ...                       terminated=[True] * 3, episode=[0, 1, 2])
        >>> PiBSPIBB(n_wedge=2).improve(
        ...     log, baseline=TabularPolicy([[0.75, 0.25]]), gamma=0.9).policy.probabilities
        array([[0.75, 0.25]])
    """

    id: ClassVar[str] = "pi-b-spibb"
    operator: ClassVar[Operator] = Operator.PI_B

    def claim(self, case: Case, finding: Any = None) -> Guarantee | None:
        """Return the SPIBB bound, under the condition that makes it true."""
        return spibb_bound(case, self.n_wedge)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Build the algorithm from a configuration; earlier ones also chose among bounds."""
        return super().from_config({name: x for name, x in config.items() if name != "bound"})


@dataclass(frozen=True, kw_only=True)
class PiLeqBSPIBB(_Bootstrapping):
    """Give rare pairs at most the baseline's probability, optimise on the others.

    Args:
        n_wedge: How often a pair must have been seen to be trusted; inf returns the baseline.
        delta: Level of the checks in the certificate.

    Example:
        The rare action is the worse one, so its probability goes to the trusted action.

        >>> from spibb import Log, TabularPolicy
        >>> log = Log.from_arrays(state=[0, 0, 0], action=[0, 0, 1], reward=[3.0, 3.0, 2.0],
        ...                       terminated=[True] * 3, episode=[0, 1, 2])
        >>> PiLeqBSPIBB(n_wedge=2).improve(
        ...     log, baseline=TabularPolicy([[0.75, 0.25]]), gamma=0.9).policy.probabilities
        array([[1., 0.]])
    """

    id: ClassVar[str] = "pi-leq-b-spibb"
    operator: ClassVar[Operator] = Operator.PI_LEQ_B
