"""The distribution of the gain of a policy: a normal variable minus a gamma variable.

What the log shows of a gain is a sum of many errors, and about normal. What unseen losses may cost
is skewed: most likely little, and rarely much. It is a gamma variable with the same mean and
variance, and independent of the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import gamma, norm

from spibb.errors import checked_number

Array = NDArray[np.float64]

_N_LOSSES = 400
_N_SCENARIOS = 100
# The share of scenarios that the lower-tail mean is about.
TAIL = 0.1
# Quantiles are found to this share of the deviation.
_TOLERANCE = 1e-9
# Closer to 1, an interval would be wider than quantiles are looked for.
_LARGEST_LEVEL = 1.0 - 1e-12
# Below this share of the deviation unseen losses are none.
_NEGLIGIBLE = 1e-9


@dataclass(frozen=True)
class Gain:
    """Expected improvement over the baseline, and its posterior distribution.

    Attributes:
        mean: Posterior mean.
        deviation: Posterior standard deviation.
        loss_mean: Mean of unseen losses, which `mean` includes.
        loss_deviation: Their standard deviation, which `deviation` includes.
    """

    mean: float
    deviation: float
    loss_mean: float = 0.0
    loss_deviation: float = 0.0

    @cached_property
    def _losses(self) -> Array:
        """Unseen losses: their means between equal steps of probability, which keep the mean."""
        if self.loss_deviation <= _NEGLIGIBLE * self.deviation or self.loss_mean <= 0.0:
            return np.array([self.loss_mean])
        shape = (self.loss_mean / self.loss_deviation) ** 2
        ends = gamma.ppf(np.arange(_N_LOSSES + 1) / _N_LOSSES, shape)
        # E[X; X < x] of a gamma variable of mean 1 is P(Y < x) for Y of a shape one larger.
        return np.asarray(_N_LOSSES * self.loss_mean * np.diff(gamma.cdf(ends, shape + 1.0)))

    @property
    def shown(self) -> float:
        """Posterior mean without unseen losses: what the data show, shrunk."""
        return self.mean + self.loss_mean

    @property
    def _normal_deviation(self) -> float:
        return math.sqrt(max(self.deviation**2 - self.loss_deviation**2, 0.0))

    def probability_below(self, x: float) -> float:
        """Return the probability that the gain is less than x.

        Args:
            x: A gain.
        """
        off = x - self.shown + self._losses
        if self._normal_deviation <= _NEGLIGIBLE * self.deviation or self.deviation == 0.0:
            return float((off > 0.0).mean())
        return float(ndtr(off / self._normal_deviation).mean())

    @property
    def probability_of_harm(self) -> float:
        """Probability that the policy is worse than the baseline."""
        return self.probability_below(0.0)

    def quantile(self, share: float) -> float:
        """Return the gain that is exceeded with a probability of 1 - share.

        Args:
            share: A probability, between 0 and 1.
        """
        if self.deviation == 0.0:
            return self.mean
        low = self.shown - float(self._losses[-1]) - 10.0 * self.deviation
        high = self.shown + 10.0 * self.deviation
        while high - low > _TOLERANCE * self.deviation:
            middle = 0.5 * (low + high)
            if middle in (low, high):
                break
            low, high = (middle, high) if self.probability_below(middle) < share else (low, middle)
        return 0.5 * (low + high)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return where the gain lies with a probability of `level`, equal tails outside.

        Args:
            level: A probability, below 1: no interval is certain.
        """
        checked_number(level, "level", "a probability below 1", least=0.0, most=_LARGEST_LEVEL)
        return self.quantile(0.5 * (1.0 - level)), self.quantile(0.5 * (1.0 + level))

    @cached_property
    def lower_tail_mean(self) -> float:
        """Mean gain in the worst 10 % of scenarios (CVaR 10 %)."""
        if self.deviation == 0.0:
            return self.mean
        end, spread = self.quantile(TAIL), self._normal_deviation
        off = end - self.shown + self._losses
        # E[(end - X)_+]; what the search leaves of an error in `end` hardly matters then.
        if spread <= _NEGLIGIBLE * self.deviation:
            short = np.maximum(off, 0.0)
        else:
            short = off * ndtr(off / spread) + spread * norm.pdf(off / spread)
        return end - float(short.mean()) / TAIL

    @cached_property
    def scenarios(self) -> tuple[float, ...]:
        """A hundred equally likely gains, from bad to good."""
        steps = (np.arange(_N_SCENARIOS) + 0.5) / _N_SCENARIOS
        return tuple(self.quantile(float(step)) for step in steps)
