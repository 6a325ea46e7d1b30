"""Random parameters of problems."""

from __future__ import annotations

import numpy as np


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """Draw a number whose logarithm is uniform."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def whole(rng: np.random.Generator, low: int, high: int) -> int:
    """Draw an integer between two, both included."""
    return int(rng.integers(low, high + 1))


def chance(rng: np.random.Generator, probability: float = 0.5) -> bool:
    """Tell whether an event of a given probability happens."""
    return bool(rng.random() < probability)


def discount(rng: np.random.Generator, low: float = 0.8, high: float = 0.99) -> float:
    """Draw a discount; the logarithm of 1 - gamma is uniform."""
    return 1.0 - log_uniform(rng, 1.0 - high, 1.0 - low)


def longest_episode(rng: np.random.Generator, gamma: float) -> int:
    """Draw the longest episode: one to three times 1 / (1 - gamma), between 10 and 100 steps."""
    return int(np.clip(rng.uniform(1.0, 3.0) / (1.0 - gamma), 10.0, 100.0))


def declared(
    rng: np.random.Generator, low: float, high: float, probability: float = 0.5
) -> tuple[float, float] | None:
    """Return a range of rewards, or nothing, by chance.

    Args:
        rng: Source of randomness.
        low: Smallest possible reward.
        high: Largest possible reward.
        probability: How often the range is declared.
    """
    return (float(low), float(high)) if chance(rng, probability) else None
