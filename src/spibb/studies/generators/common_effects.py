"""Effects of actions that are common to all states."""

from __future__ import annotations

import numpy as np

from spibb.mdp.model import TabularMDP
from spibb.studies.generators.baseline_rules import usual
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.parameters import declared, discount, longest_episode, whole
from spibb.studies.generators.reward_noise import Coin
from spibb.studies.generators.transitions import anywhere, ladder


def common_drug(rng: np.random.Generator) -> Instance:
    """Draw drugs that help or harm a little, by the same amount in every ward."""
    n_wards, n_drugs = whole(rng, 3, 30), whole(rng, 2, 6)
    effect = rng.uniform(0.02, 0.12) * rng.normal(size=n_drugs)
    by_ward = 0.01 * rng.normal(size=(n_wards, n_drugs))
    cures = np.clip(rng.uniform(0.2, 0.8, (n_wards, 1)) + effect + by_ward, 0.02, 0.98)
    shares = rng.dirichlet(np.full(n_wards, 2.0))
    leaves = rng.uniform(0.05, 1.0)
    ending = np.full(cures.shape, leaves)
    transition = anywhere(shares, n_drugs) * (1.0 - leaves)
    gamma = discount(rng, 0.8, 0.97)
    process = TabularMDP(transition, cures, gamma, shares, ending=ending)
    baseline = usual(rng, n_wards, n_drugs, 0.4, 0.95)
    return Instance(process, baseline, whole(rng, 3, 20), declared(rng, 0.0, 1.0), Coin())


def common_drift(rng: np.random.Generator) -> Instance:
    """Draw an ordered scale on which each action drifts by the same amount everywhere."""
    n_levels, n_actions, gamma = whole(rng, 6, 40), whole(rng, 2, 6), discount(rng)
    drift = np.clip(0.5 + rng.uniform(0.02, 0.15) * rng.normal(size=n_actions), 0.05, 0.95)
    moves, shape = rng.uniform(0.4, 1.0), (n_levels, n_actions)
    up = np.broadcast_to(moves * drift, shape)
    down = np.broadcast_to(moves * (1.0 - drift), shape)
    reward = np.broadcast_to(np.linspace(0.0, 1.0, n_levels)[:, None], shape)
    process = TabularMDP(ladder(up, down), reward, gamma)
    baseline = usual(rng, n_levels, n_actions, 0.4, 0.95)
    return Instance(process, baseline, longest_episode(rng, gamma))
