"""Kinds of states: a log may hold states in which a prior is strong and others in which it is not.

In corridors every action leads elsewhere, in the wards behind them all drugs do about the same: one
strength for both would believe in the wards what chance made of a few patients. So states are
sorted. Given how likely the rows of each state are under each of some hypotheses, one of these is
assumed of all states, and another is added while a mixture of them makes the rows of all plainly
likelier: by more than 1.5 log S, what a hypothesis of two numbers and its share cost by Schwarz'
criterion. A state is of the kind that explains its rows best, given how frequent kinds are, and the
hypothesis of a kind is the one that explains the rows of all of its states best.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit

Array = NDArray[np.float64]

# More kinds than these would be guesses.
_MOST = 4
_N_STEPS = 30
# What a kind costs, in logarithms of the number of states.
_COST = 1.5
_LEAST = 1e-300


def expected_strength(m: Array) -> Array:
    """Return the logarithm of the hyper-prior on strengths, m / (1 + m)^2: its median is 1."""
    return np.log(m) - 2.0 * np.log1p(m)


@jit
def kinds(likelihood: Array, expected: Array) -> NDArray[np.int64]:
    """Return which hypothesis holds in each state, shape (S,).

    Args:
        likelihood: Logarithm of how likely the rows of each state are, shape (S, hypotheses).
        expected: Logarithm of how likely each hypothesis is before.

    Example:
        >>> one, other = [0.0, -9.0], [-9.0, 0.0]
        >>> kinds(np.array([one, one, one, other, other, other]), np.zeros(2)).tolist()
        [0, 0, 0, 1, 1, 1]
        >>> kinds(np.array([one, one, one, [-0.5, 0.0]]), np.zeros(2)).tolist()
        [0, 0, 0, 0]
    """
    n_states = len(likelihood)
    found = np.full(n_states, _best(likelihood, np.ones(n_states, np.bool_), expected))
    relative, top = np.empty(likelihood.shape), 0.0
    for x in range(n_states):
        most = likelihood[x].max()
        relative[x] = np.exp(likelihood[x] - most)
        top += most
    kept, weights = np.empty(_MOST, np.int64), np.ones(1)
    kept[0] = found[0]
    mixed = _mixed(relative, kept[:1], weights)
    reached = np.log(mixed).sum() + top + expected[kept[0]]
    n_kept = 1
    while n_kept < _MOST:
        kept[n_kept] = _steepest(relative, mixed)
        tried = np.append(weights * n_kept, 1.0) / (n_kept + 1.0)
        _weigh(relative, kept[: n_kept + 1], tried)
        mixture = _mixed(relative, kept[: n_kept + 1], tried)
        total = np.log(mixture).sum() + top + expected[kept[: n_kept + 1]].sum()
        if total <= reached + _COST * np.log(max(n_states, 2)):
            break
        reached, weights, mixed = total, tried, mixture
        n_kept += 1
    if n_kept > 1:
        _sort(likelihood, relative, kept[:n_kept], weights, expected, found)
    return found


@jit
def _best(likelihood, asked, expected):  # type: ignore[no-untyped-def]
    """Return the hypothesis that explains the states that are asked for best."""
    total = expected.copy()
    for x in range(len(likelihood)):
        if asked[x]:
            total += likelihood[x]
    return total.argmax()


@jit
def _steepest(relative, mixed):  # type: ignore[no-untyped-def]
    """Return the hypothesis of which a little helps most."""
    slope = np.zeros(relative.shape[1])
    for x in range(len(relative)):
        slope += relative[x] / mixed[x]
    return slope.argmax()


@jit
def _mixed(relative, kept, weights):  # type: ignore[no-untyped-def]
    """Return how likely the rows of each state are, in the mixture."""
    mixed = np.full(len(relative), _LEAST)
    for x in range(len(relative)):
        for k in range(len(kept)):
            mixed[x] += weights[k] * relative[x, kept[k]]
    return mixed


@jit
def _weigh(relative, kept, weights):  # type: ignore[no-untyped-def]
    """Find how frequent kinds are, in place, by expectation and maximisation."""
    for _ in range(_N_STEPS):
        mixed, new = _mixed(relative, kept, weights), np.zeros(len(kept))
        for x in range(len(relative)):
            for k in range(len(kept)):
                new[k] += weights[k] * relative[x, kept[k]] / mixed[x]
        weights[:] = new / len(relative)


@jit
def _sort(likelihood, relative, kept, weights, expected, found):  # type: ignore[no-untyped-def]
    """Write the hypothesis of each state's kind."""
    kind = np.zeros(len(relative), np.int64)
    for x in range(len(relative)):
        for k in range(1, len(kept)):
            here, there = kept[kind[x]], kept[k]
            if weights[k] * relative[x, there] > weights[kind[x]] * relative[x, here]:
                kind[x] = k
    for k in range(len(kept)):
        mine = kind == k
        found[mine] = _best(likelihood, mine, expected)
