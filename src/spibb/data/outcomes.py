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

Array = NDArray[np.float64]

# Rows without an effect by which h is drawn to 0.
_RIDGE = 0.25
_N_SWEEPS = 100
_TOLERANCE = 1e-9
# Rows by which the variance of a pair is drawn to that of all.
_POOLED_ROWS = 4.0


class Outcomes(NamedTuple):
    """The outcomes of a log; rows are pairs x * A + a.

    Attributes:
        indptr: Where each pair's outcomes start, shape (S * A + 1,).
        indices: Which outcomes; S stands for the end.
        counts: How often.
        n_sa: How often in all, shape (S, A).
        live: Which states are not terminal, shape (S,).
        by_pair: u(x, a), shape (S, A); 0 where nothing was seen.
        by_others: Mean of u over the rows of the state's other actions, else over all rows.
        by_entry: h, shape (S + 1,).
        variance: Of a single reward around u + h, shape (S, A).
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    counts: Array
    n_sa: Array
    live: NDArray[np.bool_]
    by_pair: Array
    by_others: Array
    by_entry: Array
    variance: Array

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
        u, h = _decompose(*places, n_outcome, rewards - overall, counts.n_states + 1)
        u = np.where(n_sa.ravel() > 0.0, u + overall, 0.0)
        explained = np.bincount(pair, n_outcome * (u[pair] + h[places[1]] - mean[pair]) ** 2,
                                n_sa.size)  # fmt: skip
        left = np.maximum(spread - explained, 0.0).reshape(n_sa.shape)
        by_pair = u.reshape(n_sa.shape)
        variance = _variance(left, by_pair, n_sa)
        if paid is None:
            low, high = counts.reward_range
            variance = np.full(n_sa.shape, ((high - low) / 2.0) ** 2)
        return cls(
            *places,
            n_outcome,
            n_sa,
            ~counts.terminal,
            by_pair,
            _of_others(by_pair, n_sa),
            h,
            variance,
        )

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


@jit
def _decompose(indptr, indices, counts, rewards, n_outcomes):  # type: ignore[no-untyped-def]
    """Return u by pair and h by outcome, by turns."""
    n_pairs = len(indptr) - 1
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
            found = total[y] / (weight[y] + _RIDGE)
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


def _of_others(u: Array, n_sa: Array) -> Array:
    """Return the mean of u over the rows of a state's other actions, else over all rows."""
    n_others = n_sa.sum(axis=1, keepdims=True) - n_sa
    others = (n_sa * u).sum(axis=1, keepdims=True) - n_sa * u
    overall = float((n_sa * u).sum() / max(n_sa.sum(), 1.0))
    return np.where(n_others > 0.0, others / np.maximum(n_others, 1.0), overall)


def _variance(left: Array, u: Array, n_sa: Array) -> Array:
    """Return the variance of single rewards: a pair's own, drawn towards that of all.

    That of all is drawn towards what pairs differ by: of pairs seen once, no noise is known.
    """
    overall = float((n_sa * u).sum() / max(n_sa.sum(), 1.0))
    between = float((n_sa * (u - overall) ** 2).sum() / max(n_sa.sum(), 1.0))
    freedom = float((n_sa - 1.0).clip(min=0.0).sum())
    pooled = (float(left.sum()) + _POOLED_ROWS * between) / (freedom + _POOLED_ROWS)
    return np.asarray((left + _POOLED_ROWS * pooled) / (n_sa + _POOLED_ROWS))
