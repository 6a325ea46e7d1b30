"""Compile the training kernels once: ``python -m spibb.deep.warmup``."""

import numpy as np

from spibb import deep


def warm_up() -> None:
    """Train a tiny network for two steps, and let it act."""
    states, actions = np.zeros((2, 1)), [0, 1]
    transitions = deep.Transitions.from_arrays(states, actions, actions, states + 1, actions)
    data = deep.TrainingData.from_transitions(
        transitions, lambda seen: np.full((len(seen), 2), 0.5), deep.KernelCounts()
    )
    settings = deep.TrainingSettings(hidden=(2,), batch_size=2, n_passes=2)
    member = deep.Member(0, deep.ExactSoftSPIBBDQN(), 0)
    deep.train_population(data, member, settings, engine="cpu").policy(0).act([0.0])


if __name__ == "__main__":
    warm_up()
