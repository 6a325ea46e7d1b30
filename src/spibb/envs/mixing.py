"""Heuristic baselines: one action in every state, mixed with the uniform policy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.errors import SettingsError
from spibb.mdp.policy import TabularPolicy


def mixed(chosen: NDArray[np.int64], n_actions: int, epsilon: float) -> TabularPolicy:
    """Return the policy that takes the chosen action, and any action with probability epsilon.

    Args:
        chosen: An action for every state, shape (S,).
        n_actions: Number of actions.
        epsilon: Share of the uniform policy.

    Example:
        >>> mixed(np.array([1, 0]), 2, 0.2).probabilities
        array([[0.1, 0.9],
               [0.9, 0.1]])
    """
    if not 0 <= epsilon <= 1:
        raise SettingsError(f"epsilon is {epsilon}", expected="a share in [0, 1]")
    table = np.full((len(chosen), n_actions), epsilon / n_actions)
    table[np.arange(len(chosen)), chosen] += 1.0 - epsilon
    return TabularPolicy(table)
