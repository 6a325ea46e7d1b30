"""Gridworlds with wind."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.mdp.model import TabularMDP
from spibb.studies.generators.baseline_rules import experienced
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.parameters import chance, declared, discount, log_uniform, whole
from spibb.studies.generators.rare_damage import damage_rate

Array = NDArray[np.float64]

_MOVES = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])


def windy_grid(rng: np.random.Generator) -> Instance:
    """Draw a grid whose columns have winds of their own, with a goal to reach."""
    height, width = whole(rng, 3, 7), whole(rng, 3, 8)
    gamma, n_states = discount(rng, 0.9, 0.99), height * width
    wind = rng.uniform(0.0, 0.7, width) * (rng.random(width) < 0.6)
    transition = _moves(height, width, wind, rng.uniform(0.0, 0.2))
    goal = n_states - 1 - whole(rng, 0, width - 1)
    is_end, entry = np.arange(n_states) == goal, np.full(n_states, -rng.uniform(0.0, 0.05))
    entry[goal] = 1.0
    process = TabularMDP(transition, None, gamma, np.eye(n_states)[0], is_end, entry_reward=entry)
    baseline = experienced(rng, process, 0.3, 4.0)
    range_ = declared(rng, entry.min(), 1.0)
    return Instance(process, baseline, whole(rng, 30, 100), range_)


def grid_with_pits(rng: np.random.Generator) -> Instance:
    """Draw a grid with wind and pits, which end the episode at a cost."""
    height, width = whole(rng, 3, 7), whole(rng, 4, 8)
    gamma, n_states = discount(rng, 0.9, 0.99), height * width
    wind = rng.uniform(0.0, 0.3, width)
    transition = _moves(height, width, wind, rng.uniform(0.0, 0.15))
    goal = n_states - 1
    n_pits = whole(rng, 1, max(n_states // 8, 1))
    pits = rng.choice(np.arange(1, n_states - 1), n_pits, replace=False)
    is_end, entry = np.zeros(n_states, dtype=bool), np.full(n_states, -0.01)
    is_end[goal], entry[goal] = True, 1.0
    cost = log_uniform(rng, 0.5, 5.0)
    is_end[pits], entry[pits] = True, -cost
    process = TabularMDP(transition, None, gamma, np.eye(n_states)[0], is_end, entry_reward=entry)
    baseline, max_steps = experienced(rng, process, 0.5, 8.0), whole(rng, 30, 100)
    falls = process.dense[..., pits].sum(axis=2)
    rate = damage_rate(process, baseline, max_steps, falls)
    return Instance(process, baseline, max_steps, declared(rng, -cost, 1.0), damage_rate=rate)


def windy_field(rng: np.random.Generator) -> Instance:
    """Draw a field without an end, whose cells differ in pay and whose wind blows one way."""
    height, width = whole(rng, 3, 6), whole(rng, 3, 8)
    gamma, n_states = discount(rng, 0.85, 0.98), height * width
    transition = _moves(height, width, rng.uniform(0.0, 0.5, width), rng.uniform(0.0, 0.3))
    pays = rng.normal(size=n_states)
    if chance(rng):  # cells near one side pay less
        pays -= np.linspace(0.0, 2.0, height).repeat(width)[::-1]
    process = TabularMDP(transition, None, gamma, entry_reward=pays)
    baseline = experienced(rng, process, 0.3, 4.0)
    range_ = declared(rng, pays.min(), pays.max())
    return Instance(process, baseline, whole(rng, 20, 60), range_)


def _moves(height: int, width: int, wind: Array, slip: float) -> Array:
    """Return transitions of four moves; wind of a column carries one row up, a slip anywhere."""
    n_states = height * width
    cells = np.stack(np.divmod(np.arange(n_states), width), axis=1)
    limits = np.array([height - 1, width - 1])
    transition = np.zeros((n_states, 4, n_states))
    place = np.arange(n_states)
    for action in range(4):
        for move in range(4):
            weight = slip / 4.0 + (1.0 - slip) * (move == action)
            after = np.clip(cells + _MOVES[move], 0, limits)
            calm = after[:, 0] * width + after[:, 1]
            blown = np.maximum(after[:, 0] - 1, 0) * width + after[:, 1]
            force = wind[cells[:, 1]]
            np.add.at(transition[:, action], (place, calm), weight * (1.0 - force))
            np.add.at(transition[:, action], (place, blown), weight * force)
    return transition
