"""What pairs pay, less their luck: where rewards vary by chance, a mean of few says little.

What a pair pays besides what follows it, u(x, a), is drawn to what its surroundings pay, for as
many rows m as the log itself says:

    u <- (n u + m t) / (n + m),   t = (sum_b n_xb (u_xb - e_b) + c u_all) / (N_x + c) + e_a

with e_a what an action pays more than others of the same state, as all *other* states say, and
u_all the mean of all rows: the prior of spibb.data.prior, for rewards. By its likelihood c and m
are found for each kind of states (spibb.data.kinds): if u varies about t by s^2 / m, with s^2 the
variance of single rewards, the mean of n rows varies by s^2 (1/n + 1/m) about it, and t, without
the pair's own rows, is itself known by N_x,-a + c rows. Where the rewards of a pair do not vary
nothing is done.

That likelihood is normal as long as single rewards are. Where few of many pay much, a jackpot, a
purchase, one of them in three rows is no wonder, though it lies many deviations off: by a normal
likelihood its pair would be another kind of pair. If single rewards lie at most r deviations off,
a mean of n lies z deviations off by chance with a probability of at most exp(-I) (Bennett, 1962),

    I = h(z r / sqrt(n)) n / r^2,   h(x) = (1 + x) log(1 + x) - x:

z^2 / 2 for small r, and that of a Poisson variable where all is decided by whether a rare event
occurred. I stands for z^2 / 2, with the kurtosis for r^2, which it is if all that is not normal
comes of one rare event. It is told by how much pairs differ in their sums of squares Q of f = n - 1
degrees: Var Q = s^4 f (2 + kurtosis f / n).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.data.kinds import expected_strength, kinds

Array = NDArray[np.float64]

# Rows that the mean of all is worth beside the other actions of a state; infinite: those are
# ignored.
SHARES = (0.5, 8.0, 128.0, math.inf)
# Rows that the surroundings of a pair are worth.
STRENGTHS = tuple(4.0**k for k in range(-5, 7))
# Rows without an effect beside those of an action; infinite: actions have none.
_RIDGES = (4.0, 64.0, math.inf)
_N_SWEEPS = 10


def kurtosis(squares: Array, n: Array, largest: float) -> float:
    """Return the kurtosis of single rewards beyond that of normal ones, at least 0.

    Where pairs are not as noisy as each other it is too large, which is careful; of a single pair
    it is not known, and 0.

    Args:
        squares: Sums of squares around the mean of each pair.
        n: How often each was seen.
        largest: How far a reward is off at most.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> normal, rare = rng.normal(size=(500, 20)), 10.0 * (rng.random((500, 20)) < 0.01)
        >>> n = np.full(500, 20.0)
        >>> kurtosis(20 * normal.var(axis=1), n, 4.0) < 0.5
        True
        >>> 80.0 < kurtosis(20 * rare.var(axis=1), n, 10.0) < 110.0
        True
    """
    known = n > 1.0
    q, f, n = squares[known], n[known] - 1.0, n[known]
    variance = q.sum() / max(f.sum(), 1.0)
    if variance == 0.0:
        return 0.0
    beyond = ((q / variance - f) ** 2).sum() - 2.0 * f.sum()
    return float(np.clip(beyond / (f**2 / n).sum(), 0.0, largest**2 / variance))


def without_luck(u: Array, n_sa: Array, variance: Array, rare: float = 0.0) -> Array:
    """Return what pairs are expected to pay, 0 where nothing was seen.

    Args:
        u: What they paid on average, shape (S, A).
        n_sa: How often each was seen.
        variance: Of a single reward, all positive.
        rare: Kurtosis of single rewards beyond that of normal ones.

    Example:
        >>> paid = np.array([[0.4, 0.9], [0.6, 0.2], [0.5, 0.6]])
        >>> seen = np.array([[60.0, 3.0], [50.0, 4.0], [55.0, 2.0]])
        >>> found = without_luck(paid, seen, np.full((3, 2), 0.25))
        >>> bool(abs(found - 0.5).max() < 0.1)
        True
    """
    overall = float((n_sa * u).sum() / max(n_sa.sum(), 1.0))
    centred = np.where(n_sa > 0.0, u - overall, 0.0)
    shares, strengths = np.array(SHARES), np.array(STRENGTHS)
    best, found = -np.inf, None
    for ridge in _RIDGES:
        of_action = _effects(centred, n_sa, ridge)
        likelihood = _likelihoods(centred, n_sa, variance, of_action, shares, strengths, rare)
        total = float((likelihood.sum(axis=0) + expected_strength(strengths)).max())
        if total > best:
            best, found = total, (of_action, likelihood)
    assert found is not None
    of_action, likelihood = found
    before = np.tile(expected_strength(strengths), len(shares))
    which = kinds(likelihood.reshape(len(likelihood), -1), before)
    share, strength = shares[which // len(strengths)], strengths[which % len(strengths)]
    around = _around(centred, n_sa, of_action, share)
    m = strength[:, None]
    expected = (n_sa * centred + m * around) / (n_sa + m) + overall
    return np.where(n_sa > 0.0, expected, 0.0)


def strength_of_effects(effect: Array, n: Array, variance: float, rare: float = 0.0) -> Array:
    """Return by how many rows effects are to be drawn to 0, each by what its kind says.

    Args:
        effect: Estimates.
        n: Rows that each is known by.
        variance: Of a single row.
        rare: Kurtosis of single rows beyond that of normal ones.
    """
    strengths = np.array(STRENGTHS)
    # Each is a state with one action, of which nothing is expected but what all have: no effect.
    likelihood = _likelihoods(
        effect[:, None], n[:, None], np.full((len(n), 1), variance), np.zeros((len(n), 1)),
        np.array([math.inf]), strengths, rare,
    )[:, 0]  # fmt: skip
    return np.asarray(strengths[kinds(likelihood, expected_strength(strengths))])


def _effects(u: Array, n_sa: Array, ridge: float) -> Array:
    """Return what each action pays more than others of its states, as other states say, (S, A)."""
    if math.isinf(ridge):
        return np.zeros(u.shape)
    by_state, effect = np.zeros(len(u)), np.zeros(u.shape[1])
    n_x, n_a = np.maximum(n_sa.sum(axis=1), 1.0), n_sa.sum(axis=0)
    for _ in range(_N_SWEEPS):
        by_state = (n_sa * (u - effect)).sum(axis=1) / n_x
        effect = (n_sa * (u - by_state[:, None])).sum(axis=0) / (n_a + ridge)
    mine = n_sa * (u - by_state[:, None])
    return np.asarray((mine.sum(axis=0) - mine) / (n_a - n_sa + ridge))


def _around(u: Array, n_sa: Array, effects: Array, share: Array) -> Array:
    """Return t, with the mean of all at 0."""
    paid, n_x = (n_sa * (u - effects)).sum(axis=1), n_sa.sum(axis=1)
    ignored = np.isinf(share)
    by_state = np.where(ignored, 0.0, paid / (n_x + np.where(ignored, 1.0, share)))
    return np.asarray(by_state[:, None] + effects)


@jit
def _log_density(off, variance, n, known, m, rare):  # type: ignore[no-untyped-def]
    """Return how likely a mean of n rows is so far off what is expected of it.

    Up to what all densities have in common, nearly: those of rare events add up to somewhat more,
    which favours strong priors.

    Args:
        off: How far.
        variance: Of a single row.
        n: How many rows.
        known: What the expected is known by: the inverse of a number of rows, 0 if it is certain.
        m: By how many rows pairs vary about it; normal.
        rare: Kurtosis of single rows beyond that of normal ones.
    """
    spread = 1.0 / n + 1.0 / m + known
    z = abs(off) / math.sqrt(variance * spread)
    # How far one row moves it, of its own or of those that it is expected by, in deviations.
    r = math.sqrt(rare / spread) * max(1.0 / n, known)
    x = z * r
    surprise = 0.5 * z * z if x < 1e-4 else ((1.0 + x) * math.log1p(x) - x) / (r * r)
    return -0.5 * math.log(variance * spread) - surprise


@jit
def _likelihoods(u, n_sa, variance, effects, shares, strengths, rare):  # type: ignore[no-untyped-def]
    """Return the logarithm of the likelihood of each state's means, (S, shares, strengths)."""
    n_states, n_actions = u.shape
    found = np.zeros((n_states, len(shares), len(strengths)))
    for x in range(n_states):
        total, n_x = 0.0, 0.0
        for a in range(n_actions):
            total += n_sa[x, a] * (u[x, a] - effects[x, a])
            n_x += n_sa[x, a]
        for a in range(n_actions):
            n = n_sa[x, a]
            if n <= 0.0:
                continue
            for i, c in enumerate(shares):
                t, known = effects[x, a], 0.0
                if not math.isinf(c):
                    t += (total - n * (u[x, a] - effects[x, a])) / (n_x - n + c)
                    known = 1.0 / (n_x - n + c)
                for j, m in enumerate(strengths):
                    found[x, i, j] += _log_density(u[x, a] - t, variance[x, a], n, known, m, rare)
    return found
