"""Episodes without a discount, which end under every policy."""

from __future__ import annotations

import numpy as np

from spibb.mdp.model import TabularMDP
from spibb.studies.generators.baseline_rules import habits, rule
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.parameters import declared, whole
from spibb.studies.generators.transitions import random_rows


def press_your_luck(rng: np.random.Generator) -> Instance:
    """Draw a game in which winnings grow until the player stops, or loses them all."""
    n_levels, n_bets = whole(rng, 5, 30), whole(rng, 1, 3)
    n_actions = 1 + n_bets  # stop, or bet at one of several odds
    bust = np.sort(rng.uniform(0.03, 0.4, n_bets))
    steps = 1 + np.arange(n_bets)
    transition = np.zeros((n_levels, n_actions, n_levels))
    ending = np.zeros((n_levels, n_actions))
    reward = np.zeros((n_levels, n_actions))
    for x in range(n_levels):
        ending[x, 0], reward[x, 0] = 1.0, float(x)
        for bet in range(n_bets):
            ending[x, 1 + bet] = bust[bet]
            # At the top there is nothing more to win.
            transition[x, 1 + bet, min(x + steps[bet], n_levels - 1)] = 1.0 - bust[bet]
    initial = np.eye(n_levels)[0]
    process = TabularMDP(transition, reward / n_levels, 1.0, initial, ending=ending)
    stops = rng.uniform(0.1, 0.9) * n_levels
    chosen = np.where(np.arange(n_levels) >= stops, 0, whole(rng, 1, n_bets))
    baseline = rule(rng, chosen, n_actions, 0.1, 0.6)
    return Instance(process, baseline, 100)


def ending_by_chance(rng: np.random.Generator) -> Instance:
    """Draw a random process that ends by chance, at rates that depend on the action."""
    n_states, n_actions = whole(rng, 4, 40), whole(rng, 2, 6)
    ending = rng.uniform(0.02, 0.3, (n_states, n_actions))
    transition = random_rows(rng, n_states, n_actions, whole(rng, 2, 6))
    reward = rng.normal(size=ending.shape)
    transition *= 1.0 - ending[..., None]
    process = TabularMDP(transition, reward, 1.0, ending=ending)
    range_ = declared(rng, reward.min(), reward.max())
    return Instance(process, habits(rng, n_states, n_actions), 100, range_)
