"""Queues whose service is chosen."""

from __future__ import annotations

import numpy as np

from spibb.mdp.model import TabularMDP
from spibb.studies.generators.baseline_rules import rule
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.parameters import (
    declared,
    discount,
    log_uniform,
    longest_episode,
    whole,
)
from spibb.studies.generators.transitions import ladder


def queue_speeds(rng: np.random.Generator) -> Instance:
    """Draw a queue whose server has several speeds, the faster the more expensive."""
    n_states, n_actions, gamma = whole(rng, 8, 50), whole(rng, 2, 6), discount(rng, 0.85, 0.99)
    served = np.sort(rng.uniform(0.2, 0.9, n_actions))
    price = np.sort(rng.uniform(0.0, 2.0, n_actions))
    arrives = rng.uniform(0.2, 0.7)
    waiting = np.arange(n_states)
    leaves = np.where(waiting[:, None] > 0, served, 0.0)
    enters = np.where(waiting[:, None] < n_states - 1, arrives, 0.0)
    transition = ladder(enters * (1.0 - leaves), leaves * (1.0 - enters))
    lost = rng.uniform(0.0, 5.0) * arrives * (waiting[:, None] == n_states - 1)
    reward = -log_uniform(rng, 0.02, 0.5) * waiting[:, None] - price - lost
    process = TabularMDP(transition, reward, gamma, np.eye(n_states)[0])
    chosen = np.minimum(waiting // whole(rng, 1, 6), n_actions - 1)
    baseline = rule(rng, chosen, n_actions, 0.02, 0.4)
    range_ = declared(rng, reward.min(), 0.0)
    return Instance(process, baseline, longest_episode(rng, gamma), range_)


def queue_two_lines(rng: np.random.Generator) -> Instance:
    """Draw two lines with one server, which takes the first of one of them."""
    most, gamma = whole(rng, 3, 6), discount(rng, 0.85, 0.98)
    n_lengths = most + 1
    n_states = n_lengths**2
    arrives, served = rng.uniform(0.1, 0.5, 2), rng.uniform(0.4, 0.95, 2)
    transition = np.zeros((n_states, 2, n_states))
    reward = np.empty((n_states, 2))
    cost = rng.uniform(0.1, 1.0, 2)
    for x in range(n_states):
        lengths = np.array(divmod(x, n_lengths))
        reward[x] = -(cost * lengths).sum()
        for action in range(2):
            done = served[action] if lengths[action] > 0 else 0.0
            for is_done, p in ((0, 1.0 - done), (1, done)):
                left = lengths - is_done * np.eye(2, dtype=np.int64)[action]
                for new in np.ndindex(2, 2):
                    weight = p * np.prod(np.where(np.array(new) > 0, arrives, 1.0 - arrives))
                    then = np.minimum(left + new, most)
                    transition[x, action, then[0] * n_lengths + then[1]] += weight
    process = TabularMDP(transition, reward, gamma, np.eye(n_states)[0])
    first, second = np.divmod(np.arange(n_states), n_lengths)
    chosen = np.where(second > first, 1, 0)  # the longer line
    baseline = rule(rng, chosen, 2, 0.05, 0.6)
    return Instance(process, baseline, longest_episode(rng, gamma))
