r"""Betting: an exact lower bound on the mean of terms >= 0, at every sample size.

Bet a fraction c of one's wealth on each term being larger than m: the wealth after n terms is
prod_i (1 + c (Y_i / m - 1)). If E Y <= m no bet gains on average, so that for independent terms, or
terms of which each is at most m on average given the others, the mean over fractions c_j,

    K(m) = sum_j u_j prod_i (1 + c_j (Y_i / m - 1)),   sum_j u_j = 1,  0 < c_j < 1,

is a non-negative supermartingale, and by Ville's inequality ever reaches 1 / delta with probability
at most delta. K falls in m: the largest m with K(m) >= 1 / delta is a lower confidence bound on E
Y, at whatever moment the log stops. Only Y >= 0 is asked: no upper bound, no threshold, no order.
(Waudby-Smith and Ramdas 2024 survey such bounds; the use for weighted returns is as in
docs/evaluation.md.)

Fractions lie on a grid, evenly in log(c / (1 - c)), or around one that other episodes chose; both
are fixed before the terms are seen.

**The root.** In t = log m, log K is convex (a logarithm of a sum of products of sums of
exponentials) and falls. Newton's method then never oversteps: after its first step it comes from
the left, where log K >= log(1 / delta), so that every iterate is itself a valid bound.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from spibb.compiled.jit import jit, reciprocal_jit
from spibb.ope.bounds import check_signs, checked_level, checked_terms

Array = NDArray[np.float64]

N_FRACTIONS = 32
# 0.0002 to 0.99: from what a million terms ask for to what a handful do.
FRACTIONS: Array = 1.0 / (1.0 + np.exp(-np.linspace(-8.5, 4.5, N_FRACTIONS)))
_MOST_STEPS, _TOLERANCE = 50, 1e-10
# Factors are multiplied so many at a time before a logarithm is taken.
_BLOCK, _LARGEST_FACTOR = 16, 1e18


def betting(
    terms: ArrayLike,
    delta: float,
    fractions: ArrayLike | None = None,
    share: ArrayLike | None = None,
) -> float:
    """Return the lower bound on the mean of non-negative terms, at level delta.

    Args:
        terms: Numbers >= 0.
        delta: Level.
        fractions: What share of the wealth is bet, each in (0, 1), chosen without the terms; None:
            a grid.
        share: How the first wealth is divided among the fractions; None: evenly.

    Example:
        All terms are 1, and half of the wealth is bet: (1 + (1 / m - 1) / 2)^4 = 20 gives m.

        >>> round(betting([1.0] * 4, 0.05, [0.5]), 6), round(1 / (2 * 20**0.25 - 1), 6)
        (0.309647, 0.309647)
    """
    values = checked_terms(terms, 1)
    level = -math.log(checked_level(delta))
    check_signs(values, "a bet may lose no more than what was bet")
    c = FRACTIONS if fractions is None else np.atleast_1d(np.asarray(fractions, np.float64))
    u = np.full(len(c), 1.0 / len(c)) if share is None else np.asarray(share, np.float64)
    return float(_bound(values, level, c, np.log(u), 1.0))


def predicted_betting(terms: Array, n_tested: int, delta: float) -> tuple[float, float]:
    """Return the bound that ``n_tested`` terms like these may be expected to give, and a fraction.

    The wealth is that of these terms, raised to the power n_tested / n; the fraction is the one
    that is then richest.
    """
    power = n_tested / len(terms)
    shares = np.full(N_FRACTIONS, -math.log(N_FRACTIONS))
    bound = float(_bound(terms, -math.log(delta), FRACTIONS, shares, power))
    if bound <= 0.0:
        return 0.0, float(FRACTIONS[N_FRACTIONS // 2])
    largest = terms.max()
    wealth = np.array([_log_wealth(terms, largest, c, bound)[0] for c in FRACTIONS])
    return bound, float(FRACTIONS[int(np.argmax(wealth))])


def needed_terms(terms: Array, delta: float, power: float) -> float:
    """Return how many terms like these it takes until the bound exceeds 1 with a probability.

    A fraction's log-wealth at m = 1 grows with n terms like n times the mean of the logarithms, of
    these terms, and strays by the square root of n times their spread. The fraction that needs
    fewest terms counts; half of the wealth is trusted to it (:func:`chosen_fractions`).

    Example:
        All terms are 1.2: bets of nearly everything need log(2 / delta) / log 1.2 of them.

        >>> needed_terms(np.full(10, 1.2), 0.05, 0.8), math.log(40) / math.log(1.2)
        (21.0, 20.23...)
        >>> needed_terms(np.full(10, 0.9), 0.05, 0.8)
        inf
    """
    z, level = float(ndtri(power)), math.log(2.0 / delta)
    grown = np.log1p(FRACTIONS[:, None] * (terms - 1.0))
    growth, spread = grown.mean(axis=1), z * grown.std(axis=1)
    gains = growth > 0.0
    if not gains.any():
        return math.inf
    growth, spread = growth[gains], spread[gains]
    # The positive root of growth n - spread sqrt(n) = level.
    root = (spread + np.sqrt(spread**2 + 4.0 * growth * level)) / (2.0 * growth)
    return float(np.ceil(root**2).min())


def chosen_fractions(fraction: float) -> tuple[Array, Array]:
    """Return fractions and shares that trust one fraction with half of the wealth.

    The other half is spread over the grid, in case the tested episodes are unlike those that chose.
    """
    shares = np.append(0.5, np.full(N_FRACTIONS, 0.5 / N_FRACTIONS))
    return np.append(fraction, FRACTIONS), shares


@jit
def _bound(values, level, fractions, log_share, power):  # type: ignore[no-untyped-def]
    """Find the root of log K = level by Newton's method in log m; see the module's docstring."""
    mean, largest = values.mean(), values.max()
    if not mean > 0.0:
        return 0.0
    wealth, slope = np.empty(len(fractions)), np.empty(len(fractions))
    # Two and a half standard errors below the mean are a fair guess; any start will do.
    spread = np.sqrt((((values - mean) / largest) ** 2).mean()) * largest
    t = np.log(max(mean - 2.5 * spread / np.sqrt(power * len(values)), 0.1 * mean))
    best = 0.0
    for _ in range(_MOST_STEPS):
        m = np.exp(t)
        top = -np.inf
        for j in range(len(fractions)):
            wealth[j], slope[j] = _log_wealth(values, largest, fractions[j], m)
            wealth[j] = power * wealth[j] + log_share[j]
            top = max(top, wealth[j])
        total, lean = 0.0, 0.0
        for j in range(len(fractions)):
            part = np.exp(wealth[j] - top)
            total += part
            lean += part * power * slope[j]
        height = top + np.log(total)
        if height >= level:
            best = max(best, m)
        move = (height - level) / (lean / total)  # the slope is that of -log K, and positive
        if not np.isfinite(move) or (height >= level and move <= _TOLERANCE):
            break
        # Rounding may leave it a hair to the right of the root: step over it.
        t += move if move > 0.0 else move - _TOLERANCE
        if t < -700.0:
            break
    return best


@reciprocal_jit
def _log_wealth(values, largest, c, m):  # type: ignore[no-untyped-def]
    """Return log prod_i (1 - c + c Y_i / m), and how fast it falls with log m."""
    rest, scale = 1.0 - c, c / m
    n = len(values)
    # One by one where products of factors would overflow.
    n_blocked = n - n % _BLOCK if largest * scale < _LARGEST_FACTOR else 0
    total, inverse = 0.0, 0.0
    for first in range(0, n_blocked, _BLOCK):
        product = 1.0
        for i in range(first, first + _BLOCK):
            factor = rest + scale * values[i]
            inverse += 1.0 / factor
            product *= factor
        total += np.log(product)
    for i in range(n_blocked, n):
        factor = rest + scale * values[i]
        inverse += 1.0 / factor
        total += np.log(factor)
    return total, n - rest * inverse
