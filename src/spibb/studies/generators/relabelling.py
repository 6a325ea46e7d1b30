"""Shuffle the numbers of actions, so that the order in which they are written tells nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy
from spibb.studies.generators.instance import Instance


def with_actions_shuffled(instance: Instance, rng: np.random.Generator) -> Instance:
    """Return the same problem with its actions in a random order, the same in every state."""
    process = instance.process
    order = rng.permutation(process.n_actions)
    entry = process.entry_reward
    shuffled = TabularMDP(
        process.dense[:, order],
        process.reward[:, order] if entry is None else None,
        process.gamma,
        process.initial,
        process.terminal,
        process.ending[:, order],
        entry,
    )
    baseline = TabularPolicy(instance.baseline.probabilities[:, order])
    return replace(instance, process=shuffled, baseline=baseline)
