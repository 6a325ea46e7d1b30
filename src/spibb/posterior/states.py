"""What each state adds to a gain, how likely its change does harm, and which data would tell.

The gain of a policy is a sum over states: how often it comes there, times what it does there better
than the baseline would (the performance-difference lemma). In each drawn model a state adds
something else; the share of draws in which it takes away is its probability of harm.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Cubes of states that all draws together may take (a linear system each), and how many they are.
_WORK, _LIMITS = 1.5e10, (20, 200)
# Of the largest part: what rounding alone makes.
_ROUNDING = 1e-12


def n_parts(n_states: int) -> int:
    """Return in how many draws the parts of a gain are computed: fewer where models are large."""
    return int(np.clip(_WORK / n_states**3, *_LIMITS))


@dataclass(frozen=True, eq=False)
class StateRisks:
    """Parts of a gain by state, in draws under one prior; shapes (S,).

    Attributes:
        gain: What a state adds on average; they sum to the expected gain.
        deviation: Standard deviation of it.
        harm: Probability that a state takes away.
        n_draws: Number of draws.
    """

    gain: Array
    deviation: Array
    harm: Array
    n_draws: int

    @classmethod
    def of(cls, parts: Array) -> StateRisks:
        """Summarise what each state adds in K draws.

        Args:
            parts: Shape (K, S); see `spibb.posterior.posterior.Posterior.gains_and_parts`.
        """
        added = np.where(np.abs(parts) <= _ROUNDING * np.abs(parts).max(), 0.0, parts)
        return cls(added.mean(axis=0), added.std(axis=0), (added < 0.0).mean(axis=0), len(added))

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
        needed = np.maximum(np.ceil(n_rows * (ratio**2 - 1.0)), 1.0)
        needed[(self.gain <= 0.0) | (n_rows == 0)] = np.inf
        return np.where(self.harm <= most_harm, 0.0, needed)
