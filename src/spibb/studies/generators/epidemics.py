"""Epidemics that measures slow down."""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

from spibb.mdp.model import TabularMDP
from spibb.studies.generators.baseline_rules import experienced, rule
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.parameters import chance, declared, discount, log_uniform, whole
from spibb.studies.generators.transitions import ladder


def outbreak(rng: np.random.Generator) -> Instance:
    """Draw an outbreak in a small group: it ends when nobody is infected any more."""
    size = whole(rng, 4, 9)
    n_actions = whole(rng, 2, 4)
    # States: infected i >= 1 and susceptible s with i + s <= size.
    states = [(i, s) for i in range(1, size + 1) for s in range(size + 1 - i)]
    place = {state: x for x, state in enumerate(states)}
    strictness = np.linspace(0.0, 1.0, n_actions)
    contact = rng.uniform(0.1, 0.5) * (1.0 - rng.uniform(0.4, 0.9) * strictness)
    heals = rng.uniform(0.2, 0.6)
    transition = np.zeros((len(states), n_actions, len(states)))
    ending = np.zeros((len(states), n_actions))
    recovered = [binom.pmf(np.arange(i + 1), i, heals) for i in range(size + 1)]
    for x, (i, s) in enumerate(states):
        for action in range(n_actions):
            caught = binom.pmf(np.arange(s + 1), s, 1.0 - (1.0 - contact[action] / 2.0) ** i)
            for new, p in enumerate(caught):
                for well, q in enumerate(recovered[i]):
                    left = i + new - well
                    if left == 0:
                        ending[x, action] += p * q
                    else:
                        transition[x, action, place[left, s - new]] += p * q
    infected = np.array([i for i, _ in states])[:, None]
    reward = -infected - rng.uniform(0.2, 3.0) * strictness
    gamma = 1.0 if chance(rng, 0.3) else discount(rng, 0.9, 0.99)
    initial = np.eye(len(states))[place[1, size - 1]]
    process = TabularMDP(transition, reward, gamma, initial, ending=ending)
    limit = whole(rng, 1, size)
    chosen = np.where(infected[:, 0] >= limit, n_actions - 1, 0)
    range_ = declared(rng, reward.min(), 0.0)
    return Instance(process, rule(rng, chosen, n_actions, 0.05, 0.5), 100, range_)


def endemic_waves(rng: np.random.Generator) -> Instance:
    """Draw a level of infection that grows the faster the higher it is, unless measures hold it."""
    n_levels, n_actions, gamma = whole(rng, 8, 40), whole(rng, 2, 5), discount(rng, 0.85, 0.98)
    level = np.linspace(0.0, 1.0, n_levels)[:, None]
    strictness = np.linspace(0.0, 1.0, n_actions)
    grows = 0.1 + rng.uniform(0.5, 1.5) * level * (1.0 - level)
    up = np.clip(grows * (1.0 - rng.uniform(0.4, 0.9) * strictness), 0.01, 0.7)
    down = np.clip(rng.uniform(0.05, 0.3) + 0.0 * up, 0.0, 0.3)
    harm = level ** rng.uniform(1.0, 3.0) * log_uniform(rng, 1.0, 5.0)
    reward = -harm - rng.uniform(0.1, 1.0) * strictness
    initial = np.append(np.full(3, 1 / 3), np.zeros(n_levels - 3))
    process = TabularMDP(ladder(up, down), reward, gamma, initial)
    limits = np.sort(rng.random(n_actions - 1))
    chosen = (level > limits).sum(axis=1)
    baseline = rule(rng, chosen, n_actions) if chance(rng) else experienced(rng, process)
    return Instance(process, baseline, whole(rng, 15, 60))
