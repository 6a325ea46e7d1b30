r"""Consistent weighted per-decision importance sampling (Thomas 2015).

    sum_t gamma^t (sum_i w_t^i r_t^i) / (sum_i w_t^i)

An ended episode keeps its last weight in every later denominator, with reward 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.ope.estimators.base import WeightedEstimator
from spibb.ope.resampling import MANY_EPISODES
from spibb.ope.statistics import DOMINATED, Array, Statistic
from spibb.ope.trajectories import Trajectories
from spibb.ope.weights import ImportanceWeights

# Episodes times steps that are left out together: bounds the memory of the jackknife.
_CELLS = 1 << 20
# A table with one cell of so many filled is nearly full.
_FULL = 3
# Episodes that are laid out side by side.
_TOGETHER = 64


class StepwiseWeightedSampling(WeightedEstimator):
    """The mean reward of each step, weighted."""

    id = "cwpdis"
    title = "consistent weighted per-decision importance sampling"
    is_per_step = True

    def of_walk(self, walk: ImportanceWeights, policy: int) -> StepwiseMean:
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

    @cached_property
    def estimate(self) -> float:
        """The value on the log."""
        return float(self._value(*self._whole)[0])

    @cached_property
    def columns(self) -> Array | None:
        """w_t r_t and w_t of each step, shape (2 T, n); None where most of them would be empty."""
        n, n_rows, n_steps = len(self), len(self.weight), int(self.episodes.lengths.max())
        if n < MANY_EPISODES or _FULL * n_rows < n * n_steps:
            return None
        found = np.zeros((2 * n_steps, n))
        _lay_out(self.episodes.start, self.weight, self.episodes.reward, found)
        return found

    def of_sums(self, sums: Array) -> Array:
        """Return the values."""
        return self._value(*np.split(sums, 2, axis=1))

    @cached_property
    def _tables(self) -> tuple[Any, ...]:
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
        earned, weight, last = (np.asarray(times @ table) for table in self._tables)
        return earned[:, :-1], (weight + last.cumsum(axis=1))[:, :-1]

    @cached_property
    def _whole(self) -> Sequence[Array]:
        """Both sums of each step over all episodes, shape (1, T)."""
        if self.columns is None:
            return self._sums(np.ones((1, len(self))))
        return np.split(self.columns.sum(axis=1)[None], 2, axis=1)

    def _parts(self, some: NDArray[np.int64]) -> Sequence[Array]:
        """Return what some episodes in a row add to both sums of each step, shape (episodes, T)."""
        if self.columns is not None:
            return np.split(self.columns[:, some[0] : some[-1] + 1].T, 2, axis=1)
        earned, weight, last = (np.asarray(table[some].toarray()) for table in self._tables)
        return earned[:, :-1], (weight + last.cumsum(axis=1))[:, :-1]

    def _value(self, over: Array, under: Array) -> Array:
        # Without weight there is no estimate.
        means = np.divide(over, under, out=np.full(over.shape, np.nan), where=under > 0.0)
        return np.asarray(means @ self.gamma ** np.arange(over.shape[1]))

    def resampled(self, indices: NDArray[np.int64]) -> Array:
        """Return the values on resamples."""
        return self._value(*self._sums(_times(indices, len(self))))

    def jackknife(self) -> Array:
        """Leave out each episode in turn, by subtraction from the sums of each step."""
        over, under = self._whole
        without = np.empty(len(self))
        for part in np.array_split(self.episodes.everything, 1 + len(self) * over.size // _CELLS):
            earned, weight = self._parts(part)
            left = under - weight
            without[part] = self._value(over - earned, left)
            for i in part[(left < DOMINATED * under).any(axis=1)]:
                rest = np.delete(self.episodes.everything, i)
                without[i] = self.resampled(rest[None])[0]
        return np.asarray(without.mean() - without)


@jit
def _lay_out(start, weight, reward, found):  # type: ignore[no-untyped-def]
    """Write w_t r_t and, from step T on, w_t of each episode; the last one for good."""
    n_steps = len(found) // 2
    n = len(start) - 1
    for first in range(0, n, _TOGETHER):  # so that what lies side by side is written together
        for t in range(n_steps):
            for i in range(first, min(first + _TOGETHER, n)):
                row = start[i] + t
                if row < start[i + 1]:
                    found[t, i] = weight[row] * reward[row]
                found[n_steps + t, i] = weight[min(row, start[i + 1] - 1)]


@jit
def _times(indices, n):  # type: ignore[no-untyped-def]
    """Return how often each of n episodes is in each resample."""
    times = np.empty((len(indices), n))
    often = np.empty(n, np.int32)  # as small as may be: it is written to all over
    for k in range(len(indices)):
        often[:] = 0
        for i in indices[k]:
            often[i] += 1
        times[k] = often
    return times
