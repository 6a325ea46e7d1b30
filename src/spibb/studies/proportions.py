"""Exact intervals and tests of proportions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, betaincinv

_TAIL = 0.025


def clopper_pearson(k: int, n: int) -> tuple[float, float]:
    """Return the exact 95 % interval of a proportion.

    Args:
        k: Number of successes.
        n: Number of trials; 0 leaves everything possible.

    Example:
        >>> low, high = clopper_pearson(0, 200)
        >>> low, round(high, 4)
        (0.0, 0.0183)
    """
    low = float(betaincinv(k, n - k + 1, _TAIL)) if k > 0 else 0.0
    high = float(betaincinv(k + 1, n - k, 1.0 - _TAIL)) if k < n else 1.0
    return low, high


def lower_limit(k: int, n: int, tail: float = 0.05) -> float:
    """Return the exact lower 95 % limit of a proportion, with all of the error on one side.

    Args:
        k: Number of successes.
        n: Number of trials.
        tail: Probability that the limit is above the proportion, at most.

    Example:
        >>> round(lower_limit(5, 100), 4)
        0.0199
    """
    return float(betaincinv(k, n - k + 1, tail)) if k > 0 else 0.0


def excess_p(k: int, n: int, most: float) -> float:
    """Return the probability of ``k`` or more successes where each has probability ``most``.

    Args:
        k: Number of successes.
        n: Number of trials.
        most: The largest proportion of the null hypothesis.

    Example:
        >>> round(excess_p(1, 2, 0.5), 4)
        0.75
    """
    return float(bdtrc(k - 1, n, most)) if k > 0 else 1.0


def holm(p_values: Sequence[float]) -> NDArray[np.float64]:
    """Return p-values adjusted for their number by Holm's method.

    Example:
        >>> holm([0.01, 0.04, 0.9]).tolist()
        [0.03, 0.08, 0.9]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    return np.minimum(adjusted, 1.0)
