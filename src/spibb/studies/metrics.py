"""Metrics as pure functions of the scores of many runs.

>>> cvar([0.0, 1.0, 2.0, 3.0], share=0.5)
0.5
"""

from __future__ import annotations

import numpy as np
import scipy.stats
from numpy.typing import ArrayLike, NDArray


def mean_interval(scores: ArrayLike, confidence: float = 0.95) -> tuple[float, float, float]:
    """Return the mean and its confidence interval by Student's t."""
    values = np.asarray(scores, dtype=np.float64)
    mean = float(values.mean())
    if len(values) < 2:
        return mean, -np.inf, np.inf
    error = float(values.std(ddof=1)) / np.sqrt(len(values))
    half = float(scipy.stats.t.ppf((1 + confidence) / 2, len(values) - 1)) * error
    return mean, mean - half, mean + half


def cvar(scores: ArrayLike, share: float) -> float:
    """Return the mean of the worst ``share`` of the scores: X %-CVaR with share X / 100.

    With a share that is no whole number of runs, the next one counts in part.
    """
    values = np.sort(np.asarray(scores, dtype=np.float64))
    return _tail_mean(values, share * len(values))


def cvar_interval(
    scores: ArrayLike, share: float, rng: np.random.Generator, *, n_resamples: int = 1_000,
    confidence: float = 0.95,
) -> tuple[float, float, float]:  # fmt: skip
    """Return the CVaR and its percentile bootstrap interval."""
    values = np.sort(np.asarray(scores, dtype=np.float64))
    n = len(values)
    found = []
    for _ in range(n_resamples):
        # Only how often each of the sorted runs is drawn matters, so sorting happens once.
        weights = np.bincount(rng.integers(0, n, n), minlength=n)
        found.append(_weighted_tail_mean(values, weights, share * n))
    low, high = np.quantile(found, [(1 - confidence) / 2, (1 + confidence) / 2])
    return _tail_mean(values, share * n), float(low), float(high)


def probability_worse(scores: ArrayLike) -> float:
    """Return the share of runs whose policy is worse than the baseline."""
    return float((np.asarray(scores) < 0).mean())


def _tail_mean(ordered: NDArray[np.float64], n_tail: float) -> float:
    return _weighted_tail_mean(ordered, np.ones(len(ordered)), n_tail)


def _weighted_tail_mean(
    ordered: NDArray[np.float64], weights: NDArray[np.float64] | NDArray[np.int64], n_tail: float
) -> float:
    """Return the mean of the first ``n_tail`` units of weight."""
    before = np.concatenate([[0.0], np.cumsum(weights)[:-1]])
    counted = np.clip(n_tail - before, 0.0, weights)
    return float((counted * ordered).sum() / counted.sum())
