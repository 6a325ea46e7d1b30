"""Noise of observed rewards; it keeps their means."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Coin:
    """One of two rewards.

    Attributes:
        low: Smaller reward.
        high: Larger reward; means lie between the two.
    """

    low: float = 0.0
    high: float = 1.0

    def __call__(self, mean: Array, rng: np.random.Generator) -> Array:
        """Draw rewards."""
        share = (mean - self.low) / (self.high - self.low)
        return np.where(rng.random(mean.shape) < share, self.high, self.low)


@dataclass(frozen=True)
class Jackpots:
    """A rare large win in place of each mean that reaches a threshold; others are sure.

    Attributes:
        win: The win; otherwise nothing is paid.
        threshold: Smallest mean that is made of wins.
    """

    win: float
    threshold: float

    def __call__(self, mean: Array, rng: np.random.Generator) -> Array:
        """Draw rewards."""
        wins = self.win * (rng.random(mean.shape) < mean / self.win)
        return np.where(mean >= self.threshold, wins, mean)


@dataclass(frozen=True)
class RareLosses:
    """A plain reward with a rare loss; the riskier an action, the better its plain reward.

    An action whose losses have probability p pays plain + premium * p, and with probability p
    loss less than that. So its mean is plain - (loss - premium) * p, from which p follows.

    Attributes:
        plain: Reward of an action without risk; no mean exceeds it.
        loss: Size of a loss.
        premium: What a riskier action pays more, for each unit of p; less than `loss`.
    """

    plain: float
    loss: float
    premium: float

    def mean(self, probability: Array) -> Array:
        """Return the mean reward where losses have a given probability."""
        return self.plain - (self.loss - self.premium) * probability

    def __call__(self, mean: Array, rng: np.random.Generator) -> Array:
        """Draw rewards."""
        probability = (self.plain - mean) / (self.loss - self.premium)
        is_lost = rng.random(mean.shape) < probability
        return self.plain + self.premium * probability - self.loss * is_lost


@dataclass(frozen=True)
class Blur:
    """Normal noise.

    Attributes:
        deviation: Its standard deviation.
    """

    deviation: float

    def __call__(self, mean: Array, rng: np.random.Generator) -> Array:
        """Draw rewards."""
        return mean + self.deviation * rng.normal(size=mean.shape)


@dataclass(frozen=True)
class EvenBlur:
    """Uniform noise, which is bounded.

    Attributes:
        half_width: Largest deviation from the mean.
    """

    half_width: float

    def __call__(self, mean: Array, rng: np.random.Generator) -> Array:
        """Draw rewards."""
        return mean + rng.uniform(-self.half_width, self.half_width, mean.shape)


@dataclass(frozen=True)
class LognormalFactor:
    """A lognormal factor of mean 1.

    Attributes:
        sigma: Standard deviation of its logarithm.
    """

    sigma: float

    def __call__(self, mean: Array, rng: np.random.Generator) -> Array:
        """Draw rewards."""
        return mean * np.exp(self.sigma * rng.normal(size=mean.shape) - self.sigma**2 / 2.0)


@dataclass(frozen=True)
class ParetoFactor:
    """A Pareto factor of mean 1.

    Attributes:
        alpha: Index of its tail; more than 1.
    """

    alpha: float

    def __call__(self, mean: Array, rng: np.random.Generator) -> Array:
        """Draw rewards."""
        return mean * (self.alpha - 1.0) / self.alpha * (1.0 + rng.pareto(self.alpha, mean.shape))


@dataclass(frozen=True)
class StudentNoise:
    """Student noise of few degrees of freedom.

    Attributes:
        scale: Its scale.
        freedom: Degrees of freedom; more than 1.
    """

    scale: float
    freedom: float

    def __call__(self, mean: Array, rng: np.random.Generator) -> Array:
        """Draw rewards."""
        return mean + self.scale * rng.standard_t(self.freedom, mean.shape)
