"""Transitions of random processes, shape (states, actions, states)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def random_rows(
    rng: np.random.Generator,
    n_states: int,
    n_actions: int,
    n_successors: int,
    concentration: float = 1.0,
) -> Array:
    """Draw transitions to random successors, with Dirichlet probabilities.

    Args:
        rng: Source of randomness.
        n_states: Number of states.
        n_actions: Number of actions.
        n_successors: Number of successors of each pair; all states where it exceeds their number.
        concentration: Parameter of the Dirichlet distribution; small numbers make one successor
            likely.
    """
    n_successors = min(n_successors, n_states)
    shape = (n_states, n_actions)
    successors = rng.random((*shape, n_states)).argsort(axis=2)[:, :, :n_successors]
    weights = rng.gamma(concentration, size=(*shape, n_successors)) + 1e-9
    transition = np.zeros((*shape, n_states))
    np.put_along_axis(transition, successors, weights / weights.sum(axis=2, keepdims=True), axis=2)
    return transition


def anywhere(shares: Array, n_actions: int) -> Array:
    """Return transitions that lead to each state with its share, whatever is done."""
    n_states = len(shares)
    return np.broadcast_to(shares, (n_states, n_actions, n_states)).copy()


def ladder(up: Array, down: Array) -> Array:
    """Return a walk on ordered states, one step at a time, that stays within its ends.

    Args:
        up: Probability of one step up, shape (states, actions).
        down: Probability of one step down, same shape.
    """
    n_states, n_actions = up.shape
    places = np.arange(n_states)
    transition = np.zeros((n_states, n_actions, n_states))
    transition[places, :, places] = 1.0 - up - down
    transition[places, :, np.minimum(places + 1, n_states - 1)] += up
    transition[places, :, np.maximum(places - 1, 0)] += down
    return transition
