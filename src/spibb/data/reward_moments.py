"""How the rewards of a log spread, which posteriors and shrunk models need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spibb.data.log import Log


@dataclass(frozen=True, eq=False)
class RewardMoments:
    """How the rewards of a log spread around the mean of their pair.

    Attributes:
        by_successor: Sum of the rewards of steps to each next state, sparse of shape (S * A, S).
        spread: Sum of squared differences from the mean reward of the pair, shape (S, A).
    """

    by_successor: sp.csr_array
    spread: NDArray[np.float64]

    @classmethod
    def of(cls, log: Log) -> RewardMoments:
        """Look up how the rewards of a log spread."""
        shape, known = (log.n_states, log.n_actions), log.next_state >= 0
        kept, pair = known | log.terminated, log.state * log.n_actions + log.action
        by_successor = tallied(pair[known], log.next_state[known], shape, log.reward[known])
        pair, reward = pair[kept], log.reward[kept]
        n = np.maximum(np.bincount(pair, minlength=shape[0] * shape[1]), 1)
        mean = _sums(pair, reward, shape).ravel() / n
        return cls(by_successor, _sums(pair, (reward - mean[pair]) ** 2, shape))

    @classmethod
    def on_entry(
        cls, n_sas: sp.csr_array, entry: NDArray[np.float64], shape: tuple[int, ...]
    ) -> RewardMoments:
        """Return what is paid where entering a state pays, whatever led there."""
        by_successor = n_sas.astype(np.float64)
        by_successor.data *= entry[n_sas.indices]
        n = np.asarray(n_sas.sum(axis=1)).ravel()
        mean = np.asarray(by_successor.sum(axis=1)).ravel() / np.maximum(n, 1)
        pair = np.repeat(np.arange(len(n)), np.diff(n_sas.indptr))
        off = n_sas.data * (entry[n_sas.indices] - mean[pair]) ** 2
        return cls(by_successor, np.bincount(pair, off, len(n)).astype(np.float64).reshape(shape))

    @classmethod
    def on_pairs(cls, n_sas: sp.csr_array, reward: NDArray[np.float64]) -> RewardMoments:
        """Return what is paid where a pair pays the same at every visit; reward is (S, A)."""
        by_successor = n_sas.astype(np.float64)
        by_successor.data *= np.repeat(reward.ravel(), np.diff(n_sas.indptr))
        return cls(by_successor, np.zeros(reward.shape))

    def __mul__(self, times: int) -> RewardMoments:
        return RewardMoments(self.by_successor * times, self.spread * times)


def _sums(
    pair: NDArray[np.int64], values: NDArray[np.float64], shape: tuple[int, int]
) -> NDArray[np.float64]:
    sums = np.bincount(pair, values, shape[0] * shape[1]).astype(np.float64)
    return sums.reshape(shape)


def tallied(
    pair: NDArray[np.int64],
    next_state: NDArray[np.int64],
    shape: tuple[int, int],
    values: NDArray[Any] | None = None,
) -> sp.csr_array:
    """Add up values, or ones, by pair and next state."""
    values = np.ones(len(pair), dtype=np.int64) if values is None else values
    tally = sp.coo_array((values, (pair, next_state)), shape=(shape[0] * shape[1], shape[0]))
    return sp.csr_array(tally)
