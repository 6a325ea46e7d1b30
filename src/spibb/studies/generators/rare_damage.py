"""How often an episode of the baseline shows a rare event."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy

Array = NDArray[np.float64]


def expected_rows(process: TabularMDP, baseline: TabularPolicy, max_steps: int) -> Array:
    """Return how many rows of each pair an episode has on average, shape (states, actions)."""
    onward = np.einsum("xa,xay->xy", baseline.probabilities, process.dense)
    here = np.where(process.terminal, 0.0, process.initial)
    total = np.zeros_like(here)
    for _ in range(max_steps):
        total += here
        here = np.where(process.terminal, 0.0, here @ onward)
    return np.asarray(total[:, None] * baseline.probabilities)


def damage_rate(
    process: TabularMDP, baseline: TabularPolicy, max_steps: int, probability: Array
) -> float:
    """Return the expected number of rows of an episode that show a damage.

    Args:
        process: The true process.
        baseline: The policy that makes the logs.
        max_steps: Longest episode.
        probability: Probability that a row of a pair shows the damage, shape (states, actions).
    """
    return float((expected_rows(process, baseline, max_steps) * probability).sum())
