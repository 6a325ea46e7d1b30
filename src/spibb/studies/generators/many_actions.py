"""Problems of 20 to 40 actions."""

from __future__ import annotations

import numpy as np

from spibb.mdp.model import TabularMDP
from spibb.studies.generators.baseline_rules import experienced, habits, usual
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.parameters import chance, declared, discount, longest_episode, whole
from spibb.studies.generators.reward_noise import Blur, Coin
from spibb.studies.generators.transitions import random_rows


def many_arms(rng: np.random.Generator) -> Instance:
    """Draw a bandit of 20 to 40 arms in one to ten contexts."""
    n_states, n_actions = whole(rng, 1, 10), whole(rng, 20, 40)
    quality = rng.uniform(0.1, 0.7, n_actions) + 0.1 * rng.normal(size=(n_states, n_actions))
    process = TabularMDP(
        np.zeros((n_states, n_actions, n_states)), np.clip(quality, 0.02, 0.98), 0.0
    )
    baseline = usual(rng, n_states, n_actions, 0.05, 0.9)
    return Instance(process, baseline, 1, declared(rng, 0.0, 1.0), Coin())


def many_moves(rng: np.random.Generator) -> Instance:
    """Draw a random process of 20 to 40 actions, many of which lead to the same states."""
    n_states, n_actions, gamma = whole(rng, 4, 15), whole(rng, 20, 40), discount(rng)
    transition = random_rows(rng, n_states, n_actions, whole(rng, 1, 3))
    reward = rng.normal(size=(n_states, 1)) + 0.3 * rng.normal(size=(n_states, n_actions))
    process = TabularMDP(transition, reward, gamma)
    by_habit = chance(rng)
    baseline = habits(rng, n_states, n_actions) if by_habit else experienced(rng, process)
    noise = Blur(rng.uniform(0.1, 1.0)) if chance(rng) else None
    return Instance(process, baseline, longest_episode(rng, gamma), noise=noise)
