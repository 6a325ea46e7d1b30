r"""Consistent weighted per-decision importance sampling (Thomas 2015).

    sum_t gamma^t (sum_i w_t^i r_t^i) / (sum_i w_t^i)

An ended episode keeps its last weight in every later denominator, with reward 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from spibb.ope.estimators.base import Estimator
from spibb.ope.statistics import DOMINATED, Array, Statistic
from spibb.ope.trajectories import Trajectories
from spibb.ope.weights import Walk

jit = numba.njit(cache=True, nogil=True, error_model="numpy")


class StepwiseWeighted(Estimator):
    """The mean reward of each step, weighted."""

    id = "cwpdis"
    title = "consistent weighted per-decision importance sampling"

    def weight(self, walk: Walk) -> Array:
        """Return the spread weights: its terms hold every step's weight."""
        return walk.spread

    def of_walk(self, walk: Walk, policy: int) -> StepwiseMean:
        """Return the estimate of one policy of a walk."""
        return StepwiseMean(walk.taken, np.ascontiguousarray(walk.running[:, policy]), walk.gamma)


class Steps(NamedTuple):
    """Rows of a log in order of their step, for compiled kernels.

    Attributes:
        first: Where each step begins, and the number of rows.
        owner: The episode of each row.
        weight: w_t of each row.
        reward: Reward of each row.
        by_length: Episodes in order of their lengths.
        lengths: Those lengths.
        last: The last weight of each episode, in order of the lengths.
    """

    first: NDArray[np.int64]
    owner: NDArray[np.int64]
    weight: Array
    reward: Array
    by_length: NDArray[np.int64]
    lengths: NDArray[np.int64]
    last: Array


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

    @property
    def n(self) -> int:
        """Number of episodes."""
        return len(self.episodes)

    @property
    def estimate(self) -> float:
        """The value on the log."""
        return float(self.resampled(self.episodes.everything[None])[0])

    @cached_property
    def _steps(self) -> Steps:
        lengths = self.episodes.lengths
        owner = np.repeat(self.episodes.everything, lengths)
        step = np.arange(len(owner)) - self.episodes.start[owner]
        order = np.argsort(step, kind="stable")
        first = np.searchsorted(step[order], np.arange(lengths.max() + 1))
        by_length = np.argsort(lengths, kind="stable")
        last = self.weight[self.episodes.start[1:] - 1][by_length]
        rows = (owner[order], self.weight[order], self.episodes.reward[order])
        return Steps(first, *rows, by_length, lengths[by_length], last)

    def resampled(self, indices: NDArray[np.int64]) -> Array:
        """Return the values on resamples."""
        found = np.empty(len(indices))
        _resampled(self._steps, indices, self.n, self.gamma, found)
        return found

    def jackknife(self) -> Array:
        """Leave out each episode in turn, by subtraction from the sums of each step."""
        without, is_dominated = np.empty(self.n), np.zeros(self.n, dtype=np.bool_)
        _leave_out(self._steps, self.episodes.start, self.weight, self.episodes.reward, self.gamma,
                   without, is_dominated)  # fmt: skip
        for i in np.flatnonzero(is_dominated):
            rest = np.delete(self.episodes.everything, i)
            without[i] = self.resampled(rest[None])[0]
        return np.asarray(without.mean() - without)


@jit
def _sum_steps(steps, times, over, under):  # type: ignore[no-untyped-def]
    """Add up both sums of each step, with every episode so many times."""
    done, ended = 0, 0.0
    for t in range(len(over)):
        while done < len(times) and steps.lengths[done] <= t:
            ended += times[steps.by_length[done]] * steps.last[done]
            done += 1
        earned, weight = 0.0, ended
        for row in range(steps.first[t], steps.first[t + 1]):
            w = times[steps.owner[row]] * steps.weight[row]
            earned += w * steps.reward[row]
            weight += w
        over[t], under[t] = earned, weight


@jit
def _resampled(steps, indices, n, gamma, found):  # type: ignore[no-untyped-def]
    times, over, under = np.empty(n), np.empty(len(steps.first) - 1), np.empty(len(steps.first) - 1)
    for k in range(len(indices)):
        times[:] = 0.0
        for i in indices[k]:
            times[i] += 1.0
        _sum_steps(steps, times, over, under)
        total, discount = 0.0, 1.0
        for t in range(len(over)):
            # Without weight there is no estimate.
            total += discount * over[t] / under[t] if under[t] > 0.0 else np.nan
            discount *= gamma
        found[k] = total


@jit
def _leave_out(steps, start, weight, reward, gamma, without, is_dominated):  # type: ignore[no-untyped-def]
    over, under = np.empty(len(steps.first) - 1), np.empty(len(steps.first) - 1)
    _sum_steps(steps, np.ones(len(start) - 1), over, under)
    for i in range(len(start) - 1):
        total, discount, w = 0.0, 1.0, 0.0
        for t in range(len(over)):
            gone = 0.0
            if start[i] + t < start[i + 1]:
                w = weight[start[i] + t]
                gone = w * reward[start[i] + t]
            left = under[t] - w
            if left < DOMINATED * under[t] or under[t] == 0.0:
                is_dominated[i] = True
                break
            total += discount * (over[t] - gone) / left
            discount *= gamma
        without[i] = total
