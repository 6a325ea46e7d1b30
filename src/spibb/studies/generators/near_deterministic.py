"""Baselines that nearly always take the same action in a state."""

from __future__ import annotations

import numpy as np

from spibb.mdp.model import TabularMDP
from spibb.mdp.planning import solve
from spibb.mdp.policy import TabularPolicy
from spibb.studies.generators.baseline_rules import rule
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.parameters import (
    chance,
    declared,
    discount,
    log_uniform,
    longest_episode,
    whole,
)
from spibb.studies.generators.reward_noise import Blur
from spibb.studies.generators.transitions import ladder, random_rows


def fixed_habits(rng: np.random.Generator) -> Instance:
    """Draw a random process whose baseline takes one action in 95 to 99.8 % of the steps."""
    n_states, n_actions, gamma = whole(rng, 5, 40), whole(rng, 2, 6), discount(rng)
    transition = random_rows(rng, n_states, n_actions, whole(rng, 1, 5))
    reward = rng.normal(size=(n_states, n_actions))
    process = TabularMDP(transition, reward, gamma)
    # In some states the habit is the best action, in others any.
    best = solve(process).policy.probabilities.argmax(axis=1)
    is_best = rng.random(n_states) < rng.uniform(0.0, 0.9)
    chosen = np.where(is_best, best, rng.integers(n_actions, size=n_states))
    baseline = rule(rng, chosen, n_actions, 0.002, 0.05)
    noise = Blur(rng.uniform(0.1, 1.0)) if chance(rng) else None
    range_ = None if noise else declared(rng, reward.min(), reward.max())
    return Instance(process, baseline, longest_episode(rng, gamma), range_, noise)


def strict_protocol(rng: np.random.Generator) -> Instance:
    """Draw a protocol of treatment by severity, from which doctors depart in few states only."""
    n_levels, n_actions, gamma = whole(rng, 6, 30), whole(rng, 2, 5), discount(rng)
    strength = np.linspace(0.0, 1.0, n_actions)
    severity = np.linspace(0.0, 1.0, n_levels)[:, None]
    down = 0.05 + rng.uniform(0.2, 0.5) * strength * (0.3 + severity)
    up = np.minimum(0.1 + rng.uniform(0.1, 0.3) * severity + 0.0 * down, 1.0 - down)
    reward = -severity - rng.uniform(0.05, 0.6) * strength**2
    process = TabularMDP(ladder(up, down), reward, gamma)
    threshold = np.sort(rng.random(n_actions - 1))
    chosen = (severity > threshold).sum(axis=1)
    table = np.eye(n_actions)[chosen]
    departs = rng.random(n_levels) < rng.uniform(0.2, 0.8)
    share = log_uniform(rng, 0.005, 0.1)
    table[departs] = (1.0 - share) * table[departs] + share / n_actions
    return Instance(process, TabularPolicy(table), longest_episode(rng, gamma))
