"""Random MDPs (garnets) of different connectivity."""

from __future__ import annotations

import numpy as np

from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy
from spibb.studies.generators.baseline_rules import experienced, habits
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.parameters import chance, declared, discount, longest_episode, whole
from spibb.studies.generators.reward_noise import Blur
from spibb.studies.generators.transitions import random_rows


def sparse_garnet(rng: np.random.Generator) -> Instance:
    """Draw a random MDP whose pairs have one to three successors."""
    return _garnet(rng, whole(rng, 10, 60), whole(rng, 1, 3))


def dense_garnet(rng: np.random.Generator) -> Instance:
    """Draw a random MDP whose pairs lead to many states."""
    return _garnet(rng, whole(rng, 5, 40), whole(rng, 8, 40))


def goal_garnet(rng: np.random.Generator) -> Instance:
    """Draw a random MDP in which only a goal pays, and ends the episode."""
    n_states, n_actions, gamma = whole(rng, 15, 60), whole(rng, 2, 6), discount(rng, 0.9, 0.98)
    transition = random_rows(rng, n_states, n_actions, whole(rng, 2, 5))
    goal = n_states - 1
    # The goal is hard to enter: most of what leads there stays where it is.
    kept = rng.uniform(0.5, 0.9) * transition[..., goal]
    transition[..., goal] -= kept
    transition[np.arange(n_states), :, np.arange(n_states)] += kept
    is_end, entry = np.arange(n_states) == goal, np.eye(n_states)[goal]
    if chance(rng):  # a second goal pays less, or costs
        is_end[goal - 1], entry[goal - 1] = True, rng.uniform(-1.0, 0.7)
    initial = np.eye(n_states)[0]
    process = TabularMDP(transition, None, gamma, initial, is_end, entry_reward=entry)
    baseline = experienced(rng, process, 0.2, 4.0)
    return Instance(process, baseline, whole(rng, 30, 100))


def clustered_garnet(rng: np.random.Generator) -> Instance:
    """Draw a random MDP in which states of a group resemble each other in all they do."""
    n_groups, size, n_actions = whole(rng, 3, 8), whole(rng, 2, 7), whole(rng, 2, 5)
    gamma, n_states = discount(rng), n_groups * size
    group = np.repeat(np.arange(n_groups), size)
    rows = rng.dirichlet(np.full(n_groups, 0.4), (n_groups, n_actions))[group][:, :, group] / size
    own = random_rows(rng, n_states, n_actions, 4)
    mix = rng.uniform(0.0, 0.5)
    reward = rng.normal(size=(n_groups, n_actions))[group]
    reward = reward + mix * rng.normal(size=reward.shape)
    process = TabularMDP((1.0 - mix) * rows + mix * own, reward, gamma)
    table = habits(rng, n_groups, n_actions).probabilities[group]
    noise = Blur(rng.uniform(0.1, 1.0)) if chance(rng) else None
    return Instance(process, TabularPolicy(table), longest_episode(rng, gamma), noise=noise)


def _garnet(rng: np.random.Generator, n_states: int, n_successors: int) -> Instance:
    n_actions, gamma = whole(rng, 2, 8), discount(rng)
    concentration = rng.uniform(0.2, 2.0)
    transition = random_rows(rng, n_states, n_actions, n_successors, concentration)
    reward = rng.normal(size=(n_states, n_actions))
    if chance(rng):  # few pairs pay
        reward *= rng.random(reward.shape) < rng.uniform(0.1, 0.5)
    initial = np.eye(n_states)[0] if chance(rng) else None
    process = TabularMDP(transition, reward, gamma, initial)
    baseline = experienced(rng, process) if chance(rng) else habits(rng, n_states, n_actions)
    range_ = declared(rng, reward.min(), reward.max())
    return Instance(process, baseline, longest_episode(rng, gamma), range_)
