"""Noisy rewards and actions that hardly differ."""

from __future__ import annotations

import numpy as np

from spibb.mdp.model import TabularMDP
from spibb.studies.generators.baseline_rules import habits, usual
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.parameters import chance, discount, longest_episode, whole
from spibb.studies.generators.reward_noise import Blur, EvenBlur
from spibb.studies.generators.transitions import anywhere, random_rows


def tiny_differences(rng: np.random.Generator) -> Instance:
    """Draw a random process whose actions differ by a fraction of the noise of rewards."""
    n_states, n_actions, gamma = whole(rng, 3, 30), whole(rng, 2, 6), discount(rng)
    moves = random_rows(rng, n_states, 1, whole(rng, 2, 8))
    own = random_rows(rng, n_states, n_actions, 3)
    transition = 0.97 * np.repeat(moves, n_actions, axis=1) + 0.03 * own
    reward = rng.normal(size=(n_states, 1)) + rng.uniform(0.02, 0.2) * rng.normal(
        size=(n_states, n_actions)
    )
    process = TabularMDP(transition, reward, gamma)
    baseline = habits(rng, n_states, n_actions)
    noise = Blur(rng.uniform(0.5, 2.0))
    return Instance(process, baseline, longest_episode(rng, gamma), noise=noise)


def tiny_effects(rng: np.random.Generator) -> Instance:
    """Draw contexts in which rewards are noisy and bounded, and arms differ by little."""
    n_states, n_actions = whole(rng, 1, 15), whole(rng, 2, 8)
    effect = rng.uniform(0.02, 0.15) * rng.normal(size=(n_states, n_actions))
    reward = 1.0 + rng.uniform(0.0, 0.5) * rng.normal(size=(n_states, 1)) + effect
    ending = np.full(reward.shape, rng.uniform(0.1, 1.0))
    transition = anywhere(rng.dirichlet(np.full(n_states, 2.0)), n_actions)
    transition *= 1.0 - ending[..., None]
    process = TabularMDP(transition, reward, discount(rng, 0.8, 0.97), ending=ending)
    noise = EvenBlur(rng.uniform(0.5, 2.0))
    low, high = reward.min() - noise.half_width, reward.max() + noise.half_width
    range_ = (float(low), float(high)) if chance(rng) else None
    baseline = usual(rng, n_states, n_actions, 0.3, 0.95)
    return Instance(process, baseline, whole(rng, 3, 20), range_, noise)
