"""Maximum-likelihood models of chosen episodes, many at once, without a table of counts between.

The same estimate as ``Counts.estimate``, by spibb.data.estimate. Episodes may be chosen more than
once, so a bootstrap resample is one more choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from spibb.data.estimate import Unseen, estimate_model
from spibb.mdp.batch import ModelArrays, ModelBatch, Rows
from spibb.mdp.parallel import over_chunks
from spibb.ope.trajectories import Trajectories

jit = numba.njit(cache=True, nogil=True, error_model="numpy")

Array = NDArray[np.float64]

# Up to so many cells, transitions are counted in a table of all of them.
_LARGEST_TABLE = 1 << 16
_SCALE_EPISODES = 64

# Which episodes of which log.
Choice = tuple[Trajectories, NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Fitted:
    """Models of B choices of episodes.

    Attributes:
        choices: The choices.
        models: The models.
        n_sa: How often each pair was seen, shape (B, S, A).
        counts: How often each pair was followed by each state, for each choice.
        reward_sum: Sums of rewards, shape (B, S, A).
        unseen: What pairs without data do.
    """

    choices: Sequence[Choice]
    models: ModelBatch
    n_sa: Array
    counts: Sequence[Rows]
    reward_sum: Array
    unseen: Unseen

    def as_recorded(self) -> ModelBatch:
        """Return the models in which the end of a record is an end.

        Their values are those of the return as far as it is recorded, which is what weighted
        estimates of truncated episodes are about.
        """
        cuts = [chosen[episodes.is_cut[chosen]] for episodes, chosen in self.choices]
        if not any(len(cut) for cut in cuts):
            return self.models
        counts = [rows._replace(data=rows.data.copy()) for rows in self.counts]
        for rows, cut, (episodes, _) in zip(counts, cuts, self.choices, strict=True):
            _end_at_cuts(episodes.columns, cut, self.n_sa.shape[2], rows)
        sums = self.n_sa, self.reward_sum, self.models.initial
        return _estimate(counts, *sums, self.models.gamma, self.unseen)


def fit_models(
    choices: Sequence[Choice],
    gamma: float,
    *,
    unseen: Unseen = "average",
    unions: Sequence[Sequence[int]] | None = None,
) -> Fitted:
    """Fit one model to each choice of episodes; all have the same states and actions.

    Args:
        choices: Which episodes.
        gamma: The discount.
        unseen: What pairs without data do.
        unions: Of which choices, by number, each model is: folds that several models share are
            counted once. None: of one each.
    """
    first, n = choices[0][0], len(choices)
    shape = (n, first.n_states, first.n_actions)
    sums: tuple[Array, ...] = (np.zeros(shape), np.zeros(shape), np.zeros(shape[:2]))
    keys: dict[int, NDArray[np.int64]] = {}

    def count(places: NDArray[np.int64]) -> None:
        for k in places.tolist():
            episodes, chosen = choices[k]
            keys[k] = _count(episodes.columns, chosen, *(part[k] for part in sums))

    over_chunks(count, np.arange(n))
    if unions is None:
        unions = [[k] for k in range(n)]
    else:
        parts = [[choices[k][1] for k in union] for union in unions]
        choices = [
            (choices[u[0]][0], np.concatenate(p)) for u, p in zip(unions, parts, strict=True)
        ]
        sums = tuple(np.stack([part[union].sum(axis=0) for union in unions]) for part in sums)
    counts: dict[int, Rows] = {}

    def compress(places: NDArray[np.int64]) -> None:
        for k in places.tolist():
            joined = np.concatenate([keys[part] for part in unions[k]])
            counts[k] = Rows(*_compressed(joined, shape[1] * shape[2], shape[1]))

    over_chunks(compress, np.arange(len(unions)))
    listed = [counts[k] for k in range(len(unions))]
    n_sa, reward, initial = sums
    initial /= initial.sum(axis=1, keepdims=True)
    models = _estimate(listed, n_sa, reward, initial, gamma, unseen)
    return Fitted(choices, models, n_sa, listed, reward, unseen)


def _estimate(
    counts: Sequence[Rows],
    n_sa: Array,
    reward_sum: Array,
    initial: Array,
    gamma: float,
    unseen: Unseen,
) -> ModelBatch:
    # Ends are no transitions here: a state that only ends is never entered, so none need end.
    live = np.zeros(n_sa.shape[1], dtype=np.bool_)
    parts: dict[int, ModelArrays] = {}

    def part(places: NDArray[np.int64]) -> None:
        for k in places.tolist():
            n_ended = float(n_sa[k].sum() - counts[k].data.sum())
            parts[k] = estimate_model(counts[k], n_sa[k], reward_sum[k], n_ended, live,
                                      initial=initial[k], gamma=gamma, unseen=unseen)  # fmt: skip

    over_chunks(part, np.arange(len(counts)))
    return ModelBatch.stack([parts[k] for k in range(len(counts))])


def repeat_models(batch: ModelBatch, n_times: int) -> ModelBatch:
    """Return a batch with every model ``n_times`` in a row, for as many policies."""
    n_models, n_states, n_actions = batch.shape
    n_pairs = n_states * n_actions
    edges = batch.indptr[::n_pairs]
    slices = [slice(edges[m], edges[m + 1]) for m in range(n_models) for _ in range(n_times)]
    sizes = np.repeat(np.diff(edges), n_times)
    offsets = np.cumsum(sizes) - sizes
    within = batch.indptr[:-1].reshape(n_models, n_pairs) - edges[:-1, None]
    starts = np.repeat(within, n_times, axis=0) + offsets[:, None]
    return ModelBatch(
        indptr=np.append(starts.ravel(), sizes.sum()),
        indices=np.concatenate([batch.indices[part] for part in slices]),
        data=np.concatenate([batch.data[part] for part in slices]),
        reward=np.repeat(batch.reward, n_times, axis=0),
        ending=np.repeat(batch.ending, n_times, axis=0),
        initial=np.repeat(batch.initial, n_times, axis=0),
        gamma=batch.gamma,
    )


@jit
def _count(columns, chosen, n_sa, total, first):  # type: ignore[no-untyped-def]
    """Add up rows, rewards and first states; return transitions that go on, by their keys."""
    start, (n_states, n_actions) = columns.start, n_sa.shape
    n_rows, n = 0, 0
    for episode in chosen:
        n_rows += start[episode + 1] - start[episode]
    keys = np.empty(n_rows, np.int64)
    for episode in chosen:
        first[columns.state[start[episode]]] += 1.0
        for row in range(start[episode], start[episode + 1]):
            x, a, successor = columns.state[row], columns.action[row], columns.next_state[row]
            if columns.ended[row] or successor >= 0:
                n_sa[x, a] += 1.0
                total[x, a] += columns.reward[row]
                if not columns.ended[row]:
                    keys[n] = (x * n_actions + a) * n_states + successor
                    n += 1
    return keys[:n].copy()


@jit
def _compressed(keys, n_pairs, n_states):  # type: ignore[no-untyped-def]
    """Count equal keys, pair times S plus successor, in order: in a table, or sorted."""
    if n_pairs * n_states <= _LARGEST_TABLE:
        table = np.zeros(n_pairs * n_states)
        for key in keys:
            table[key] += 1.0
        keys = np.flatnonzero(table)
        counts = table[keys]
    else:
        keys = np.sort(keys)
        first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
        counts = np.diff(np.append(first, len(keys))).astype(np.float64)
        keys = keys[first]
    indptr = np.searchsorted(keys, np.arange(n_pairs + 1) * n_states)
    return indptr, (keys % n_states).astype(np.int32), counts


@jit
def _end_at_cuts(columns, cut, n_actions, counts):  # type: ignore[no-untyped-def]
    """Take the last transition of each cut episode out of the counts of what goes on."""
    for episode in cut:
        row = columns.start[episode + 1] - 1
        pair = columns.state[row] * n_actions + columns.action[row]
        for k in range(counts.indptr[pair], counts.indptr[pair + 1]):
            if counts.indices[k] == columns.next_state[row]:
                counts.data[k] = max(0.0, counts.data[k] - 1.0)
                break


def residual_scale(choice: Choice, v: Array, q: Array, gamma: float) -> float:
    """Return the root mean square of r + gamma V(x') - Q(x, a) over the rows of some episodes.

    Some hundred episodes, spread over the choice, tell a scale well enough.
    """
    episodes, chosen = choice
    chosen = chosen[:: max(1, len(chosen) // _SCALE_EPISODES)]
    return float(_residuals(episodes.columns, chosen, v, q, float(gamma)))


@jit
def _residuals(columns, chosen, v, q, gamma):  # type: ignore[no-untyped-def]
    total, n = 0.0, 0
    for episode in chosen:
        for row in range(columns.start[episode], columns.start[episode + 1]):
            successor, ended = columns.next_state[row], columns.ended[row]
            if ended or successor >= 0:
                later = 0.0 if ended else v[successor]
                expected = q[columns.state[row], columns.action[row]]
                total += (columns.reward[row] + gamma * later - expected) ** 2
                n += 1
    return np.sqrt(total / max(n, 1))
