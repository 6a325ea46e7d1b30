"""Draws that take as many random numbers whatever the actions were."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def poisson_of(u: Floats, mean: NDArray[np.floating]) -> Floats:
    """Return Poisson counts by inversion of uniform numbers; means are small."""
    probability = np.exp(-mean)
    below, count = probability.copy(), np.zeros_like(u)
    for k in range(1, 20):
        is_beyond = u > below
        if not is_beyond.any():
            break
        count += is_beyond
        probability = probability * mean / k
        below += probability
    return count


def with_gaps(values: Floats, share: float, rng: np.random.Generator) -> Floats:
    """Return readings of which a share is missing at random."""
    return np.where(rng.random(len(values)) < share, np.nan, values)


def filled(values: Floats, typical: float) -> Floats:
    """Replace missing readings by a typical value, as those who act do."""
    return np.asarray(np.where(np.isnan(values), typical, values))


def sigmoid(x: Floats) -> Floats:
    """Return the logistic function."""
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def near_level(target: Floats, n_levels: int, spread: float) -> Floats:
    """Return probabilities of ordered actions that fall off around a target level.

    Args:
        target: Wanted level of each episode, in units of levels.
        n_levels: Number of actions.
        spread: Standard deviation of the choice around the target.
    """
    distance = (np.arange(n_levels) - np.clip(target, 0.0, n_levels - 1.0)[:, None]) / spread
    weight = np.exp(-0.5 * distance**2)
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def mixed(probabilities: Floats, share: float) -> Floats:
    """Mix a share of uniform actions into probabilities."""
    return np.asarray((1.0 - share) * probabilities + share / probabilities.shape[1])
