"""What each state adds to a gain, how likely its change does harm, and which data would tell.

The gain of a policy is a sum over states: how often the policy comes there, times what it does
there better than the baseline (the performance-difference lemma). What a state adds is about
normal, so that its probability of harm follows from its mean and deviation.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Array = NDArray[np.float64]

# Of the largest part: what rounding alone makes.
_ROUNDING = 1e-12
# More deviations beside a mean are no matter of rows.
_MOST_RATIO = 1e100


@dataclass(frozen=True, eq=False)
class StateRisks:
    """Parts of a gain by state; shapes (S,).

    Attributes:
        gain: What a state adds on average. They sum to the expected gain, apart from unseen losses
            of actions.
        deviation: Standard deviation of it.
        harm: Probability that a state takes away.
    """

    gain: Array
    deviation: Array
    harm: Array

    @classmethod
    def of(cls, gain: Array, deviation: Array) -> StateRisks:
        """Take means and deviations; what rounding makes of them is none."""
        gain = np.where(np.abs(gain) <= _ROUNDING * np.abs(gain).max(initial=0.0), 0.0, gain)
        ratio = np.divide(-gain, deviation, out=np.zeros(len(gain)), where=deviation > 0.0)
        harm = np.where(deviation > 0.0, ndtr(ratio), (gain < 0.0).astype(np.float64))
        return cls(gain, deviation, np.where((gain == 0.0) & (deviation == 0.0), 0.0, harm))

    def more_rows(self, n_rows: NDArray[np.int64], most_harm: float) -> Array:
        """Return about how many more rows each state needs until harm is unlikely enough.

        0 where it is; inf where rows cannot be expected to bring it about, as nothing is gained on
        average. What a state adds is about normal, and its deviation falls with the root of its
        rows: harm reaches ``most_harm`` when the mean is z deviations, Phi(z) = 1 - most_harm.

        Args:
            n_rows: Rows of the log in each state.
            most_harm: The probability of harm to be reached.
        """
        z = NormalDist().inv_cdf(1.0 - most_harm)
        ratio = np.divide(z * self.deviation, self.gain, out=np.ones(len(self.gain)),
                          where=self.gain > 0.0)  # fmt: skip
        needed = np.maximum(np.ceil(n_rows * (np.minimum(ratio, _MOST_RATIO) ** 2 - 1.0)), 1.0)
        needed[(self.gain <= 0.0) | (n_rows == 0)] = np.inf
        return np.where(self.harm <= most_harm, 0.0, needed)
