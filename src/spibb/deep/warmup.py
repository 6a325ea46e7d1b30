"""Compile the training kernels once: ``python -m spibb.deep.warmup``."""

import numpy as np

from spibb.deep.pseudo_counts import KernelCounts
from spibb.deep.rules import ExactSoftSPIBBDQN
from spibb.deep.training import Member, TrainingData, TrainingSettings, train_population
from spibb.deep.transitions import Transitions


def warm_up() -> None:
    """Train a tiny network for two steps."""
    transitions = Transitions.from_arrays(
        np.zeros((2, 1)), [0, 1], [0.0, 1.0], np.ones((2, 1)), [False, True]
    )
    data = TrainingData.from_transitions(
        transitions, lambda states: np.full((len(states), 2), 0.5), KernelCounts()
    )
    settings = TrainingSettings(hidden=(2,), batch_size=2, n_passes=2)
    train_population(data, [Member(0, ExactSoftSPIBBDQN(), 0)], settings, engine="cpu")


if __name__ == "__main__":
    warm_up()
