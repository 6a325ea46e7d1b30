"""Maximum-likelihood models of chosen episodes, many at once, without a table of counts between.

The same estimate as ``Counts.estimate``: N(x, a, x') / N(x, a), mean rewards, pairs without data
end with value 0. Episodes may be chosen more than once, so a bootstrap resample is one more choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from spibb.mdp.batch import ModelBatch
from spibb.mdp.parallel import over_chunks
from spibb.ope.trajectories import Trajectories

jit = numba.njit(cache=True, nogil=True, error_model="numpy")

# Up to so many cells, transitions are counted in a table of all of them.
_LARGEST_TABLE = 1 << 16

_SCALE_EPISODES = 128

# Which episodes of which log.
Choice = tuple[Trajectories, NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Fitted:
    """Models of B choices of episodes.

    Attributes:
        models: The models.
        n_sa: How often each pair was seen, shape (B, S, A).
    """

    models: ModelBatch
    n_sa: NDArray[np.float64]


def fit_models(choices: Sequence[Choice], gamma: float) -> Fitted:
    """Fit one model to each choice of episodes; all have the same states and actions."""
    first = choices[0][0]
    shape = (len(choices), first.n_states, first.n_actions)
    n_pairs = shape[1] * shape[2]
    reward, ending, n_sa = np.empty(shape), np.empty(shape), np.zeros(shape)
    initial = np.empty(shape[:2])
    parts: list[tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]] = [
        (np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0))
    ] * len(choices)

    def part(places: NDArray[np.int64]) -> None:
        for place in places:
            episodes, chosen = choices[place]
            parts[place] = _fit(
                episodes.start, chosen, episodes.state, episodes.action, episodes.reward,
                episodes.next_state, episodes.ended, n_sa[place], reward[place], ending[place],
                initial[place],
            )  # fmt: skip

    over_chunks(part, np.arange(len(choices)))
    offsets = np.concatenate([[0], np.cumsum([len(part[1]) for part in parts])])
    indptr = np.empty(len(choices) * n_pairs + 1, dtype=np.int64)
    for place, (starts, _, _) in enumerate(parts):
        indptr[place * n_pairs : (place + 1) * n_pairs] = starts[:-1] + offsets[place]
    indptr[-1] = offsets[-1]
    models = ModelBatch(
        indptr=indptr,
        indices=np.concatenate([part[1] for part in parts]),
        data=np.concatenate([part[2] for part in parts]),
        reward=reward,
        ending=ending,
        initial=initial,
        gamma=gamma,
    )
    return Fitted(models, n_sa)


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
def _fit(start, chosen, state, action, reward, next_state, ended, n_sa, mean, ending, initial):  # type: ignore[no-untyped-def]
    """Write counts, mean rewards, endings and first states; return P in compressed rows."""
    n_states, n_actions = mean.shape
    initial[:] = 0.0
    mean[:] = 0.0
    for episode in chosen:
        initial[state[start[episode]]] += 1.0 / len(chosen)
    # While rows are counted, `n_sa` holds those that end; the others are in the rows of P.
    if n_states * n_actions * n_states <= _LARGEST_TABLE:
        rows = _count_in_table(start, chosen, state, action, reward, next_state, ended, n_sa, mean)
    else:
        rows = _count_in_lists(start, chosen, state, action, reward, next_state, ended, n_sa, mean)
    indptr, indices, data = rows
    for x in range(n_states):
        for a in range(n_actions):
            pair = x * n_actions + a
            n_end = n_sa[x, a]
            for k in range(indptr[pair], indptr[pair + 1]):
                n_sa[x, a] += data[k]
            n = n_sa[x, a]
            for k in range(indptr[pair], indptr[pair + 1]):
                data[k] /= n
            ending[x, a] = n_end / n if n > 0.0 else 1.0
            mean[x, a] = mean[x, a] / n if n > 0.0 else 0.0
    return indptr, indices, data


@jit
def _count_in_table(start, chosen, state, action, reward, next_state, ended, n_end, total):  # type: ignore[no-untyped-def]
    """Count transitions in a table of all of them."""
    n_states, n_actions = total.shape
    table = np.zeros((n_states, n_actions, n_states))
    for episode in chosen:
        for row in range(start[episode], start[episode + 1]):
            x, a = state[row], action[row]
            if ended[row]:
                n_end[x, a] += 1.0
                total[x, a] += reward[row]
            elif next_state[row] >= 0:
                table[x, a, next_state[row]] += 1.0
                total[x, a] += reward[row]
    indptr = np.zeros(n_states * n_actions + 1, dtype=np.int64)
    indices = np.empty(np.count_nonzero(table), dtype=np.int32)
    data = np.empty(len(indices))
    n = 0
    for x in range(n_states):
        for a in range(n_actions):
            for successor in range(n_states):
                if table[x, a, successor] > 0.0:
                    indices[n] = successor
                    data[n] = table[x, a, successor]
                    n += 1
            indptr[x * n_actions + a + 1] = n
    return indptr, indices, data


@jit
def _count_in_lists(start, chosen, state, action, reward, next_state, ended, n_end, total):  # type: ignore[no-untyped-def]
    """List the successors of each pair, one list behind the other, and join equal ones."""
    n_states, n_actions = total.shape
    indptr = np.zeros(n_states * n_actions + 1, dtype=np.int64)
    for episode in chosen:
        for row in range(start[episode], start[episode + 1]):
            x, a = state[row], action[row]
            if ended[row]:
                n_end[x, a] += 1.0
                total[x, a] += reward[row]
            elif next_state[row] >= 0:
                indptr[x * n_actions + a + 1] += 1
                total[x, a] += reward[row]
    for pair in range(n_states * n_actions):
        indptr[pair + 1] += indptr[pair]
    successors = np.empty(indptr[-1], dtype=np.int32)
    free = indptr[:-1].copy()
    for episode in chosen:
        for row in range(start[episode], start[episode + 1]):
            if not ended[row] and next_state[row] >= 0:
                pair = state[row] * n_actions + action[row]
                successors[free[pair]] = next_state[row]
                free[pair] += 1
    return _joined(indptr, successors, n_states)


@jit
def _joined(indptr, successors, n_states):  # type: ignore[no-untyped-def]
    """Count equal successors within each list."""
    place = np.full(n_states, -1, dtype=np.int64)
    data = np.empty(len(successors))
    shorter = np.empty_like(indptr)
    n = 0
    for pair in range(len(indptr) - 1):
        shorter[pair] = n
        for k in range(indptr[pair], indptr[pair + 1]):
            x = successors[k]
            if place[x] < shorter[pair]:
                place[x] = n
                successors[n] = x
                data[n] = 0.0
                n += 1
            data[place[x]] += 1.0
    shorter[-1] = n
    return shorter, successors[:n].copy(), data[:n].copy()


def residual_scale(
    choice: Choice, v: NDArray[np.float64], q: NDArray[np.float64], gamma: float
) -> float:
    """Return the root mean square of r + gamma V(x') - Q(x, a) over the rows of some episodes.

    A hundred and some episodes, spread over the choice, tell a scale well enough.
    """
    episodes, chosen = choice
    chosen = chosen[:: max(1, len(chosen) // _SCALE_EPISODES)]
    found = _residuals(
        episodes.start, chosen, episodes.state, episodes.action, episodes.reward,
        episodes.next_state, episodes.ended, v, q, float(gamma),
    )  # fmt: skip
    return float(found)


@jit
def _residuals(start, chosen, state, action, reward, next_state, ended, v, q, gamma):  # type: ignore[no-untyped-def]
    total, n = 0.0, 0
    for episode in chosen:
        for row in range(start[episode], start[episode + 1]):
            if ended[row] or next_state[row] >= 0:
                later = 0.0 if ended[row] else v[next_state[row]]
                total += (reward[row] + gamma * later - q[state[row], action[row]]) ** 2
                n += 1
    return np.sqrt(total / max(n, 1))
