r"""Does a model earn what the log earned, over the recorded length of its records?

The model predicts sum of gamma^t r_t over the first h steps from the state in which a record
begins. The log shows it for every record that has h steps, or that ends before. The mean difference
is compared with its standard error for several horizons h, over all records and state by state.
Truncated records are compared up to where they stop, so that they switch nothing off.

Where records are few, pieces of them are compared instead, which begin wherever the piece before
them ends; their differences are taken to be independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spibb.data.log import Log
from spibb.mdp.batch import ModelArrays
from spibb.ope.trajectories import Trajectories

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
            f"over the first {one.horizon:,} steps of {one.n:,} {what}{start} the model puts the "
            f"baseline at {one.model:.4g}, while the log shows {one.log:.4g}"
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
    if log is None or log.episode is None:
        return None
    episodes = Trajectories.from_log(log)
    longest = _longest(int(episodes.lengths.max()), model.gamma)
    start, lengths, ended = episodes.start[:-1], episodes.lengths, ~episodes.is_cut
    are_pieces = len(start) < FEWEST
    if are_pieces:
        longest = max(1, min(longest, int(lengths.sum()) // (2 * FEWEST)))
        start, lengths, ended = _pieces(start, lengths, ended, longest)
    if len(start) < FEWEST:
        return None
    found = tuple(_differences(episodes, (start, lengths, ended), longest, model, policy))
    return ModelFit(found, are_pieces) if found else None  # none where most records stop at once


def _longest(n_steps: int, gamma: float) -> int:
    if 0.0 < gamma < 1.0:
        n_steps = min(n_steps, math.ceil(math.log(_NEGLIGIBLE) / math.log(gamma)))
    return max(1, min(n_steps, _LONGEST)) if gamma > 0.0 else 1


def _pieces(
    start: Codes, lengths: Codes, ended: NDArray[np.bool_], size: int
) -> tuple[Codes, Codes, NDArray[np.bool_]]:
    """Cut records into pieces of a size; the last piece of each is what is left."""
    n = -(-lengths // size)
    record = np.repeat(np.arange(len(n)), n)
    place = np.arange(len(record)) - np.repeat(np.cumsum(n) - n, n)
    piece = start[record] + place * size
    is_last = np.append(record[1:] != record[:-1], True)
    length = np.where(is_last, lengths[record] - place * size, size)
    return piece, length, ended[record] & is_last


def _differences(
    episodes: Trajectories,
    records: tuple[Codes, Codes, NDArray[np.bool_]],
    longest: int,
    model: ModelArrays,
    policy: Array,
) -> Iterator[Difference]:
    start, lengths, ended = records
    horizons = sorted({max(1, longest >> k) for k in range(_HALVINGS + 1)})
    first = episodes.state[start]
    for h, predicted in _predictions(model, policy, horizons):
        known = (lengths >= h) | ended
        if np.count_nonzero(known) < FEWEST:
            continue
        earned = _sums(episodes.reward, start[known], np.minimum(lengths[known], h), model.gamma)
        at = first[known]
        expected, share = predicted[at], len(at) / len(start)
        yield _difference(h, None, expected, earned, share, _LARGEST)
        n = np.bincount(at, minlength=len(predicted))
        for x in np.flatnonzero(n >= FEWEST):
            here = at == x
            yield _difference(
                h, int(x), expected[here], earned[here], n[x] / len(start), _LARGEST_BY_STATE
            )


def _difference(
    h: int, state: int | None, expected: Array, earned: Array, share: float, limit: float
) -> Difference:
    off, n = earned - expected, len(earned)
    error = float(off.std(ddof=1)) / math.sqrt(n)
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
    return np.asarray(np.add.reduceat(gamma**step * reward[rows], ends - lengths))


def _predictions(
    model: ModelArrays, policy: Array, horizons: list[int]
) -> Iterator[tuple[int, Array]]:
    """Yield what the model predicts over each horizon, from each state, shape (S,)."""
    n_states, n_actions = policy.shape
    rows = model.rows
    moves = sp.csr_matrix(
        (rows.data, rows.indices, rows.indptr), shape=(n_states * n_actions, n_states)
    )
    taken = sp.csr_matrix(
        (policy.ravel(), np.arange(policy.size), np.arange(0, policy.size + 1, n_actions)),
        shape=(n_states, policy.size),
    )
    chain, reward = taken @ moves, (policy * model.reward).sum(axis=1)
    v, done = np.zeros(n_states), 0
    for h in horizons:
        for _ in range(h - done):
            v = reward + model.gamma * (chain @ v)
        done = h
        yield h, v
