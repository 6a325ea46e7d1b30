"""Recovery and rehabilitation."""

from __future__ import annotations

import numpy as np

from spibb.mdp.model import TabularMDP
from spibb.studies.generators.baseline_rules import rule
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.parameters import declared, discount, whole


def rehabilitation(rng: np.random.Generator) -> Instance:
    """Draw training that strengthens, and that throws the patient back if it is too hard."""
    n_levels, n_actions, gamma = whole(rng, 6, 30), whole(rng, 3, 6), discount(rng, 0.9, 0.99)
    level = np.linspace(0.0, 1.0, n_levels)[:, None]
    hardness = np.linspace(0.0, 1.0, n_actions)
    gains = rng.uniform(0.3, 0.7) * hardness
    injures = np.clip(rng.uniform(0.2, 1.0) * np.maximum(hardness - level, 0.0), 0.0, 0.95)
    gains = gains * (1.0 - injures)
    back = whole(rng, 1, max(n_levels // 2, 2))
    transition, ending = np.zeros((n_levels, n_actions, n_levels)), np.zeros((n_levels, n_actions))
    for x in range(n_levels):
        transition[x, :, x] += 1.0 - gains[x] - injures[x]
        transition[x, :, max(x - back, 0)] += injures[x]
        if x + 1 < n_levels:
            transition[x, :, x + 1] += gains[x]
        else:
            ending[x] = gains[x]
    home = rng.uniform(1.0, 10.0)  # the reward of going home
    reward = home * ending - rng.uniform(0.0, 0.1) - rng.uniform(0.0, 0.5) * injures
    initial = np.zeros(n_levels)
    initial[: max(n_levels // 3, 1)] = 1.0 / max(n_levels // 3, 1)
    process = TabularMDP(transition, reward, gamma, initial, ending=ending)
    careful = rng.uniform(0.4, 1.2)
    chosen = np.rint(np.clip(careful * level[:, 0], 0.0, 1.0) * (n_actions - 1)).astype(np.int64)
    baseline = rule(rng, chosen, n_actions, 0.05, 0.5)
    range_ = declared(rng, reward.min(), reward.max())
    return Instance(process, baseline, whole(rng, 30, 100), range_)


def early_discharge(rng: np.random.Generator) -> Instance:
    """Draw patients who may be sent home, where the weak fall ill again and come back worse."""
    n_levels, gamma = whole(rng, 4, 25), discount(rng, 0.9, 0.99)
    level = np.linspace(0.0, 1.0, n_levels)
    n_actions = whole(rng, 2, 4)  # send home, or one of some kinds of care
    returns = np.clip(rng.uniform(0.4, 0.9) * (1.0 - level) ** rng.uniform(0.5, 3.0), 0.0, 1.0)
    transition, ending = np.zeros((n_levels, n_actions, n_levels)), np.zeros((n_levels, n_actions))
    back = whole(rng, 1, n_levels)
    heals = np.sort(rng.uniform(0.1, 0.7, n_actions - 1))
    price = np.sort(rng.uniform(0.1, 1.0, n_actions - 1))
    reward = np.empty((n_levels, n_actions))
    reward[:, 0] = rng.uniform(0.0, 2.0) - rng.uniform(1.0, 6.0) * returns
    for x in range(n_levels):
        transition[x, 0, max(x - back, 0)] = returns[x]
        ending[x, 0] = 1.0 - returns[x]
        for care in range(n_actions - 1):
            transition[x, 1 + care, min(x + 1, n_levels - 1)] += heals[care]
            transition[x, 1 + care, x] += 1.0 - heals[care]
            reward[x, 1 + care] = -price[care]
    process = TabularMDP(transition, reward, gamma, ending=ending)
    sent = rng.uniform(0.3, 1.0)
    chosen = np.where(level >= sent, 0, whole(rng, 1, n_actions - 1))
    baseline = rule(rng, chosen, n_actions, 0.05, 0.4)
    return Instance(process, baseline, whole(rng, 20, 60))
