"""Maximum-likelihood models of chosen episodes, many at once, without a table of counts between.

The same estimate as ``Counts.estimate``, by spibb.data.estimate. Episodes may be chosen more than
once, so a bootstrap resample is one more choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.compiled.threads import over_chunks
from spibb.data.estimate import Unseen, estimate_model
from spibb.mdp.batch import ModelArrays, ModelBatch, Rows
from spibb.ope.trajectories import Trajectories

# Up to so many cells, transitions are counted in a table of all of them.
_LARGEST_TABLE = 1 << 16

_SCALE_EPISODES = 64

# Which episodes of which log.
Choice = tuple[Trajectories, NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Fitted:
    """Models of B choices of episodes.

    Attributes:
        models: The models.
        n_sa: How often each pair was seen, shape (B, S, A).
        counts: How often each pair was followed by each state, for each choice.
        reward_sum: Sums of rewards, shape (B, S, A).
        initial: Distribution of the first state, shape (B, S).
        unseen: What pairs without data do.
    """

    models: ModelBatch
    n_sa: NDArray[np.float64]
    counts: Sequence[Rows]
    reward_sum: NDArray[np.float64]
    initial: NDArray[np.float64]
    unseen: Unseen

    @classmethod
    def of(
        cls,
        counts: Sequence[Rows],
        n_sa: NDArray[np.float64],
        reward_sum: NDArray[np.float64],
        initial: NDArray[np.float64],
        gamma: float,
        unseen: Unseen,
    ) -> Fitted:
        """Estimate the models; arguments as the attributes."""
        # Ends are no transitions here: a state that only ends is never entered, so none need end.
        live = np.zeros(n_sa.shape[1], dtype=np.bool_)
        parts: dict[int, ModelArrays] = {}

        def part(places: NDArray[np.int64]) -> None:
            for k in places.tolist():
                n_ended = float(n_sa[k].sum() - counts[k].data.sum())
                parts[k] = estimate_model(
                    counts[k], n_sa[k], reward_sum[k], n_ended, live,
                    initial=initial[k], gamma=gamma, unseen=unseen,
                )  # fmt: skip

        over_chunks(part, np.arange(len(counts)))
        models = ModelBatch.stack([parts[k] for k in range(len(counts))])
        return cls(models, n_sa, counts, reward_sum, initial, unseen)

    def as_recorded(self, choices: Sequence[Choice]) -> ModelBatch:
        """Return the models in which the end of a record is an end.

        Their values are those of the return as far as it is recorded, which is what weighted
        estimates of truncated episodes are about.
        """
        cuts = [chosen[episodes.is_cut[chosen]] for episodes, chosen in choices]
        if not any(len(cut) for cut in cuts):
            return self.models
        counts = []
        for rows, cut, (episodes, _) in zip(self.counts, cuts, choices, strict=True):
            going_on = rows._replace(data=rows.data.copy())
            _end_at_cuts(
                cut, episodes.start, episodes.state, episodes.action, episodes.next_state,
                self.n_sa.shape[2], *going_on,
            )  # fmt: skip
            counts.append(going_on)
        gamma = self.models.gamma
        return Fitted.of(
            counts, self.n_sa, self.reward_sum, self.initial, gamma, self.unseen
        ).models


def fit_models(
    choices: Sequence[Choice], gamma: float, *, unseen: Unseen = "average", group: int = 1
) -> Fitted:
    """Fit one model to each choice of episodes; all have the same states and actions.

    Args:
        choices: Which episodes.
        gamma: The discount.
        unseen: What pairs without data do.
        group: If above 1, choices come in groups of this size, of which the last holds the episodes
            of all others, and each of the others all of these but one fold: then the last counts
            are sums of the others.
    """
    first = choices[0][0]
    shape = (len(choices), first.n_states, first.n_actions)
    n_sa, reward, initial = np.zeros(shape), np.zeros(shape), np.zeros(shape[:2])
    counts: dict[int, Rows] = {}

    def part(groups: NDArray[np.int64]) -> None:
        for last in (group * (groups + 1) - 1).tolist():
            fitted = range(last - group + 1, last + 1 if group == 1 else last)
            for place in fitted:
                episodes, chosen = choices[place]
                counts[place] = Rows(*_count(
                    episodes.start, chosen, episodes.state, episodes.action, episodes.reward,
                    episodes.next_state, episodes.ended, n_sa[place], reward[place], initial[place],
                ))  # fmt: skip
            if group > 1:
                for sums in (n_sa, reward, initial):
                    sums[last] = sums[fitted.start : last].sum(axis=0) / max(1, group - 2)
                counts[last] = _mean_rows([counts[place] for place in fitted], shape[1])
            for place in range(last - group + 1, last + 1):
                _add_going_on(*counts[place], n_sa[place])

    over_chunks(part, np.arange(len(choices) // group))
    initial /= initial.sum(axis=1, keepdims=True)
    listed = [counts[k] for k in range(len(choices))]
    return Fitted.of(listed, n_sa, reward, initial, gamma, unseen)


def _mean_rows(parts: Sequence[Rows], n_states: int) -> Rows:
    """Add up counts in which every row of a log stands as often as there are parts, less one."""
    found = parts[0]
    for part in parts[1:]:
        both = _side_by_side(*found, *part)
        found = Rows(*_joined(both[0], both[1], both[2], n_states))
    return found._replace(data=found.data / max(1, len(parts) - 1))


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
def _count(start, chosen, state, action, reward, next_state, ended, n_end, total, first):  # type: ignore[no-untyped-def]
    """Add up ends, rewards and first states; return transitions that go on, compressed."""
    n_states, n_actions = total.shape
    for episode in chosen:
        first[state[start[episode]]] += 1.0
    if n_states * n_actions * n_states <= _LARGEST_TABLE:
        return _count_in_table(
            start, chosen, state, action, reward, next_state, ended, n_end, total
        )
    return _count_in_lists(start, chosen, state, action, reward, next_state, ended, n_end, total)


@jit
def _add_going_on(indptr, indices, counts, n_sa):  # type: ignore[no-untyped-def]
    """Add the rows that went on to ``n_sa``, which comes with the ends only."""
    n_actions = n_sa.shape[1]
    for pair in range(len(indptr) - 1):
        for k in range(indptr[pair], indptr[pair + 1]):
            n_sa[pair // n_actions, pair % n_actions] += counts[k]


@jit
def _count_in_table(start, chosen, state, action, reward, next_state, ended, n_end, total):  # type: ignore[no-untyped-def]
    """Count transitions in a table of all of them."""
    n_states, n_actions = total.shape
    table = np.zeros((n_states, n_actions, n_states))
    n_rows = 0
    for episode in chosen:
        n_rows += start[episode + 1] - start[episode]
        for row in range(start[episode], start[episode + 1]):
            x, a = state[row], action[row]
            if ended[row]:
                n_end[x, a] += 1.0
                total[x, a] += reward[row]
            elif next_state[row] >= 0:
                table[x, a, next_state[row]] += 1.0
                total[x, a] += reward[row]
    indptr = np.zeros(n_states * n_actions + 1, dtype=np.int64)
    indices = np.empty(min(n_rows, table.size), dtype=np.int32)
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
    return indptr, indices[:n].copy(), data[:n].copy()


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
    return _joined(indptr, successors, np.ones(len(successors)), n_states)


@jit
def _side_by_side(indptr, indices, data, other_indptr, other_indices, other_data):  # type: ignore[no-untyped-def]
    """Put the rows of one count behind those of another, pair by pair."""
    both = indptr + other_indptr
    joined, counts = np.empty(both[-1], dtype=np.int32), np.empty(both[-1])
    for pair in range(len(indptr) - 1):
        n = both[pair]
        for k in range(indptr[pair], indptr[pair + 1]):
            joined[n], counts[n] = indices[k], data[k]
            n += 1
        for k in range(other_indptr[pair], other_indptr[pair + 1]):
            joined[n], counts[n] = other_indices[k], other_data[k]
            n += 1
    return both, joined, counts


@jit
def _joined(indptr, successors, counts, n_states):  # type: ignore[no-untyped-def]
    """Add up the counts of equal successors within each list."""
    place = np.full(n_states, -1, dtype=np.int64)
    shorter = np.empty_like(indptr)
    n = 0
    for pair in range(len(indptr) - 1):
        shorter[pair] = n
        for k in range(indptr[pair], indptr[pair + 1]):
            x, count = successors[k], counts[k]
            if place[x] < shorter[pair]:
                place[x] = n
                successors[n] = x
                counts[n] = 0.0
                n += 1
            counts[place[x]] += count
    shorter[-1] = n
    return shorter, successors[:n].copy(), counts[:n].copy()


@jit
def _end_at_cuts(cut, start, state, action, next_state, n_actions, indptr, indices, counts):  # type: ignore[no-untyped-def]
    """Take the last transition of each cut episode out of the counts of what goes on."""
    for episode in cut:
        row = start[episode + 1] - 1
        pair = state[row] * n_actions + action[row]
        for k in range(indptr[pair], indptr[pair + 1]):
            if indices[k] == next_state[row]:
                counts[k] = max(0.0, counts[k] - 1.0)
                break


def residual_scale(
    choice: Choice, v: NDArray[np.float64], q: NDArray[np.float64], gamma: float
) -> float:
    """Return the root mean square of r + gamma V(x') - Q(x, a) over the rows of some episodes.

    Some hundred episodes, spread over the choice, tell a scale well enough.
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
