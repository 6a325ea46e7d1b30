"""Compile the training kernels once: ``python -m spibb.deep.warmup``."""

import numpy as np
from numpy.typing import NDArray

from spibb.deep.population import Member, TrainingSettings
from spibb.deep.pseudo_counts import KernelCounts
from spibb.deep.rules import ExactSoftSPIBBDQN
from spibb.deep.training import train_population
from spibb.deep.training_data import TrainingData
from spibb.deep.transitions import Transitions


def warm_up() -> None:
    """Train a tiny network for two steps, and let it act."""
    transitions = Transitions.from_arrays(
        np.zeros((2, 1)), [0, 1], [0.0, 1.0], np.ones((2, 1)), [False, True]
    )
    rule, counts = ExactSoftSPIBBDQN(), KernelCounts().fit(transitions)

    def baseline(states: NDArray[np.float32]) -> NDArray[np.float64]:
        return np.full((len(states), 2), 0.5)

    data = TrainingData.from_transitions(transitions, baseline, counts)
    settings = TrainingSettings(hidden=(2,), batch_size=2, n_passes=2)
    population = train_population(data, [Member(0, rule, 0)], settings, engine="cpu")
    population.policy(0).act([0.0])


if __name__ == "__main__":
    warm_up()
