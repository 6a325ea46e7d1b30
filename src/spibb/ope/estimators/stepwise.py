r"""Consistent weighted per-decision importance sampling (Thomas 2015).

    sum_t gamma^t (sum_i w_t^i r_t^i) / (sum_i w_t^i)

An ended episode keeps its last weight in every later denominator, with reward 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.ope.estimators.base import Estimator
from spibb.ope.resampling import MANY_EPISODES
from spibb.ope.statistics import DOMINATED, Array, Statistic
from spibb.ope.trajectories import Trajectories
from spibb.ope.weights import Walk

# Episodes times steps that are left out together: bounds the memory of the jackknife.
_CELLS = 1 << 20
# A table with one cell of so many filled is nearly full.
_FULL = 3


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
    def _tables(self) -> tuple[Any, ...]:
        """w_t r_t, w_t and, after its end, the last weight of each episode, shape (n, T + 1)."""
        start, lengths = self.episodes.start, self.episodes.lengths
        shape = (len(self), int(lengths.max()) + 1)
        step = np.arange(start[-1]) - np.repeat(start[:-1], lengths)
        last, ends = self.weight[start[1:] - 1], np.arange(len(self) + 1)
        earned = self.weight * self.episodes.reward
        parts = (earned, step, start), (self.weight, step, start), (last, lengths, ends)
        tables: list[Any] = [sp.csr_array(part, shape=shape) for part in parts]
        if len(self) >= MANY_EPISODES and _FULL * start[-1] >= shape[0] * shape[1]:
            # Products with a table that is nearly full anyway are faster without gaps.
            tables[:2] = [table.toarray() for table in tables[:2]]
        return tuple(tables)

    def _sums(self, times: Array) -> tuple[Array, Array]:
        """Return both sums of each step, with every episode so many times, shape (K, T)."""
        earned, weight, last = (_product(times, table) for table in self._tables)
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
        over, under = self._sums(np.ones((1, len(self))))
        without = np.empty(len(self))
        for part in np.array_split(self.episodes.everything, 1 + len(self) * over.size // _CELLS):
            earned, weight, last = (_plain(table[part]) for table in self._tables)
            left = under - (weight + last.cumsum(axis=1))[:, :-1]
            without[part] = self._value(over - earned[:, :-1], left)
            for i in part[(left < DOMINATED * under).any(axis=1)]:
                rest = np.delete(self.episodes.everything, i)
                without[i] = self.resampled(rest[None])[0]
        return np.asarray(without.mean() - without)


def _plain(table: Any) -> Array:
    return table if isinstance(table, np.ndarray) else np.asarray(table.toarray())


def _product(times: Array, table: Any) -> Array:
    is_full = isinstance(table, np.ndarray)
    return np.asarray(_full_product(times, table) if is_full else times @ table)


@jit
def _full_product(times, table):  # type: ignore[no-untyped-def]
    """Return times @ table; unlike a library's, in this thread alone, as others do theirs."""
    found = np.zeros((len(times), table.shape[1]))
    n = len(table) // 4 * 4
    for i in range(0, n, 4):  # four at a time: sums are read and written a quarter as often
        one, two, three, four = table[i], table[i + 1], table[i + 2], table[i + 3]
        for k in range(len(times)):
            a, b, c, d = times[k, i], times[k, i + 1], times[k, i + 2], times[k, i + 3]
            sums = found[k]
            for t in range(table.shape[1]):
                sums[t] += (a * one[t] + b * two[t]) + (c * three[t] + d * four[t])
    for i in range(n, len(table)):
        for k in range(len(times)):
            for t in range(table.shape[1]):
                found[k, t] += times[k, i] * table[i, t]
    return found


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
