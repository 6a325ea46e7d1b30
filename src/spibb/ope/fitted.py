"""Maximum-likelihood models of chosen episodes, many at once, without a table of counts between.

The same estimate as ``Counts.estimate``, by spibb.data.estimate. Episodes may be chosen more than
once, so a bootstrap resample is one more choice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.data.estimate import Unseen, estimate_models
from spibb.mdp.batch import ModelBatch, Rows
from spibb.ope.trajectories import Trajectories

Array = NDArray[np.float64]

# Up to so many cells, in all and for each row, transitions are counted in a table of all of them;
# beyond, they are sorted.
_LARGEST_TABLE, _MOST_CELLS = 1 << 18, 32
_NO_KEY = np.iinfo(np.int64).max
_SCALE_EPISODES = 64

# Which episodes of which log.
Choice = tuple[Trajectories, NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class FittedModels:
    """Models of B choices of episodes.

    Attributes:
        gamma: The discount.
        unseen: What pairs without data do.
        n_sa: How often each pair was seen, shape (B, S, A).
        reward_sum: Sum of its rewards, shape (B, S, A).
        n_first: How often each state was the first, shape (B, S).
        keys: Transitions that were seen, each (choice * S A + pair) * S + successor, in order.
        within: How often, within records.
        cut: How often as the last of a record that stops there.
    """

    gamma: float
    unseen: Unseen
    n_sa: Array
    reward_sum: Array
    n_first: Array
    keys: NDArray[np.int64]
    within: Array
    cut: Array

    @cached_property
    def models(self) -> ModelBatch:
        """The models."""
        return self._estimate(self.within + self.cut)

    @cached_property
    def recorded(self) -> ModelBatch:
        """The models in which the end of a record is an end.

        Their values are those of the return as far as it is recorded, which is what weighted
        estimates of truncated episodes are about.
        """
        return self._estimate(self.within) if self.cut.any() else self.models

    def _estimate(self, counts: Array) -> ModelBatch:
        # Ends are no transitions here: a state that only ends is never entered, so none need end.
        n_states, seen = self.n_sa.shape[1], np.flatnonzero(counts)
        keys, counts = self.keys[seen], counts[seen]
        pair = keys // n_states
        indptr = np.append(0, np.bincount(pair, minlength=self.n_sa.size).cumsum())
        rows = Rows(indptr, (keys - pair * n_states).astype(np.int32), counts)
        n_going_on = np.append(0.0, counts.cumsum())[indptr[:: self.n_sa[0].size]]
        n_ended = self.n_sa.sum(axis=(1, 2)) - np.diff(n_going_on)
        initial = self.n_first / self.n_first.sum(axis=1, keepdims=True)
        sums = rows, self.n_sa, self.reward_sum, n_ended
        return estimate_models(*sums, initial=initial, gamma=self.gamma, unseen=self.unseen)


def fit_models(
    choices: Sequence[Choice],
    gamma: float,
    *,
    unseen: Unseen = "average",
    unions: Sequence[Sequence[int]] | None = None,
) -> FittedModels:
    """Fit one model to each choice of episodes; all have the same states and actions.

    Args:
        choices: Which episodes.
        gamma: The discount.
        unseen: What pairs without data do.
        unions: Of which choices, by number, each model is: folds that several models share are
            counted once. None: of one each.
    """
    shape = (len(choices), choices[0][0].n_states, choices[0][0].n_actions)
    sums = [np.zeros(shape), np.zeros(shape), np.zeros(shape[:2])]
    tallies = [
        _count(episodes.columns, chosen, *rows)
        for (episodes, chosen), *rows in zip(choices, *sums, strict=True)
    ]
    if unions is not None:
        is_in = np.array([np.bincount(union, minlength=len(choices)) for union in unions], float)
        sums = [np.tensordot(is_in, part, axes=1) for part in sums]
        tallies = [reduce(_merged, (tallies[k] for k in union)) for union in unions]
    # One behind the other: keys of each model follow those of the one before.
    laid, n_cells = zip(*tallies, strict=True), shape[1] * shape[2] * shape[1]
    keys, within, cut = (np.concatenate(parts) for parts in laid)
    keys += n_cells * np.repeat(np.arange(len(tallies)), [len(part[0]) for part in tallies])
    n_sa, reward_sum, n_first = sums
    return FittedModels(gamma, unseen, n_sa, reward_sum, n_first, keys, within, cut)


@jit
def _count(columns, chosen, n_sa, total, first):  # type: ignore[no-untyped-def]
    """Add up rows, rewards and first states; return the tally of the transitions that go on."""
    start, (n_states, n_actions), n, n_rows = columns.start, n_sa.shape, 0, 0
    for episode in chosen:
        n_rows += start[episode + 1] - start[episode]
    is_small = n_sa.size * n_states <= min(_LARGEST_TABLE, _MOST_CELLS * n_rows)
    table = np.zeros(n_sa.size * n_states if is_small else 0, np.int32)
    listed = np.empty(0 if is_small else n_rows, np.int64)
    for episode in chosen:
        first[columns.state[start[episode]]] += 1.0
        for row in range(start[episode], start[episode + 1]):
            x, a, successor = columns.state[row], columns.action[row], columns.next_state[row]
            if columns.ended[row]:
                n_sa[x, a] += 1.0
                total[x, a] += columns.reward[row]
            elif successor >= 0:
                total[x, a] += columns.reward[row]
                key = (x * n_actions + a) * n_states + successor
                if is_small:
                    table[key] += 1
                else:
                    listed[n] = key
                    n += 1
    if is_small:
        keys = np.flatnonzero(table)
        within = table[keys].astype(np.float64)
        table[keys] = np.arange(len(keys))
    else:
        listed = np.sort(listed[:n])
        begins = np.flatnonzero(np.append(True, listed[1:] != listed[:-1])[:n])
        keys, within = listed[begins], np.diff(np.append(begins, n)).astype(np.float64)
    # Counted key by key: to write to a pair with every row takes half as long again.
    cut, n_pair = np.zeros(len(keys)), n_sa.reshape(-1)
    for k in range(len(keys)):
        n_pair[keys[k] // n_states] += within[k]
    for episode in chosen:
        last = start[episode + 1] - 1
        if not columns.ended[last] and columns.next_state[last] >= 0:
            pair = columns.state[last] * n_actions + columns.action[last]
            key = pair * n_states + columns.next_state[last]
            k = table[key] if is_small else np.searchsorted(keys, key)
            within[k] -= 1.0
            cut[k] += 1.0
    return keys, within, cut


@jit
def _merged(one, other):  # type: ignore[no-untyped-def]
    """Add up two tallies."""
    size, i, j, n = len(one[0]) + len(other[0]), 0, 0, 0
    keys, within, cut = np.empty(size, np.int64), np.zeros(size), np.zeros(size)
    while i < len(one[0]) or j < len(other[0]):
        here = one[0][i] if i < len(one[0]) else _NO_KEY
        there = other[0][j] if j < len(other[0]) else _NO_KEY
        keys[n] = min(here, there)
        if here <= there:
            within[n], cut[n], i = one[1][i], one[2][i], i + 1
        if there <= here:
            within[n], cut[n], j = within[n] + other[1][j], cut[n] + other[2][j], j + 1
        n += 1
    return keys[:n].copy(), within[:n].copy(), cut[:n].copy()


def residual_scale(
    episodes: Trajectories, chosen: NDArray[np.int64], v: Array, q: Array, gamma: float
) -> float:
    """Return the root mean square of r + gamma V(x') - Q(x, a) over the rows of some episodes.

    Some hundred of them, spread over all, tell a scale well enough.
    """
    some = episodes.take(chosen[:: max(1, len(chosen) // _SCALE_EPISODES)])
    found, is_known = residuals(some, v, q, gamma)
    return math.sqrt(float((found * found).sum()) / max(int(np.count_nonzero(is_known)), 1))


def residuals(
    rows: Trajectories, v: Array, q: Array, gamma: float
) -> tuple[Array, NDArray[np.bool_]]:
    """Return r + gamma V(x') - Q(x, a) of every row, and whether x' is known or an end.

    0 where it is not.
    """
    is_known = rows.ended | (rows.next_state >= 0)
    later = np.where(rows.ended, 0.0, v[rows.next_state])
    found = rows.reward + gamma * later - q[rows.state, rows.action]
    return np.where(is_known, found, 0.0), is_known
