r"""What an off-policy estimator is: the base of all of them.

A mean of one term for each episode can be put about one end of the returns, so that its long tail
lies on the safe side. For any constants low and high that do not depend on the sample, weights of
mean 1 give

    rho = low  + E[w (G - low)]                = high - E[w (high - G)]                   (is)
    rho = low  + E[sum_t g^t w_t r_t - s low]  = high - E[s high - sum_t g^t w_t r_t]     (pdis)

with s the spread weight (spibb.ope.weights). If returns lie in [low, high], the terms of ``is`` are
never negative: their tail, which large weights make, lies above, and

* betting and the concentration inequality, which need terms >= 0, apply to both ends;
* Student t and BCa err on the safe side where plain terms w G would fail several times as often as
  they should: a lower bound with negative returns, an upper bound with positive ones, since the
  large weights that a sample lacks are just those that would tell (docs/evaluation.md has figures).

Where the policy leaves the baseline's support, weights have mean below 1, E[w (G - low)] is at most
rho - low, and the ends by ``is`` stay valid. A return G that was cut off after T steps lies between
G + g^T low and G + g^T high, since what follows lies in the range too: the end on the safe side
stands for it. For ``pdis`` with low = L / (1 - g) and high =
H / (1 - g), [L, H] the range of rewards with 0 in it, the terms are the estimates for rewards
r_t - L >= 0 and H - r_t >= 0 that are paid on for ever after the end: never negative either. An
episode that is cut off after T steps has no such end: what would be paid on, -low g^T w_T and
high g^T w_T, is left out of its terms, which keeps them >= 0 and both ends valid for the whole
return. (The concentration inequality takes ``pdis`` only where no reward is negative.)

The upper end is the lower one of the costs -r: everything is written once, for the lower.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from spibb.ope.statistics import Array, Difference, Mean, Statistic
from spibb.ope.weights import ImportanceWeights

if TYPE_CHECKING:
    from spibb.ope.off_policy import OffPolicy
    from spibb.ope.return_range import ReturnRange


class Estimator(ABC):
    """An off-policy estimator of rho(pi): what it is stands in its class.

    Attributes:
        id: Its name in settings and results.
        title: Its name in the literature.
        is_of_returns: Whether it weights whole returns, so that a range of returns bounds its
            terms; else that takes a range of rewards, and a discount.
        is_per_step: Whether it holds every step's weight, so that the spread weight is what
            degenerates.
        needs_q: Whether its terms hold a Q^ fitted to other episodes.
        has_safe_tails: Whether its terms can be put about an end of their range.
        needs_table: Whether it asks what the policy does beyond the logged actions, or what follows
            a state whoever acts: else the probabilities of the logged actions suffice.
        kind: What all of this class are, in words.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    is_of_returns: ClassVar[bool] = False
    is_per_step: ClassVar[bool] = False
    needs_q: ClassVar[bool] = False
    has_safe_tails: ClassVar[bool] = False
    needs_table: ClassVar[bool] = False
    kind: ClassVar[str] = "estimator"

    @abstractmethod
    def statistic(self, off: OffPolicy, rng: np.random.Generator) -> Statistic:
        """Return the estimate of a policy's value; ``rng`` divides episodes into folds."""


class WeightedEstimator(Estimator):
    """An estimator that weights episodes: HCPI can test by it."""

    @abstractmethod
    def of_walk(self, walk: ImportanceWeights, policy: int) -> Statistic:
        """Return the estimate of one policy of a walk."""

    def statistic(self, off: OffPolicy, rng: np.random.Generator) -> Statistic:
        """Return the estimate of a policy's value; ``rng`` divides episodes into folds."""
        return self.of_walk(off.plain, 0)

    def weight(self, walk: ImportanceWeights) -> Array:
        """Return the weights whose degeneration spoils it, shape (n, C)."""
        return walk.spread if self.is_per_step else walk.weight

    def gain(self, walk: ImportanceWeights, policy: int, low: float) -> Statistic:
        """Return the estimated gain of a policy over the baseline, the walk's last policy."""
        return Difference(self.of_walk(walk, policy), Mean(walk.gain))


class MeanEstimator(WeightedEstimator):
    """A mean of one unbiased term for each episode: bounds on means apply to it."""

    kind = "mean of terms"

    @abstractmethod
    def about(self, walk: ImportanceWeights, end: float = 0.0) -> Array:
        """Return the terms of rho - end, shape (n, C); see the module's docstring."""

    def of_walk(self, walk: ImportanceWeights, policy: int) -> Mean:
        """Return the estimate of one policy of a walk."""
        return Mean(self.about(walk)[:, policy])

    def paired(self, walk: ImportanceWeights, low: float) -> Array:
        """Return terms of the gain over the baseline, the walk's last policy, shape (n, C - 1)."""
        terms = self.about(walk, low)
        return np.asarray(terms[:, :-1] - terms[:, -1:])

    def gain(self, walk: ImportanceWeights, policy: int, low: float) -> Mean:
        """Return the estimated gain of a policy over the baseline."""
        return Mean(np.ascontiguousarray(self.paired(walk, low)[:, policy]))


class OneSidedEstimator(MeanEstimator):
    """A mean of terms that are never negative about the ends of their range: exact bounds apply."""

    kind = "mean of terms that are never negative"
    has_safe_tails = True

    def ends(self, known: ReturnRange) -> tuple[float, float]:
        """Return the ends about which terms are never negative: of returns, or of rewards on."""
        return (known.low, known.high) if self.is_of_returns else known.streams(self.id)

    def above(self, walk: ImportanceWeights, low: float) -> Array:
        """Return terms of rho - low that are never negative, whatever followed where a cut is."""
        # Never negative but by rounding.
        return np.maximum(self.about(walk.least(low), low), 0.0)

    def bets(self, walk: ImportanceWeights, known: ReturnRange) -> Array:
        """Return paired terms Y >= 0 of mean 1 + gain / (high - low), shape (n, C - 1).

        The policy's terms about the lower end and the baseline's about the upper one.
        """
        low, high = self.ends(known)
        both = self.above(walk, low)[:, :-1] + self.above(-walk, -high)[:, -1:]
        width = high - low
        return np.maximum(1.0 + (both - width) / (width if width > 0.0 else 1.0), 0.0)
