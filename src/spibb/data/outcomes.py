"""What followed each pair in a log, and what was paid with it, laid out for compiled kernels.

An outcome of a step is the next state or, as number S, the end of the process outside of a terminal
state. Rewards are taken apart into what a pair pays whatever follows, and what an outcome adds:

    r(x, a, y) = u(x, a) + h(y) + noise

by least squares with u free and h drawn towards 0, so that h is only what differs *within* pairs:
where rewards depend on state and action alone, as costs mostly do, it is 0, where entering a goal
pays it is that pay. A constant added to all rewards moves u alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.data.counts import Counts, Paid
from spibb.data.luck import kurtosis, strength_of_effects, without_luck

Array = NDArray[np.float64]

# Rows without an effect by which h is drawn to 0.
RIDGE = 0.25
_N_SWEEPS = 100
_TOLERANCE = 1e-9
_ROUNDING = 1e-14
# Rows by which the variance of all is drawn to what pairs differ by, and those of states and
# actions to that of all.
_POOLED_ROWS = 4.0
# Rows by which the variance of a pair is drawn to that of its state and action.
_POOLED_ROWS_OF_PAIR = 32.0


class Outcomes(NamedTuple):
    """The outcomes of a log; rows are pairs x * A + a.

    Attributes:
        indptr: Where each pair's outcomes start, shape (S * A + 1,).
        indices: Which outcomes; S stands for the end.
        counts: How often.
        rewards: What was paid with each on average.
        n_sa: How often in all, shape (S, A).
        live: Which states are not terminal, shape (S,).
        by_pair: u(x, a), shape (S, A); 0 where nothing was seen.
        by_state: Mean of u over the rows of the state, else over all rows, shape (S,).
        by_entry: h, shape (S + 1,).
        entry_variance: How much h may be otherwise, shape (S + 1,); 0 where rewards do not vary.
        variance: Of a single reward around u + h, shape (S, A).
        is_noisy: Whether rewards vary though pair and outcome are the same, or may do so.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    counts: Array
    rewards: Array
    n_sa: Array
    live: NDArray[np.bool_]
    by_pair: Array
    by_state: Array
    by_entry: Array
    entry_variance: Array
    variance: Array
    is_noisy: bool

    @classmethod
    def of(cls, counts: Counts) -> Outcomes:
        """Lay out counts; where they do not hold `paid`, rewards may be as noisy as their range."""
        paid = counts.paid
        rows = _with_ends(counts)
        n_sa = counts.n_sa.astype(np.float64)
        mean = counts.reward_sum.ravel() / np.maximum(n_sa.ravel(), 1.0)
        pair = np.repeat(np.arange(n_sa.size), np.diff(rows.indptr))
        places = rows.indptr.astype(np.int64), rows.indices.astype(np.int32)
        n_outcome = rows.data.astype(np.float64)
        rewards, spread = mean[pair], np.zeros(n_sa.size)
        if paid is not None:
            rewards = _mean_rewards(counts, paid, rows, pair)
            spread = paid.spread.ravel()
        # Around the mean of all, so that a constant on every reward is none of its business.
        overall = float(counts.reward_sum.sum() / max(n_sa.sum(), 1.0))
        low, high = counts.reward_range
        apart = _taken_apart(
            *places, n_outcome, rewards - overall, n_sa, spread, high - low, _rounding(counts)
        )
        by_pair = np.where(n_sa > 0.0, apart.u + overall, 0.0)
        by_state = of_state(by_pair, n_sa)
        variance = _variance(apart, by_pair, n_sa)
        if apart.is_noisy:
            by_pair = without_luck(by_pair, n_sa, variance, apart.rare)
        if paid is None:
            variance = np.full(n_sa.shape, ((high - low) / 2.0) ** 2)
        return cls(
            *places,
            n_outcome,
            rewards,
            n_sa,
            ~counts.terminal,
            by_pair,
            by_state,
            apart.h,
            apart.h_variance,
            variance,
            apart.is_noisy or paid is None,
        )

    @property
    def pair(self) -> NDArray[np.int64]:
        """Whose outcome each is."""
        return np.repeat(np.arange(self.n_sa.size), np.diff(self.indptr))

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.live)


def _with_ends(counts: Counts) -> sp.csr_array:
    """Return how often each outcome followed each pair, shape (S * A, S + 1)."""
    going_on = counts.going_on()
    ended = counts.n_sa.ravel() - np.asarray(going_on.sum(axis=1)).ravel()
    return sp.csr_array(sp.hstack([going_on, sp.csr_array(ended[:, None])]))


def _mean_rewards(counts: Counts, paid: Paid, rows: sp.csr_array, pair: NDArray[np.int64]) -> Array:
    """Return the mean reward of each pair with each outcome, in the order of `rows`."""
    sums = paid.by_successor

    def mean(pairs: NDArray[Any], states: NDArray[Any]) -> Array:
        """Return the mean reward of steps that are known to have led to states."""
        paid, n = sums[pairs, states], counts.n_sas[pairs, states]
        return np.asarray(np.asarray(paid).ravel() / np.asarray(n).ravel())

    goes_on = rows.indices < counts.n_states
    means = np.empty(len(pair))
    means[goes_on] = mean(pair[goes_on], rows.indices[goes_on])
    # The end: rows without a next state, and rows that ended in a state where others go on.
    unknown = counts.reward_sum.ravel() - np.asarray(sums.sum(axis=1)).ravel()
    ended = counts.n_end.tocoo()
    inside = ~counts.terminal[ended.col]
    at, n_inside = ended.row[inside], ended.data[inside]
    paid_inside = np.bincount(at, n_inside * mean(at, ended.col[inside]), counts.n_sa.size)
    means[~goes_on] = (unknown + paid_inside)[pair[~goes_on]] / rows.data[~goes_on]
    return means


class _Parts(NamedTuple):
    """What rewards are made of.

    Attributes:
        u: By pair, shape (S, A).
        h: By outcome, shape (S + 1,).
        h_variance: Of h as it is estimated.
        left: Sums of squares that neither explains, shape (S, A).
        is_noisy: Whether that is more than rounding, and not due to pair and outcome together.
        rare: Kurtosis of single rewards beyond that of normal ones.
    """

    u: Array
    h: Array
    h_variance: Array
    left: Array
    is_noisy: bool
    rare: float


def _rounding(counts: Counts) -> float:
    """Return what of a sum of squares of rewards may be rounding."""
    return _ROUNDING * float(counts.n_sa.sum()) * max(map(abs, counts.reward_range)) ** 2


def _taken_apart(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    n: Array,
    rewards: Array,
    n_sa: Array,
    spread: Array,
    largest: float,
    rounding: float,
) -> _Parts:
    """Take rewards apart; outcomes whose effect noise alone may have made are drawn to none.

    Args:
        indptr: Where each pair's outcomes start.
        indices: Which outcomes.
        n: How often.
        rewards: Mean reward of each.
        n_sa: How often pairs were seen, shape (S, A).
        spread: Sums of squares of rewards around the mean of their pair, shape (S * A,).
        largest: How far apart rewards are at most.
        rounding: What of such a sum may be rounding.
    """
    pair = np.repeat(np.arange(n_sa.size), np.diff(indptr))
    n_pair = n_sa.ravel()[pair]
    mean = (np.bincount(pair, n * rewards, n_sa.size) / np.maximum(n_sa.ravel(), 1.0))[pair]
    # What varies though pair and outcome are the same, where such were seen twice.
    within = float(spread.sum() - n @ (rewards - mean) ** 2)
    rounding += _TOLERANCE * float(n @ rewards**2)
    freedom = float((n - 1.0).sum())
    ridge = np.full(n_sa.shape[0] + 1, RIDGE)
    u, h = decompose(indptr, indices, n, rewards, ridge)
    h_variance, rare = np.zeros(len(h)), 0.0
    if freedom > 0.0 and within > rounding:
        noise = within / freedom
        left = _left(pair, u[pair] + h[indices], n, mean, spread)
        rare = kurtosis(left, n_sa.ravel(), largest)
        known = np.bincount(indices, n - n**2 / n_pair, len(h)).astype(np.float64)
        ridge = np.maximum(ridge, strength_of_effects(h, known, noise, rare))
        u, h = decompose(indptr, indices, n, rewards, ridge)
        h_variance = noise * known / (known + ridge) ** 2
    left = _left(pair, u[pair] + h[indices], n, mean, spread)
    is_noisy = within > rounding if freedom > 0.0 else float(left.sum()) > rounding
    return _Parts(u.reshape(n_sa.shape), h, h_variance, left.reshape(n_sa.shape), is_noisy, rare)


def _left(pair: NDArray[np.int64], expected: Array, n: Array, mean: Array, spread: Array) -> Array:
    """Return what of the sums of squares around the mean of pairs is not explained, (S * A,)."""
    explained = np.bincount(pair, n * (expected - mean) ** 2, len(spread))
    return np.maximum(spread - explained, 0.0)


@jit
def decompose(indptr, indices, counts, rewards, ridge):  # type: ignore[no-untyped-def]
    """Return u by pair and h by outcome, by turns."""
    n_pairs, n_outcomes = len(indptr) - 1, len(ridge)
    u, h = np.zeros(n_pairs), np.zeros(n_outcomes)
    total, weight = np.zeros(n_outcomes), np.zeros(n_outcomes)
    scale = 0.0
    for k in range(len(indices)):
        weight[indices[k]] += counts[k]
        scale = max(scale, abs(rewards[k]))
    for _ in range(_N_SWEEPS):
        _set_pairs(indptr, indices, counts, rewards, h, u)
        total[:] = 0.0
        for pair in range(n_pairs):
            for k in range(indptr[pair], indptr[pair + 1]):
                total[indices[k]] += counts[k] * (rewards[k] - u[pair])
        moved = 0.0
        for y in range(n_outcomes):
            found = total[y] / (weight[y] + ridge[y])
            # Below rounding nothing is an effect.
            found = found if abs(found) > _TOLERANCE * scale else 0.0
            moved = max(moved, abs(found - h[y]))
            h[y] = found
        if moved <= _TOLERANCE * scale:
            break
    _set_pairs(indptr, indices, counts, rewards, h, u)
    return u, h


@jit
def _set_pairs(indptr, indices, counts, rewards, h, u):  # type: ignore[no-untyped-def]
    """Write what pairs pay on average beyond what outcomes add."""
    for pair in range(len(u)):
        n, total = 0.0, 0.0
        for k in range(indptr[pair], indptr[pair + 1]):
            n += counts[k]
            total += counts[k] * (rewards[k] - h[indices[k]])
        if n > 0.0:
            u[pair] = total / n


def of_state(u: Array, n_sa: Array) -> Array:
    """Return the mean of u over the rows of a state, else over all rows."""
    n_x = n_sa.sum(axis=1)
    overall = float((n_sa * u).sum() / max(n_x.sum(), 1.0))
    return np.where(n_x > 0.0, (n_sa * u).sum(axis=1) / np.maximum(n_x, 1.0), overall)


def _variance(apart: _Parts, u: Array, n_sa: Array) -> Array:
    """Return the variance of single rewards: a pair's own, drawn towards that of its surroundings.

    Few rewards tell less of how much they vary than of their mean: of eight patients who are all
    cured nobody knows that every ninth would be, and with a variance of its own such a pair would
    be sure of its luck. So it is drawn to what its state and its action say, as if each multiplied
    that of all. That of all is drawn towards what pairs differ by: of pairs seen once, no noise is
    known.
    """
    left, freedom = apart.left, (n_sa - 1.0).clip(min=0.0)
    overall = float((n_sa * u).sum() / max(n_sa.sum(), 1.0))
    between = float((n_sa * (u - overall) ** 2).sum() / max(n_sa.sum(), 1.0))
    pooled = (left.sum() + _POOLED_ROWS * between) / (freedom.sum() + _POOLED_ROWS)
    if not apart.is_noisy or pooled == 0.0:
        return np.asarray((left + _POOLED_ROWS * pooled) / (n_sa + _POOLED_ROWS))
    # Where rare events decide, as many rows know less of a variance, whose own relative variance is
    # (2 + kurtosis) / rows; where some pairs are noisier than others it looks the same. Of both,
    # the larger.
    return np.maximum(
        _drawn_together(left, freedom, pooled, 1.0),
        _drawn_together(left, freedom, pooled, 1.0 + 0.5 * apart.rare),
    )


def _drawn_together(left: Array, freedom: Array, pooled: float, times: float) -> Array:
    """Return variances of pairs, drawn to those of state and action by so many times the rows."""
    few, many = times * _POOLED_ROWS, times * _POOLED_ROWS_OF_PAIR
    of_state, of_action = (
        (left.sum(axis, keepdims=True) + few * pooled) / (freedom.sum(axis, keepdims=True) + few)
        for axis in (1, 0)
    )
    around = of_state * (of_action / pooled)
    return np.asarray((left + many * around) / (freedom + many))
