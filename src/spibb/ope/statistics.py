"""Estimates as functions of the sample of episodes: what bounds need to know of them.

A statistic has a value on the log, a value on any resample of its episodes, and jackknife values
l_i = mean(theta_(.)) - theta_(i), with theta_(i) the estimate without episode i: positive where the
episode raises the estimate. Sample means also show their terms, which the bounds on means need.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit

if TYPE_CHECKING:
    from spibb.ope.log_return import LogReturn

Array = NDArray[np.float64]

# Below this share of the sum, what remains of it without one episode is rounding.
DOMINATED = 1e-8


class Statistic(ABC):
    """An estimate made of n episodes."""

    @property
    @abstractmethod
    def estimate(self) -> float:
        """The value on the log; NaN where it does not exist."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of episodes."""

    @abstractmethod
    def resampled(self, indices: NDArray[np.int64]) -> Array:
        """Return the values on resamples, given as episode numbers of shape (K, n)."""

    @abstractmethod
    def jackknife(self) -> Array:
        """Return l_i, shape (n,)."""

    @property
    def columns(self) -> Array | None:
        """Numbers of each episode, shape (m, n), whose sums say the estimate; None: few do not."""
        return None

    def of_sums(self, sums: Array) -> Array:
        """Return the values on resamples, given as sums of the columns, shape (K, m)."""
        raise NotImplementedError("the estimate is no function of sums")

    @property
    def terms(self) -> Array:
        """The terms, one for each episode, if the estimate is their mean."""
        raise NotImplementedError("the estimate is no mean of terms")

    @property
    def standard_deviation(self) -> float:
        """That of one episode, by the jackknife, so that n of them have it over sqrt(n)."""
        if not math.isfinite(self.estimate):
            return math.nan
        return math.sqrt((len(self) - 1) * float((self.jackknife() ** 2).sum()))

    @property
    def is_resampled(self) -> bool:
        """Whether thousands of resamples are affordable."""
        return True

    @property
    def warnings(self) -> list[str]:
        """What to know of it beside its weights."""
        return []

    def withheld(self, found: LogReturn | None) -> str | None:
        """Say why the estimate means nothing, by what the log itself shows."""
        return None


@dataclass(frozen=True, eq=False)
class Mean(Statistic):
    """The mean of one number for each episode."""

    values: Array

    @property
    def estimate(self) -> float:
        """The mean."""
        return float(self.values.mean())

    def __len__(self) -> int:
        return len(self.values)

    @property
    def terms(self) -> Array:
        """The numbers."""
        return self.values

    def resampled(self, indices: NDArray[np.int64]) -> Array:
        """Return the means of resamples."""
        return np.asarray(resampled_means(self.values, indices))

    @property
    def columns(self) -> Array:
        """The numbers."""
        return self.values[None]

    def of_sums(self, sums: Array) -> Array:
        """Return the means."""
        return np.asarray(sums[:, 0] / len(self))

    def jackknife(self) -> Array:
        """Return (x_i - mean) / (n - 1)."""
        return np.asarray((self.values - self.values.mean()) / (len(self) - 1))


@dataclass(frozen=True, eq=False)
class Difference(Statistic):
    """The difference of two statistics of the same episodes."""

    first: Statistic
    second: Statistic

    @property
    def estimate(self) -> float:
        """The difference."""
        return self.first.estimate - self.second.estimate

    def __len__(self) -> int:
        return len(self.first)

    def resampled(self, indices: NDArray[np.int64]) -> Array:
        """Return the differences on resamples."""
        return self.first.resampled(indices) - self.second.resampled(indices)

    @property
    def columns(self) -> Array | None:
        """Those of the first, then those of the second."""
        first, second = self.first.columns, self.second.columns
        return None if first is None or second is None else np.concatenate([first, second])

    def of_sums(self, sums: Array) -> Array:
        """Return the differences."""
        assert self.second.columns is not None, "there are sums of them"
        n_second = len(self.second.columns)
        return self.first.of_sums(sums[:, :-n_second]) - self.second.of_sums(sums[:, -n_second:])

    def jackknife(self) -> Array:
        """Return the differences of the jackknife values."""
        return self.first.jackknife() - self.second.jackknife()


@jit
def resampled_means(values, indices):  # type: ignore[no-untyped-def]
    """Return the means of values on resamples."""
    n_resamples, n = indices.shape
    found = np.zeros(n_resamples)
    together = n_resamples // 4 * 4
    for k in range(0, together, 4):  # four at a time: no sum waits for another
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        for i in range(n):
            a += values[indices[k, i]]
            b += values[indices[k + 1, i]]
            c += values[indices[k + 2, i]]
            d += values[indices[k + 3, i]]
        found[k], found[k + 1], found[k + 2], found[k + 3] = a, b, c, d
    for k in range(together, n_resamples):
        for i in indices[k]:
            found[k] += values[i]
    return found / n


@jit
def resampled_ratios(over, under, indices):  # type: ignore[no-untyped-def]
    """Return sum_i over_i / sum_i under_i on resamples; NaN where the latter is 0."""
    found = np.empty(len(indices))
    for k in range(len(indices)):
        above, below = 0.0, 0.0
        for i in indices[k]:
            above += over[i]
            below += under[i]
        found[k] = above / below if below > 0.0 else np.nan
    return found
