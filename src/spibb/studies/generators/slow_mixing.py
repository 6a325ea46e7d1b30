"""Processes that take long to move from one part to another."""

from __future__ import annotations

import numpy as np

from spibb.mdp.model import TabularMDP
from spibb.studies.generators.baseline_rules import habits, rule
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.parameters import declared, discount, log_uniform, whole
from spibb.studies.generators.transitions import ladder


def sticky_blocks(rng: np.random.Generator) -> Instance:
    """Draw blocks of states that are seldom left, with actions that differ by block."""
    n_blocks, size, n_actions = whole(rng, 2, 5), whole(rng, 3, 10), whole(rng, 2, 5)
    total = n_blocks * size
    leaves = log_uniform(rng, 0.002, 0.05) * rng.uniform(0.3, 3.0, (total, n_actions))
    transition = np.empty((total, n_actions, total))
    transition[:] = (leaves / total)[..., None]
    for block in range(n_blocks):
        own = slice(block * size, (block + 1) * size)
        within = rng.dirichlet(np.full(size, 0.5), (size, n_actions))
        transition[own, :, own] += within * (1.0 - leaves[own])[..., None]
    reward = np.repeat(rng.normal(size=n_blocks), size)[:, None] + rng.uniform(0.1, 0.6) * (
        np.repeat(rng.normal(size=(n_blocks, n_actions)), size, axis=0)
        + 0.5 * rng.normal(size=(total, n_actions))
    )
    process = TabularMDP(transition, reward, discount(rng, 0.93, 0.99))
    baseline = habits(rng, total, n_actions)
    range_ = declared(rng, reward.min(), reward.max())
    return Instance(process, baseline, whole(rng, 30, 100), range_)


def lazy_walk(rng: np.random.Generator) -> Instance:
    """Draw a lazy walk whose ends pay, and whose actions push a little."""
    n_states, n_actions = whole(rng, 8, 40), whole(rng, 2, 4)
    moves = log_uniform(rng, 0.05, 0.4)
    push = np.linspace(0.3, 0.7, n_actions)
    shape = (n_states, n_actions)
    up = np.broadcast_to(moves * push, shape)
    down = np.broadcast_to(moves * (1.0 - push), shape)
    place = np.linspace(-1.0, 1.0, n_states)[:, None]
    reward = np.abs(place) ** rng.uniform(1.0, 4.0) * np.where(place > 0.0, 1.0, rng.uniform(0, 1))
    reward = reward - rng.uniform(0.0, 0.2) * np.abs(push - 0.5)
    process = TabularMDP(ladder(up, down), reward, discount(rng, 0.93, 0.99))
    chosen = np.full(n_states, whole(rng, 0, n_actions - 1))
    baseline = rule(rng, chosen, n_actions, 0.1, 0.8)
    return Instance(process, baseline, whole(rng, 30, 100))
