"""Processes of which the log knows the safe side only."""

from __future__ import annotations

import numpy as np

from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.parameters import (
    declared,
    discount,
    log_uniform,
    longest_episode,
    whole,
)
from spibb.studies.generators.rare_damage import damage_rate
from spibb.studies.generators.transitions import ladder


def cliff_edge(rng: np.random.Generator) -> Instance:
    """Draw a walk towards an edge: rewards rise up to it, and beyond it they fall deep."""
    n_states, n_actions, gamma = whole(rng, 8, 30), whole(rng, 2, 4), discount(rng, 0.85, 0.98)
    edge = whole(rng, n_states // 2, n_states - 2)
    push = np.linspace(0.0, 1.0, n_actions)
    place = np.arange(n_states)
    slope = 1.0 / edge
    cost = log_uniform(rng, 2.0, 20.0)
    pays = np.where(place < edge, slope * place, -cost)
    # Wind blows over the edge once close to it, and beyond it the way back is slow.
    wind = rng.uniform(0.05, 0.25)
    shape = (n_states, n_actions)
    up = np.broadcast_to(wind + 0.5 * push, shape).copy()
    down = np.broadcast_to((0.6 - wind) * (1.0 - push), shape).copy()
    down[edge:], up[edge:] = rng.uniform(0.02, 0.2), 0.1
    reward = np.broadcast_to(pays[:, None], shape)
    initial = np.where(place < edge // 2, 1.0 / (edge // 2), 0.0)
    process = TabularMDP(ladder(up, down), reward, gamma, initial)
    # The baseline turns back well before the edge.
    turns = edge * rng.uniform(0.6, 1.0)
    ahead = np.where(place < turns, rng.uniform(0.5, 0.9), log_uniform(rng, 0.005, 0.1))
    table = np.full(shape, 0.02 / n_actions)
    table[:, -1] += 0.98 * ahead
    table[:, 0] += 0.98 * (1.0 - ahead)
    baseline, max_steps = TabularPolicy(table), longest_episode(rng, gamma)
    crosses = np.where((place == edge - 1)[:, None], up, 0.0)
    rate = damage_rate(process, baseline, max_steps, crosses)
    return Instance(process, baseline, max_steps, declared(rng, -cost, 1.0), damage_rate=rate)


def safe_side(rng: np.random.Generator) -> Instance:
    """Draw two sides of states, of which the baseline hardly ever enters the worse one."""
    size, n_actions, gamma = whole(rng, 4, 25), whole(rng, 2, 5), discount(rng, 0.85, 0.98)
    n_states = 2 * size
    is_far = np.arange(n_states) >= size
    crosses = np.zeros((n_states, n_actions))
    crossing = n_actions - 1  # a last action crosses, by chance, into the far side
    crosses[:size, crossing] = rng.uniform(0.1, 0.9, size)
    crosses[size:] = log_uniform(rng, 0.01, 0.3)
    transition = np.zeros((n_states, n_actions, n_states))
    near = rng.dirichlet(np.full(size, 0.5), (n_states, n_actions))
    far = rng.dirichlet(np.full(size, 0.5), (n_states, n_actions))
    goes_far = np.where(is_far[:, None], 1.0 - crosses, crosses)[..., None]
    transition[:, :, :size], transition[:, :, size:] = near * (1.0 - goes_far), far * goes_far
    reward = rng.uniform(0.0, 1.0, (n_states, n_actions))
    reward[:size, crossing] += rng.uniform(0.0, 0.5)  # what leads there looks good
    worse = rng.uniform(0.5, 3.0)
    reward[size:] -= worse
    initial = np.where(is_far, 0.0, 1.0 / size)
    process = TabularMDP(transition, reward, gamma, initial)
    share = log_uniform(rng, 0.0005, 0.03)
    table = np.empty(reward.shape)
    table[:, :crossing] = (1.0 - share) * (
        rng.dirichlet(np.full(crossing, 1.0), n_states) * 0.9 + 0.1 / crossing
    )
    table[:, crossing] = share
    baseline, max_steps = TabularPolicy(table), longest_episode(rng, gamma)
    damage = np.where(is_far[:, None], 0.0, crosses)
    rate = damage_rate(process, baseline, max_steps, damage)
    range_ = declared(rng, reward.min(), reward.max())
    return Instance(process, baseline, max_steps, range_, damage_rate=rate)
