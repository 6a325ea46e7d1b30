"""Maximum-likelihood models of chosen episodes, many at once, without a table of counts between.

The same estimate as ``Counts.estimate``, by spibb.data.estimate. Episodes may be chosen more than
once, so a bootstrap resample is one more choice.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.compiled.threads import over_chunks
from spibb.data.estimate import Unseen, estimate_model
from spibb.mdp.batch import ModelArrays, ModelBatch, Rows
from spibb.ope.trajectories import Trajectories

Array = NDArray[np.float64]

# Up to so many cells, transitions are counted in a table of all of them.
_LARGEST_TABLE = 1 << 16
_SCALE_EPISODES = 64

Made = TypeVar("Made")
# Which episodes of which log.
Choice = tuple[Trajectories, NDArray[np.int64]]
Keys = tuple[NDArray[np.int64], ...]


@dataclass(frozen=True, eq=False)
class FittedModels:
    """Models of B choices of episodes.

    Attributes:
        choices: The choices.
        gamma: The discount.
        unseen: What pairs without data do.
        sums: How often each pair was seen and the sum of its rewards, shape (B, S, A), and how
            often each state was the first, shape (B, S).
        keys: The transitions of each choice that go on, each pair * S + successor: those within
            records, and those after which a record stops.
    """

    choices: Sequence[Choice]
    gamma: float
    unseen: Unseen
    sums: tuple[Array, ...]
    keys: Sequence[Keys]

    @property
    def n_sa(self) -> Array:
        """How often each pair was seen, shape (B, S, A)."""
        return self.sums[0]

    @cached_property
    def models(self) -> ModelBatch:
        """The models."""
        return self._estimate([np.concatenate(parts) for parts in self.keys])

    @cached_property
    def recorded(self) -> ModelBatch:
        """The models in which the end of a record is an end.

        Their values are those of the return as far as it is recorded, which is what weighted
        estimates of truncated episodes are about.
        """
        has_cuts = any(len(cut) for _, cut in self.keys)
        return self._estimate([within for within, _ in self.keys]) if has_cuts else self.models

    def _estimate(self, keys: Sequence[NDArray[np.int64]]) -> ModelBatch:
        n_sa, reward_sum, n_first = self.sums
        initial = n_first / n_first.sum(axis=1, keepdims=True)
        # Ends are no transitions here: a state that only ends is never entered, so none need end.
        live = np.zeros(n_sa.shape[1], dtype=np.bool_)

        def estimate(k: int) -> ModelArrays:
            counts = Rows(*_compressed(keys[k], n_sa[k].size, len(live)))
            given = counts, n_sa[k], reward_sum[k], float(n_sa[k].sum() - len(keys[k])), live
            return estimate_model(*given, initial=initial[k], gamma=self.gamma, unseen=self.unseen)

        return ModelBatch.stack(_each(estimate, len(keys)))


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
    keys: list[Keys] = _each(lambda k: _count(*rows[k], *(part[k] for part in sums)), len(choices))
    if unions is not None:
        choices = [
            (choices[union[0]][0], np.concatenate([choices[k][1] for k in union]))
            for union in unions
        ]
        sums = tuple(np.stack([part[union].sum(axis=0) for union in unions]) for part in sums)
        joined = [zip(*(keys[k] for k in union), strict=True) for union in unions]
        keys = [tuple(map(np.concatenate, parts)) for parts in joined]
    return FittedModels(choices, gamma, unseen, sums, keys)


def _each(function: Callable[[int], Made], n: int) -> list[Made]:
    """Return what a function makes of 0 to n - 1, in threads if there are enough."""
    found: dict[int, Made] = {}

    def part(places: NDArray[np.int64]) -> None:
        found.update((k, function(k)) for k in places.tolist())

    over_chunks(part, np.arange(n))
    return [found[k] for k in range(n)]


def repeat_models(batch: ModelBatch, n_times: int) -> ModelBatch:
    """Return a batch with every model ``n_times`` in a row, for as many policies."""
    n_pairs = batch.shape[1] * batch.shape[2]
    edges = batch.indptr[::n_pairs].tolist()
    models = []
    for m, (first, last) in enumerate(itertools.pairwise(edges)):
        indptr = batch.indptr[m * n_pairs : (m + 1) * n_pairs + 1] - first
        rows = Rows(indptr, batch.indices[first:last], batch.data[first:last])
        parts = batch.reward[m], batch.ending[m], batch.initial[m]
        models += [ModelArrays(rows, *parts, batch.gamma)] * n_times
    return ModelBatch.stack(models)


@jit
def _count(columns, chosen, n_sa, total, first):  # type: ignore[no-untyped-def]
    """Add up rows, rewards and first states; return the keys of the transitions that go on."""
    start, (n_states, n_actions) = columns.start, n_sa.shape
    n_rows, n = 0, 0
    for episode in chosen:
        n_rows += start[episode + 1] - start[episode]
    # From the front those within records, from the back those after which a record stops.
    keys, cut = np.empty(n_rows, np.int64), n_rows
    for episode in chosen:
        first[columns.state[start[episode]]] += 1.0
        for row in range(start[episode], start[episode + 1]):
            x, a, successor = columns.state[row], columns.action[row], columns.next_state[row]
            if columns.ended[row] or successor >= 0:
                n_sa[x, a] += 1.0
                total[x, a] += columns.reward[row]
                key = (x * n_actions + a) * n_states + successor
                if not columns.ended[row] and row + 1 < start[episode + 1]:
                    keys[n] = key
                    n += 1
                elif not columns.ended[row]:
                    cut -= 1
                    keys[cut] = key
    return keys[:n], keys[cut:]


@jit
def _compressed(keys, n_pairs, n_states):  # type: ignore[no-untyped-def]
    """Count equal keys, pair times S plus successor, in order: in a table, or sorted."""
    if n_pairs * n_states > _LARGEST_TABLE:
        keys = np.sort(keys)
        first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
        counts = np.diff(np.append(first, len(keys))).astype(np.float64)
        indptr = np.searchsorted(keys[first], np.arange(n_pairs + 1) * n_states)
        return indptr, (keys[first] % n_states).astype(np.int32), counts
    table = np.zeros(n_pairs * n_states)
    for key in keys:
        table[key] += 1.0
    indptr, n = np.zeros(n_pairs + 1, np.int64), 0
    indices, counts = np.empty(len(keys), np.int32), np.empty(len(keys))
    for pair in range(n_pairs):
        for successor in range(n_states):
            count = table[pair * n_states + successor]
            if count > 0.0:
                indices[n], counts[n] = successor, count
                n += 1
        indptr[pair + 1] = n
    return indptr, indices[:n].copy(), counts[:n].copy()


def residual_scale(choice: Choice, v: Array, q: Array, gamma: float) -> float:
    """Return the root mean square of r + gamma V(x') - Q(x, a) over the rows of some episodes.

    Some hundred episodes, spread over the choice, tell a scale well enough.
    """
    episodes, chosen = choice
    some = chosen[:: max(1, len(chosen) // _SCALE_EPISODES)]
    found, is_known = residuals(episodes.columns, some, v, q, float(gamma))
    return math.sqrt(float((found**2).sum()) / max(int(is_known.sum()), 1))


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
