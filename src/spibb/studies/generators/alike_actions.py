"""Actions that are truly the same: there is nothing to gain."""

from __future__ import annotations

import numpy as np

from spibb.mdp.model import TabularMDP
from spibb.studies.generators.baseline_rules import habits, usual
from spibb.studies.generators.instance import Instance, Noise
from spibb.studies.generators.parameters import chance, declared, discount, longest_episode, whole
from spibb.studies.generators.reward_noise import Blur, Coin, LognormalFactor
from spibb.studies.generators.transitions import random_rows


def alike_arms(rng: np.random.Generator) -> Instance:
    """Draw a bandit whose arms are all the same, with rewards of 0 or 1."""
    n_states, n_actions = whole(rng, 1, 20), whole(rng, 2, 10)
    success = np.repeat(rng.uniform(0.05, 0.95, (n_states, 1)), n_actions, axis=1)
    process = TabularMDP(np.zeros((n_states, n_actions, n_states)), success, 0.0)
    baseline = usual(rng, n_states, n_actions, 1.0 / n_actions, 0.95)
    return Instance(process, baseline, 1, declared(rng, 0.0, 1.0), Coin())


def alike_moves(rng: np.random.Generator) -> Instance:
    """Draw a random process in which the actions of a state do the same."""
    n_states, n_actions, gamma = whole(rng, 5, 40), whole(rng, 2, 6), discount(rng)
    transition = np.repeat(random_rows(rng, n_states, 1, whole(rng, 2, 8)), n_actions, axis=1)
    reward = np.repeat(np.exp(0.5 * rng.normal(size=(n_states, 1))), n_actions, axis=1)
    noises: list[Noise | None] = [
        None, Blur(rng.uniform(0.2, 2.0)), LognormalFactor(rng.uniform(0.5, 1.5))
    ]  # fmt: skip
    noise = noises[whole(rng, 0, 2)]
    process = TabularMDP(transition, reward, gamma)
    baseline = habits(rng, n_states, n_actions)
    return Instance(process, baseline, longest_episode(rng, gamma), noise=noise)


def alike_wards(rng: np.random.Generator) -> Instance:
    """Draw wards that differ in how many patients recover there, whatever drug they get."""
    n_wards, n_drugs, gamma = whole(rng, 3, 20), whole(rng, 2, 6), discount(rng, 0.9, 0.99)
    recovers = np.repeat(rng.uniform(0.05, 0.6, (n_wards, 1)), n_drugs, axis=1)
    moves = np.repeat(random_rows(rng, n_wards, 1, 3), n_drugs, axis=1)
    n_states = n_wards + 1
    transition = np.zeros((n_states, n_drugs, n_states))
    transition[:n_wards, :, :n_wards] = moves * (1.0 - recovers)[..., None]
    transition[:n_wards, :, n_wards] = recovers
    is_end, entry = np.arange(n_states) == n_wards, np.eye(n_states)[n_wards]
    process = TabularMDP(transition, None, gamma, None, is_end, entry_reward=entry)
    baseline = usual(rng, n_states, n_drugs) if chance(rng) else habits(rng, n_states, n_drugs)
    return Instance(process, baseline, whole(rng, 10, 60), declared(rng, 0.0, 1.0))
