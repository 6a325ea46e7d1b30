"""Baselines that are optimal already: there is nothing to gain, and much to lose."""

from __future__ import annotations

import numpy as np

from spibb.mdp.model import TabularMDP
from spibb.mdp.planning import solve
from spibb.mdp.policy import TabularPolicy
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.parameters import chance, declared, discount, longest_episode, whole
from spibb.studies.generators.reward_noise import Blur
from spibb.studies.generators.transitions import random_rows


def optimal_rule(rng: np.random.Generator) -> Instance:
    """Draw a random process whose baseline always takes the best action."""
    n_states, n_actions, gamma = whole(rng, 4, 40), whole(rng, 2, 6), discount(rng)
    transition = random_rows(rng, n_states, n_actions, whole(rng, 2, 6))
    reward = rng.normal(size=(n_states, n_actions))
    process = TabularMDP(transition, reward, gamma)
    noise = Blur(rng.uniform(0.1, 1.5)) if chance(rng) else None
    range_ = None if noise else declared(rng, reward.min(), reward.max())
    max_steps = longest_episode(rng, gamma)
    return Instance(process, solve(process).policy, max_steps, range_, noise)


def optimal_mixture(rng: np.random.Generator) -> Instance:
    """Draw a random process with several best actions, among which the baseline mixes."""
    n_states, n_best, n_worse = whole(rng, 4, 30), whole(rng, 2, 4), whole(rng, 1, 3)
    gamma, n_actions = discount(rng), n_best + n_worse
    transition = random_rows(rng, n_states, n_actions, whole(rng, 2, 6))
    reward = np.repeat(rng.normal(size=(n_states, 1)), n_actions, axis=1)
    transition[:, :n_best] = transition[:, :1]
    # The worse actions lead where the best ones lead, and pay less.
    transition[:, n_best:] = transition[:, :1]
    reward[:, n_best:] -= rng.uniform(0.1, 1.0, (n_states, n_worse))
    table = np.zeros((n_states, n_actions))
    table[:, :n_best] = rng.dirichlet(np.full(n_best, 2.0), n_states)
    process = TabularMDP(transition, reward, gamma)
    noise = Blur(rng.uniform(0.3, 2.0))
    max_steps = longest_episode(rng, gamma)
    return Instance(process, TabularPolicy(table), max_steps, noise=noise)
