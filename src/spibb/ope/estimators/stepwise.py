r"""Consistent weighted per-decision importance sampling (Thomas 2015).

    sum_t gamma^t (sum_i w_t^i r_t^i) / (sum_i w_t^i)

An ended episode keeps its last weight in every later denominator, with reward 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spibb.ope.estimators.base import Estimator
from spibb.ope.statistics import DOMINATED, Array, Statistic
from spibb.ope.trajectories import Trajectories
from spibb.ope.weights import Walk

# Episodes times steps that are left out together: bounds the memory of the jackknife.
_CELLS = 1 << 20


class StepwiseWeightedSampling(Estimator):
    """The mean reward of each step, weighted."""

    id = "cwpdis"
    title = "consistent weighted per-decision importance sampling"
    is_per_step = True

    def of_walk(self, walk: Walk, policy: int) -> StepwiseMean:
        """Return the estimate of one policy of a walk."""
        return StepwiseMean(walk.taken, np.ascontiguousarray(walk.running[:, policy]), walk.gamma)


@dataclass(frozen=True, eq=False)
class StepwiseMean(Statistic):
    """The estimate on the log; NaN where all weights of some step are 0.

    Attributes:
        episodes: The episodes of the log.
        weight: w_t of every row.
        gamma: The discount.
    """

    episodes: Trajectories
    weight: Array
    gamma: float

    def __len__(self) -> int:
        return len(self.episodes)

    @property
    def estimate(self) -> float:
        """The value on the log."""
        return float(self.resampled(self.episodes.everything[None])[0])

    @cached_property
    def _tables(self) -> tuple[sp.csr_array, ...]:
        """w_t r_t, w_t and, after its end, the last weight of each episode, shape (n, T + 1)."""
        start, lengths = self.episodes.start, self.episodes.lengths
        shape = (len(self), int(lengths.max()) + 1)
        step = np.arange(start[-1]) - np.repeat(start[:-1], lengths)
        last, ends = self.weight[start[1:] - 1], np.arange(len(self) + 1)
        earned = self.weight * self.episodes.reward
        parts = (earned, step, start), (self.weight, step, start), (last, lengths, ends)
        return tuple(sp.csr_array(part, shape=shape) for part in parts)

    def _sums(self, times: Array) -> tuple[Array, Array]:
        """Return both sums of each step, with every episode so many times, shape (K, T)."""
        earned, weight, last = (times @ table for table in self._tables)
        return earned[:, :-1], (weight + last.cumsum(axis=1))[:, :-1]

    def _value(self, over: Array, under: Array) -> Array:
        # Without weight there is no estimate.
        means = np.divide(over, under, out=np.full(over.shape, np.nan), where=under > 0.0)
        return np.asarray(means @ self.gamma ** np.arange(over.shape[1]))

    def resampled(self, indices: NDArray[np.int64]) -> Array:
        """Return the values on resamples."""
        shape = (len(indices), len(self))
        flat = (indices + len(self) * np.arange(len(indices))[:, None]).ravel()
        times = np.bincount(flat, minlength=shape[0] * shape[1]).reshape(shape)
        return self._value(*self._sums(times.astype(np.float64)))

    def jackknife(self) -> Array:
        """Leave out each episode in turn, by subtraction from the sums of each step."""
        over, under = self._sums(np.ones((1, len(self))))
        without = np.empty(len(self))
        for part in np.array_split(self.episodes.everything, 1 + len(self) * over.size // _CELLS):
            earned, weight, last = (table[part].toarray() for table in self._tables)
            left = under - (weight + last.cumsum(axis=1))[:, :-1]
            without[part] = self._value(over - earned[:, :-1], left)
            for i in part[(left < DOMINATED * under).any(axis=1)]:
                rest = np.delete(self.episodes.everything, i)
                without[i] = self.resampled(rest[None])[0]
        return np.asarray(without.mean() - without)
