"""Maximum-likelihood models of chosen episodes, many at once, without a table of counts between.

The same estimate as ``Counts.estimate``, by spibb.data.estimate. Episodes may be chosen more than
once, so a bootstrap resample is one more choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.compiled.threads import over_chunks
from spibb.data.estimate import Unseen, estimate_model
from spibb.mdp.batch import ModelArrays, ModelBatch, Rows
from spibb.ope.trajectories import Trajectories

Array = NDArray[np.float64]

# Up to so many cells, transitions are counted in a table of all of them; beyond, they are sorted.
_LARGEST_TABLE = 1 << 18
_NO_KEY = np.iinfo(np.int64).max
_SCALE_EPISODES = 64

Made = TypeVar("Made")
# Which episodes of which log.
Choice = tuple[Trajectories, NDArray[np.int64]]
# Transitions that were seen, each pair * S + successor, in order, and how often: within records,
# and as the last of a record that stops there.
Tally = tuple[NDArray[np.int64], Array, Array]


@dataclass(frozen=True, eq=False)
class FittedModels:
    """Models of B choices of episodes.

    Attributes:
        choices: The choices.
        gamma: The discount.
        unseen: What pairs without data do.
        sums: How often each pair was seen and the sum of its rewards, shape (B, S, A), and how
            often each state was the first, shape (B, S).
        tallies: The transitions of each choice that go on.
    """

    choices: Sequence[Choice]
    gamma: float
    unseen: Unseen
    sums: tuple[Array, ...]
    tallies: Sequence[Tally]

    @property
    def n_sa(self) -> Array:
        """How often each pair was seen, shape (B, S, A)."""
        return self.sums[0]

    @cached_property
    def models(self) -> ModelBatch:
        """The models."""
        return self._estimate([(keys, within + cut) for keys, within, cut in self.tallies])

    @cached_property
    def recorded(self) -> ModelBatch:
        """The models in which the end of a record is an end.

        Their values are those of the return as far as it is recorded, which is what weighted
        estimates of truncated episodes are about.
        """
        has_cuts = any(cut.any() for _, _, cut in self.tallies)
        return self._estimate([tally[:2] for tally in self.tallies]) if has_cuts else self.models

    def _estimate(self, counts: Sequence[tuple[NDArray[np.int64], Array]]) -> ModelBatch:
        n_sa, reward_sum, n_first = self.sums
        initial, n_seen = n_first / n_first.sum(axis=1, keepdims=True), n_sa.sum(axis=(1, 2))
        # Ends are no transitions here: a state that only ends is never entered, so none need end.
        live = np.zeros(n_sa.shape[1], dtype=np.bool_)

        def estimate(k: int) -> ModelArrays:
            rows = Rows(*_compressed(*counts[k], n_sa[k].size, len(live)))
            given = rows, n_sa[k], reward_sum[k], n_seen[k] - rows.data.sum(), live
            return estimate_model(*given, initial=initial[k], gamma=self.gamma, unseen=self.unseen)

        return ModelBatch.stack(_each(estimate, len(counts)))


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
    sums: tuple[Array, ...] = (np.zeros(shape), np.zeros(shape), np.zeros(shape[:2]))
    rows = [(episodes.columns, chosen) for episodes, chosen in choices]
    tallies = _each(lambda k: _count(*rows[k], *(part[k] for part in sums)), len(choices))
    if unions is not None:
        is_in = np.array([np.bincount(union, minlength=len(choices)) for union in unions], float)
        sums = tuple(np.tensordot(is_in, part, axes=1) for part in sums)
        choices = [
            (choices[union[0]][0], np.concatenate([choices[k][1] for k in union]))
            for union in unions
        ]
        tallies = [reduce(_merged, (tallies[k] for k in union)) for union in unions]
    return FittedModels(choices, gamma, unseen, sums, tallies)


def _each(function: Callable[[int], Made], n: int) -> list[Made]:
    """Return what a function makes of 0 to n - 1, in threads if there are enough."""
    found: dict[int, Made] = {}

    def part(places: NDArray[np.int64]) -> None:
        found.update((k, function(k)) for k in places.tolist())

    over_chunks(part, np.arange(n))
    return [found[k] for k in range(n)]


@jit
def _count(columns, chosen, n_sa, total, first):  # type: ignore[no-untyped-def]
    """Add up rows, rewards and first states; return the tally of the transitions that go on."""
    start, (n_states, n_actions), n, n_rows = columns.start, n_sa.shape, 0, 0
    is_small = n_sa.size * n_states <= _LARGEST_TABLE
    for episode in chosen:
        n_rows += start[episode + 1] - start[episode]
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


@jit
def _compressed(keys, counts, n_pairs, n_states):  # type: ignore[no-untyped-def]
    """Return the rows of pairs, of the keys that were counted."""
    seen = np.flatnonzero(counts)
    keys, indptr, pair = keys[seen], np.zeros(n_pairs + 1, np.int64), 0
    indices = np.empty(len(keys), np.int32)
    for n in range(len(keys)):
        while keys[n] >= (pair + 1) * n_states:
            pair += 1
            indptr[pair] = n
        indices[n] = keys[n] - pair * n_states
    indptr[pair + 1 :] = len(keys)
    return indptr, indices, counts[seen]


def residual_scale(choice: Choice, v: Array, q: Array, gamma: float) -> float:
    """Return the root mean square of r + gamma V(x') - Q(x, a) over the rows of some episodes.

    Some hundred episodes, spread over the choice, tell a scale well enough.
    """
    episodes, chosen = choice
    some = chosen[:: max(1, len(chosen) // _SCALE_EPISODES)]
    found, is_known = residuals(episodes.columns, some, v, q, float(gamma))
    return math.sqrt(float((found * found).sum()) / max(int(np.count_nonzero(is_known)), 1))


@jit
def residuals(columns, chosen, v, q, gamma):  # type: ignore[no-untyped-def]
    """Return r + gamma V(x') - Q(x, a) of the rows of episodes, and whether x' is known or an end.

    0 where it is not.
    """
    start, n = columns.start, 0
    for episode in chosen:
        n += start[episode + 1] - start[episode]
    found, is_known, n = np.zeros(n), np.zeros(n, np.bool_), 0
    for episode in chosen:
        for row in range(start[episode], start[episode + 1]):
            successor, ended = columns.next_state[row], columns.ended[row]
            if ended or successor >= 0:
                later = 0.0 if ended else v[successor]
                expected = q[columns.state[row], columns.action[row]]
                found[n], is_known[n] = columns.reward[row] + gamma * later - expected, True
            n += 1
    return found, is_known
