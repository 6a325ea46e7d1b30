"""The shrunk model: the mean of what a log and its prior say of each pair.

    P = (n + m p) / (N + m),   R = (N u + k u_state) / (N + k) + sum_y P(y) h(y),   k = min(m, 8)

in the terms of spibb.data.prior and spibb.data.outcomes: a pair behaves as it was seen to, and, for
as much as m rows, as its state does. Rewards and successors are shrunk alike: were the price of an
action known and its effect shrunk away, the cheap action would always win; but a price that was
paid a hundred times is known, however alike successors are. A constant added to all rewards
changes nothing, and pairs never tried, which no algorithm may raise, are no special case: they do
what is expected before any data.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.data.outcomes import Outcomes
from spibb.data.prior import Prior
from spibb.mdp.batch import ModelArrays, Rows

Array = NDArray[np.float64]

# Of g, the outcomes a row of the model has: more would make rows of large models long.
MOST_OUTCOMES = 256
# Rows by which what a pair pays is drawn to what its state pays, at most.
PRICED = 8.0


def shrunk_model(outcomes: Outcomes, prior: Prior, *, initial: Array, gamma: float) -> ModelArrays:
    """Return the mean of the posterior.

    Args:
        outcomes: What followed in the log.
        prior: What is expected beside it.
        initial: Distribution of the first state, shape (S,).
        gamma: The discount.
    """
    base = thinned(prior.frequencies, MOST_OUTCOMES)
    rows, reward, ending = _mean(
        outcomes.indptr, outcomes.indices, outcomes.counts, outcomes.n_sa, outcomes.live,
        outcomes.by_pair, outcomes.by_state, outcomes.by_entry,
        np.flatnonzero(base).astype(np.int32), base, prior.share, prior.strength,
    )  # fmt: skip
    return ModelArrays(Rows(*rows), reward, ending, initial, gamma)


def thinned(frequencies: Array, most: int) -> Array:
    """Return a distribution with at most so many outcomes that stands for another.

    The frequent keep their probability, and of the rare every k-th by probability stands for those
    around it.

    Example:
        >>> thinned(np.array([0.5, 0.1, 0.1, 0.1, 0.1, 0.1]), 3).round(2)
        array([0.5 , 0.  , 0.25, 0.  , 0.25, 0.  ])
    """
    if np.count_nonzero(frequencies) <= most:
        return frequencies
    largest = np.argsort(-frequencies, kind="stable")[: most // 2]
    found = np.zeros(len(frequencies))
    found[largest] = frequencies[largest]
    rare = np.where(found > 0.0, 0.0, frequencies)
    n_rare = most - len(largest)
    total, marks = np.cumsum(rare), (np.arange(n_rare) + 0.5) / n_rare
    np.add.at(found, np.searchsorted(total, marks * total[-1]), total[-1] / n_rare)
    return found


@jit
def paid(n, m, u, u_state):  # type: ignore[no-untyped-def]
    """Return what a pair is expected to pay besides what follows it."""
    rows = min(m, PRICED)
    return (n * u + rows * u_state) / (n + rows)


@jit
def _mean(indptr, indices, counts, n_sa, live, u, u_state, h, members, g, share, strength):  # type: ignore[no-untyped-def]
    """Return the rows of P, R, and the probabilities to end."""
    n_states, n_actions = n_sa.shape
    is_member = np.zeros(len(g), dtype=np.bool_)
    is_member[members] = True
    followed = np.zeros(len(g))  # of a state, over all of its actions
    own = np.zeros(len(g))
    successors = np.empty(len(g), dtype=np.int64)
    sizes = np.zeros(n_states, dtype=np.int64)
    for x in range(n_states):
        sizes[x] = _gather(x, indptr, indices, counts, n_actions, members, is_member, followed,
                           successors)  # fmt: skip
        followed[successors[: sizes[x]]] = 0.0
    total = int((sizes * live).sum()) * n_actions
    to_indptr = np.zeros(n_states * n_actions + 1, dtype=np.int64)
    to_indices, to_data = np.empty(total, dtype=np.int32), np.empty(total)
    reward, ending = np.zeros(n_sa.shape), np.ones(n_sa.shape)
    place = 0
    for x in range(n_states):
        if live[x]:
            size = _gather(x, indptr, indices, counts, n_actions, members, is_member, followed,
                           successors)  # fmt: skip
            n_x, c, m = n_sa[x].sum(), share[x], strength[x]
        for a in range(n_actions):
            pair, n = x * n_actions + a, n_sa[x, a]
            to_indptr[pair] = place
            if not live[x]:
                continue
            for k in range(indptr[pair], indptr[pair + 1]):
                own[indices[k]] = counts[k]
            value, ending[x, a] = paid(n, m, u[x, a], u_state[x]), 0.0
            for i in range(size):
                y = successors[i]
                p = g[y] if math.isinf(c) else (followed[y] + c * g[y]) / (n_x + c)
                p = (own[y] + m * p) / (n + m)
                value += p * h[y]
                if y == n_states:
                    ending[x, a] = p
                elif p > 0.0:
                    to_indices[place] = y
                    to_data[place] = p
                    place += 1
            reward[x, a] = value
            for k in range(indptr[pair], indptr[pair + 1]):
                own[indices[k]] = 0.0
        if live[x]:
            followed[successors[:size]] = 0.0
    to_indptr[-1] = place
    return (to_indptr, to_indices[:place].copy(), to_data[:place].copy()), reward, ending


@jit
def _gather(x, indptr, indices, counts, n_actions, members, is_member, followed, successors):  # type: ignore[no-untyped-def]
    """List what may follow a state, and count what did; return how many there are."""
    size = 0
    for y in members:
        successors[size] = y
        size += 1
    for k in range(indptr[x * n_actions], indptr[(x + 1) * n_actions]):
        y = indices[k]
        if followed[y] == 0.0 and not is_member[y]:
            successors[size] = y
            size += 1
        followed[y] += counts[k]
    return size
