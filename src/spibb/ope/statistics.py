"""Estimates as functions of the sample of episodes: what bounds need to know of them.

A statistic has a value on the log, a value on any resample of its episodes, and jackknife values
l_i = mean(theta_(.)) - theta_(i), with theta_(i) the estimate without episode i: positive where the
episode raises the estimate. Sample means also show their terms, which the bounds on means need.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.ope.trajectories import Trajectories

Array = NDArray[np.float64]

# Below this share of the sum, what remains of it without one episode is rounding.
_DOMINATED = 1e-8


class Statistic(ABC):
    """An estimate made of n episodes."""

    @property
    @abstractmethod
    def estimate(self) -> float:
        """The value on the log; NaN where it does not exist."""

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of episodes."""

    @abstractmethod
    def resampled(self, indices: NDArray[np.int64]) -> Array:
        """Return the values on resamples, given as episode numbers of shape (K, n)."""

    @abstractmethod
    def jackknife(self) -> Array:
        """Return l_i, shape (n,)."""

    @property
    def terms(self) -> Array | None:
        """The terms, one for each episode, if the estimate is their mean."""
        return None


@dataclass(frozen=True, eq=False)
class Mean(Statistic):
    """The mean of one number for each episode."""

    values: Array

    @property
    def estimate(self) -> float:
        """The mean."""
        return float(self.values.mean())

    @property
    def n(self) -> int:
        """Number of episodes."""
        return len(self.values)

    @property
    def terms(self) -> Array:
        """The numbers."""
        return self.values

    def resampled(self, indices: NDArray[np.int64]) -> Array:
        """Return the means of resamples."""
        found = np.empty(len(indices))
        _resampled_means(self.values, indices, found)
        return found

    def jackknife(self) -> Array:
        """Return (x_i - mean) / (n - 1)."""
        return np.asarray((self.values - self.values.mean()) / (self.n - 1))


@dataclass(frozen=True, eq=False)
class WeightedMean(Statistic):
    """sum_i w_i x_i / sum_i w_i: weighted importance sampling. NaN where all weights are 0."""

    weight: Array
    values: Array

    @property
    def estimate(self) -> float:
        """The weighted mean."""
        total = float(self.weight.sum())
        return float(self.weight @ self.values) / total if total > 0.0 else float("nan")

    @property
    def n(self) -> int:
        """Number of episodes."""
        return len(self.values)

    def resampled(self, indices: NDArray[np.int64]) -> Array:
        """Return the weighted means of resamples."""
        found = np.empty(len(indices))
        _resampled_ratios(self.weight, self.weight * self.values, indices, found)
        return found

    def jackknife(self) -> Array:
        """Leave out each episode in turn, by subtraction from the sums."""
        over, under = float(self.weight @ self.values), float(self.weight.sum())
        left = under - self.weight
        with np.errstate(invalid="ignore", divide="ignore"):
            without = (over - self.weight * self.values) / left
        for i in np.flatnonzero(left < _DOMINATED * under):
            rest = np.delete(np.arange(self.n), i)
            without[i] = WeightedMean(self.weight[rest], self.values[rest]).estimate
        return np.asarray(without.mean() - without)


@dataclass(frozen=True, eq=False)
class StepwiseMean(Statistic):
    """Consistent weighted per-decision importance sampling.

        sum_t gamma^t (sum_i w_t^i r_t^i) / (sum_i w_t^i)

    An ended episode keeps its last weight in every later denominator, with reward 0. NaN where all
    weights of some step are 0.

    Attributes:
        episodes: The episodes of the log.
        weight: w_t of every row.
        gamma: The discount.
    """

    episodes: Trajectories
    weight: Array
    gamma: float

    @property
    def n(self) -> int:
        """Number of episodes."""
        return len(self.episodes)

    @property
    def estimate(self) -> float:
        """The value on the log."""
        return float(self.resampled(self.episodes.everything[None])[0])

    @cached_property
    def _by_step(self) -> tuple[NDArray[np.int64], ...]:
        """Rows in order of their step, where each step begins, the episode of each row; ends."""
        lengths = self.episodes.lengths
        owner = np.repeat(self.episodes.everything, lengths)
        step = np.arange(len(owner)) - self.episodes.start[owner]
        order = np.argsort(step, kind="stable")
        first = np.searchsorted(step[order], np.arange(lengths.max() + 1))
        by_length = np.argsort(lengths, kind="stable")
        return order, first, owner[order], by_length, lengths[by_length]

    def resampled(self, indices: NDArray[np.int64]) -> Array:
        """Return the values on resamples."""
        order, first, owner, by_length, lengths = self._by_step
        last = self.weight[self.episodes.start[1:] - 1]
        found = np.empty(len(indices))
        _resampled_steps(
            indices, self.n, first, owner, self.weight[order], self.episodes.reward[order],
            by_length, lengths, last, self.gamma, found,
        )  # fmt: skip
        return found

    def jackknife(self) -> Array:
        """Leave out each episode in turn, by subtraction from the sums of each step."""
        order, first, _, by_length, lengths = self._by_step
        reward, last = self.episodes.reward, self.weight[self.episodes.start[1:] - 1]
        over, under = np.empty(len(first) - 1), np.empty(len(first) - 1)
        _sums_of_steps(first, self.weight[order], reward[order], by_length, lengths, last, over,
                       under)  # fmt: skip
        without, dominated = np.empty(self.n), np.zeros(self.n, dtype=np.bool_)
        _leave_out(self.episodes.start, self.weight, reward, over, under, self.gamma, without,
                   dominated)  # fmt: skip
        for i in np.flatnonzero(dominated):
            rest = np.delete(self.episodes.everything, i)
            without[i] = self.resampled(rest[None])[0]
        return np.asarray(without.mean() - without)


@dataclass(frozen=True, eq=False)
class Difference(Statistic):
    """The difference of two statistics of the same episodes."""

    first: Statistic
    second: Statistic

    @property
    def estimate(self) -> float:
        """The difference."""
        return self.first.estimate - self.second.estimate

    @property
    def n(self) -> int:
        """Number of episodes."""
        return self.first.n

    @property
    def terms(self) -> Array | None:
        """Differences of the terms, if both are means."""
        mine, theirs = self.first.terms, self.second.terms
        return None if mine is None or theirs is None else mine - theirs

    def resampled(self, indices: NDArray[np.int64]) -> Array:
        """Return the differences on resamples."""
        return self.first.resampled(indices) - self.second.resampled(indices)

    def jackknife(self) -> Array:
        """Return the differences of the jackknife values."""
        return self.first.jackknife() - self.second.jackknife()


@jit
def _resampled_means(values, indices, found):  # type: ignore[no-untyped-def]
    for k in range(len(indices)):
        total = 0.0
        for i in indices[k]:
            total += values[i]
        found[k] = total / indices.shape[1]


@jit
def _resampled_ratios(weight, product, indices, found):  # type: ignore[no-untyped-def]
    for k in range(len(indices)):
        over, under = 0.0, 0.0
        for i in indices[k]:
            over += product[i]
            under += weight[i]
        found[k] = over / under if under > 0.0 else np.nan


@jit
def _resampled_steps(  # type: ignore[no-untyped-def]
    indices, n, first, owner, weight, reward, by_length, lengths, last, gamma, found
):
    times = np.empty(n)
    for k in range(len(indices)):
        times[:] = 0.0
        for i in indices[k]:
            times[i] += 1.0
        total, discount, done, ended = 0.0, 1.0, 0, 0.0
        for t in range(len(first) - 1):
            while done < n and lengths[done] <= t:
                ended += times[by_length[done]] * last[by_length[done]]
                done += 1
            over, under = 0.0, ended
            for row in range(first[t], first[t + 1]):
                w = times[owner[row]] * weight[row]
                over += w * reward[row]
                under += w
            # Without weight there is no estimate; without rows of this length, nothing to add.
            total += discount * over / under if under > 0.0 else np.nan
            discount *= gamma
        found[k] = total


@jit
def _sums_of_steps(first, weight, reward, by_length, lengths, last, over, under):  # type: ignore[no-untyped-def]
    done, ended = 0, 0.0
    for t in range(len(first) - 1):
        while done < len(lengths) and lengths[done] <= t:
            ended += last[by_length[done]]
            done += 1
        over[t], under[t] = 0.0, ended
        for row in range(first[t], first[t + 1]):
            over[t] += weight[row] * reward[row]
            under[t] += weight[row]


@jit
def _leave_out(start, weight, reward, over, under, gamma, without, dominated):  # type: ignore[no-untyped-def]
    for i in range(len(start) - 1):
        total, discount, w = 0.0, 1.0, 0.0
        for t in range(len(over)):
            gone = 0.0
            if start[i] + t < start[i + 1]:
                w = weight[start[i] + t]
                gone = w * reward[start[i] + t]
            left = under[t] - w
            if left < _DOMINATED * under[t] or under[t] == 0.0:
                dominated[i] = True
                break
            total += discount * (over[t] - gone) / left
            discount *= gamma
        without[i] = total
