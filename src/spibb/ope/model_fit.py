r"""Does a model earn what the log earned, over the recorded length of its records?

The model predicts the sum of gamma^t r_t over the first h steps from the state in which a record
begins. The log shows it for every record that has h steps, or that ends before. Where a record
stops earlier, after c steps in state x, the sum is completed by the model's own prediction for x:

    G_h = sum over t < c of gamma^t r_t + gamma^c v_(h - c)(x).

If the model is right, the mean of G_h is v_h, however records are truncated, unless they stop
because of what would have followed. Records truncated before h must not be left out: those that end
early would then stand for all. A record with missing steps stops where they are missing.

The mean difference is compared with its standard error for several horizons h, over all records and
state by state. The error is that of the records or that of the model, whichever is larger: records
in which nothing rare happened have too small an error of their own. The model's variance is

    Var_h(x) = Var(r + gamma v_(h-1)(x') | x) + gamma^2 E(Var_(h-1)(x') | x).

Where records are few, pieces of them are compared instead, which begin wherever the piece before
them ends; their differences are taken to be independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spibb.data.log import Log
from spibb.mdp.batch import ModelArrays
from spibb.words import several

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

# Fewer records, or fewer from one state, are not compared.
FEWEST = 20
# A difference of so many standard errors contradicts the model: over all records; from one state,
# of which there may be many.
_LARGEST, _LARGEST_BY_STATE = 4.0, 5.0
# Horizons: the longest, and its halves. Steps whose discount is below this one are left out.
_HALVINGS, _NEGLIGIBLE, _LONGEST = 5, 0.01, 2_000


@dataclass(frozen=True)
class Difference:
    """What a model and the log say of the first steps of records.

    Attributes:
        horizon: How many steps.
        state: Where the records begin; None: anywhere.
        model: Mean discounted sum of rewards that the model predicts.
        log: The mean that the log shows.
        error: Standard error of the difference.
        n: Number of records.
        share: Their share of all records.
        limit: How many standard errors a difference may have.
    """

    horizon: int
    state: int | None
    model: float
    log: float
    error: float
    n: int
    share: float
    limit: float

    @property
    def size(self) -> float:
        """The difference, counted by the share of records that it concerns."""
        return abs(self.model - self.log) * self.share

    @property
    def is_clear(self) -> bool:
        """Whether the model contradicts the log."""
        return abs(self.model - self.log) > self.limit * self.error


@dataclass(frozen=True)
class ModelFit:
    """All differences between a model and the log, for the policy that made it.

    Attributes:
        differences: Over all records and by the state in which they begin, for several horizons.
        are_pieces: Whether records were cut into pieces.
    """

    differences: tuple[Difference, ...]
    are_pieces: bool

    @property
    def longest(self) -> Difference:
        """The difference over the longest horizon, of all records."""
        return max(
            (one for one in self.differences if one.state is None), key=lambda one: one.horizon
        )

    def describe(self, one: Difference) -> str:
        """Return a difference as a clause."""
        what = "pieces of records" if self.are_pieces else "records"
        start = "" if one.state is None else " that begin in one state"
        return (
            f"over the first {several(one.horizon, 'step')} of {one.n:,} {what}{start} "
            f"the model puts the baseline at {one.model:.4g}, while the log shows {one.log:.4g}"
        )

    def worst(self, least: float = 0.0) -> Difference | None:
        """Return the largest clear difference that is larger than ``least``, if any."""
        clear = [one for one in self.differences if one.is_clear and one.size > least]
        return max(clear, key=lambda one: one.size, default=None)


def find_model_fit(log: Log | None, model: ModelArrays, policy: Array) -> ModelFit | None:
    """Compare a model with the log; None where there are too few records, or none.

    Args:
        log: The log.
        model: The model.
        policy: The policy that made the log, shape (S, A).
    """
    if log is None or log.is_first is None:
        return None
    records = _Records.of(log)
    begins = records.take(log.is_first[records.start])
    longest = _longest(int(begins.length.max()), model.gamma)
    are_pieces = len(begins.start) < FEWEST
    if are_pieces:
        longest = max(1, min(longest, int(records.length.sum()) // (2 * FEWEST)))
        begins = records.pieces(longest, log)
    if len(begins.start) < FEWEST:
        return None
    found = tuple(_differences(log, begins, longest, model, policy))
    return ModelFit(found, are_pieces) if found else None  # none where records stop at once


class _Records(NamedTuple):
    """Rows that follow each other without a gap, shapes (n,).

    Attributes:
        start: The first row.
        length: Number of rows.
        ended: Whether the process ended with the last one.
        after: State after the last one, where the process did not end; of the last one where that
            is not known.
        is_known: Whether it is known.
    """

    start: Codes
    length: Codes
    ended: NDArray[np.bool_]
    after: Codes
    is_known: NDArray[np.bool_]

    @classmethod
    def of(cls, log: Log) -> _Records:
        """Return all of a log; what is recorded of an episode after its end is left out."""
        assert log.is_first is not None
        stops = np.append(log.is_first[1:], True) | log.terminated | log.is_gap
        start = np.append(0, np.flatnonzero(stops)[:-1] + 1)
        last = np.flatnonzero(stops)
        episode: Codes = np.cumsum(log.is_first) - 1
        n_ended: Codes = np.cumsum(log.terminated) - log.terminated
        first = np.flatnonzero(log.is_first)
        is_before_end = n_ended[start] == n_ended[first[episode[start]]]
        is_known = log.next_state[last] >= 0
        after = np.where(is_known, log.next_state[last], log.state[last])
        found = cls(start, last - start + 1, log.terminated[last], after, is_known)
        return found.take(is_before_end)

    def take(self, chosen: NDArray[np.bool_] | Codes) -> _Records:
        """Return some of the records."""
        flags = self.ended[chosen], self.after[chosen], self.is_known[chosen]
        return _Records(self.start[chosen], self.length[chosen], *flags)

    def pieces(self, size: int, log: Log) -> _Records:
        """Cut records into pieces of a size; the last piece of each is what is left."""
        n = -(-self.length // size)
        record = np.repeat(np.arange(len(n)), n)
        place = np.arange(len(record)) - np.repeat(np.cumsum(n) - n, n)
        is_last = np.append(record[1:] != record[:-1], True)
        start = self.start[record] + place * size
        length = np.where(is_last, self.length[record] - place * size, size)
        following = log.state[np.minimum(start + length, len(log) - 1)]
        after = np.where(is_last, self.after[record], following)
        ended = self.ended[record] & is_last
        return _Records(start, length, ended, after, self.is_known[record] | ~is_last)


def _longest(n_steps: int, gamma: float) -> int:
    if 0.0 < gamma < 1.0:
        n_steps = min(n_steps, math.ceil(math.log(_NEGLIGIBLE) / math.log(gamma)))
    return max(1, min(n_steps, _LONGEST)) if gamma > 0.0 else 1


def _differences(
    log: Log, records: _Records, longest: int, model: ModelArrays, policy: Array
) -> Iterator[Difference]:
    horizons = sorted({max(1, longest >> k) for k in range(_HALVINGS + 1)})
    # A record stops where the state is known from which the model completes it.
    records = records.take(np.argsort(records.length - ~records.is_known, kind="stable"))
    first, stop = log.state[records.start], records.length - ~records.is_known
    bounds = np.searchsorted(stop, np.arange(longest + 1))
    # What is left to predict of each record over each horizon: its mean, and its variance.
    left = {h: np.zeros((2, len(first))) for h in horizons}
    for k, v, variance in _predictions(log, model, policy, longest):
        for h in horizons:
            if k <= h:
                here = np.arange(bounds[h - k], bounds[h - k + 1])
                here = here[~records.ended[here] & (records.length[here] < h)]
                left[h][:, here] = v[records.after[here]], variance[records.after[here]]
        if k not in left:
            continue
        is_short = ~records.ended & (records.length < k)
        n_used = np.where(is_short, stop, np.minimum(records.length, k))
        discount = np.where(is_short, model.gamma**stop, 0.0)
        earned = _sums(log.reward, records.start, n_used, model.gamma) + discount * left[k][0]
        spread = variance[first] - discount**2 * left[k][1]
        known = n_used > 0
        parts = first[known], v[first][known], earned[known], spread[known]
        yield from _by_state(k, len(first), *parts)


def _by_state(
    h: int, total: int, first: Codes, expected: Array, earned: Array, spread: Array
) -> Iterator[Difference]:
    if len(first) < FEWEST:
        return
    share = len(first) / total
    yield _difference(h, None, expected, earned, spread, share, _LARGEST)
    order = np.argsort(first, kind="stable")
    states, begin, n = np.unique(first[order], return_index=True, return_counts=True)
    for x, low, size in zip(states[n >= FEWEST], begin[n >= FEWEST], n[n >= FEWEST], strict=True):
        here = order[low : low + size]
        parts = expected[here], earned[here], spread[here]
        yield _difference(h, int(x), *parts, size / total, _LARGEST_BY_STATE)


def _difference(
    h: int, state: int | None, expected: Array, earned: Array, spread: Array, share: float,
    limit: float,
) -> Difference:  # fmt: skip
    off, n = earned - expected, len(earned)
    error = math.sqrt(max(float(off.var(ddof=1)), float(spread.mean()), 0.0) / n)
    # Rewards that do not vary leave rounding alone.
    error = max(error, 1e-9 * (1.0 + float(np.abs(earned).max())))
    return Difference(
        h, state, float(expected.mean()), float(earned.mean()), error, n, float(share), limit
    )


def _sums(reward: Array, start: Codes, lengths: Codes, gamma: float) -> Array:
    """Return the discounted sum of the first rewards of each record."""
    ends = np.cumsum(lengths)
    step = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
    rows = np.repeat(start, lengths) + step
    record = np.repeat(np.arange(len(start)), lengths)
    return np.bincount(record, gamma**step * reward[rows], len(start)).astype(np.float64)


def _predictions(
    log: Log, model: ModelArrays, policy: Array, longest: int
) -> Iterator[tuple[int, Array, Array]]:
    """Yield k, and mean and variance of what k steps from each state earn, shapes (S,)."""
    n_states, n_actions = policy.shape
    rows, gamma = model.rows, model.gamma
    moves = sp.csr_matrix(
        (rows.data, rows.indices, rows.indptr), shape=(n_states * n_actions, n_states)
    )
    taken = sp.csr_matrix(
        (policy.ravel(), np.arange(policy.size), np.arange(0, policy.size + 1, n_actions)),
        shape=(n_states, policy.size),
    )
    chain, reward = taken @ moves, (policy * model.reward).sum(axis=1)
    squares = taken @ (_reward_variance(log, policy.size) + model.reward.ravel() ** 2)
    # E(r v(x')) needs the reward of each pair beside what follows it.
    paid = taken @ sp.diags(model.reward.ravel()) @ moves
    v, variance = np.zeros(n_states), np.zeros(n_states)
    for k in range(1, longest + 1):
        new = reward + gamma * (chain @ v)
        second = squares + 2.0 * gamma * (paid @ v) + gamma**2 * (chain @ (v**2 + variance))
        v, variance = new, np.maximum(second - new**2, 0.0)
        yield k, v, variance


def _reward_variance(log: Log, n_pairs: int) -> Array:
    """Return the variance of rewards within pairs; 0 where there is one row or none."""
    pair = log.state * log.n_actions + log.action
    n = np.maximum(np.bincount(pair, minlength=n_pairs), 1)
    off = log.reward - (np.bincount(pair, log.reward, n_pairs) / n)[pair]
    return np.asarray(np.bincount(pair, off**2, n_pairs) / n)
