"""Machines that wear: maintenance and replacement."""

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
from spibb.studies.generators.rare_damage import damage_rate

_KEEP, _SERVICE, _RENEW = 0, 1, 2


def machine_maintenance(rng: np.random.Generator) -> Instance:
    """Draw a machine that wears, may be serviced, and breaks down ever more often."""
    n_wear, gamma = whole(rng, 5, 30), discount(rng, 0.85, 0.99)
    n_actions = whole(rng, 2, 3)
    wear = np.linspace(0.0, 1.0, n_wear)
    broken, n_states = n_wear, n_wear + 1
    breaks = log_uniform(rng, 0.005, 0.05) + rng.uniform(0.05, 0.5) * wear ** rng.uniform(1.0, 4.0)
    worn = rng.uniform(0.2, 0.8)
    repaired = rng.uniform(0.2, 0.9, n_actions)
    transition = np.zeros((n_states, n_actions, n_states))
    fix = [0, whole(rng, 1, n_wear - 1), n_wear]  # levels of wear that an action takes away
    for x in range(n_wear):
        for action in range(n_actions):
            left = max(x - fix[action], 0)
            fails = breaks[left]
            transition[x, action, broken] += fails
            transition[x, action, min(left + 1, n_wear - 1)] += (1.0 - fails) * worn
            transition[x, action, left] += (1.0 - fails) * (1.0 - worn)
    transition[broken, :, 0], transition[broken, :, broken] = repaired, 1.0 - repaired
    price = np.array([0.0, rng.uniform(0.1, 1.0), rng.uniform(0.8, 3.0)])[:n_actions]
    down = log_uniform(rng, 2.0, 20.0)
    reward = np.vstack([1.0 - 0.5 * wear[:, None] - price, np.tile(-down - price, (1, 1))])
    process = TabularMDP(transition, reward, gamma, np.eye(n_states)[0])
    serviced = rng.uniform(0.2, 0.95)
    chosen = np.where(np.append(wear, 1.0) > serviced, n_actions - 1, _KEEP)
    baseline, max_steps = rule(rng, chosen, n_actions, 0.02, 0.3), longest_episode(rng, gamma)
    rate = damage_rate(process, baseline, max_steps, transition[..., broken])
    range_ = declared(rng, reward.min(), 1.0)
    return Instance(process, baseline, max_steps, range_, damage_rate=rate)


def two_parts(rng: np.random.Generator) -> Instance:
    """Draw a machine of two parts, each of which wears and is replaced on its own, or with both."""
    n_wear, gamma = whole(rng, 3, 7), discount(rng, 0.85, 0.98)
    n_states, n_actions = n_wear**2, 4  # keep, first part, second part, both
    worn = rng.uniform(0.1, 0.6, 2)
    transition = np.zeros((n_states, n_actions, n_states))
    reward = np.empty((n_states, n_actions))
    setup, price = rng.uniform(0.0, 1.0), rng.uniform(0.3, 2.0, 2)
    fails = log_uniform(rng, 2.0, 10.0)  # cost of a part at the end of its life
    for x in range(n_states):
        levels = np.array(divmod(x, n_wear))
        for action in range(n_actions):
            renewed = np.array([action & 1, action >> 1])
            kept = levels * (1 - renewed)
            reward[x, action] = -(setup if action else 0.0) - (price * renewed).sum()
            reward[x, action] -= fails * (kept == n_wear - 1).sum() + 0.1 * kept.sum()
            for new in np.ndindex(2, 2):
                weight = np.prod(np.where(np.array(new) > 0, worn, 1.0 - worn))
                then = np.minimum(kept + new, n_wear - 1)
                transition[x, action, then[0] * n_wear + then[1]] += weight
    process = TabularMDP(transition, reward, gamma, np.eye(n_states)[0])
    limit = whole(rng, 1, n_wear - 1)
    first, second = np.divmod(np.arange(n_states), n_wear)
    chosen = (first >= limit).astype(np.int64) + 2 * (second >= limit)
    baseline = rule(rng, chosen, n_actions, 0.03, 0.4)
    return Instance(process, baseline, longest_episode(rng, gamma))


def machine_replacement(rng: np.random.Generator) -> Instance:
    """Draw a machine whose running costs rise with its age, until it is replaced at a price."""
    n_ages, n_actions, gamma = whole(rng, 6, 50), whole(rng, 2, 4), discount(rng, 0.85, 0.99)
    age = np.arange(n_ages)
    runs = rng.uniform(0.1, 0.5) + rng.uniform(0.5, 3.0) * (age / n_ages) ** rng.uniform(1.0, 3.0)
    transition = np.zeros((n_ages, n_actions, n_ages))
    ages = rng.uniform(0.3, 1.0)
    transition[age, _KEEP, np.minimum(age + 1, n_ages - 1)] += ages
    transition[age, _KEEP, age] += 1.0 - ages
    reward = np.empty((n_ages, n_actions))
    reward[:, _KEEP] = -runs
    # Machines on offer: the cheaper, the older.
    price = np.sort(rng.uniform(1.0, 8.0, n_actions - 1))[::-1]
    resale = rng.uniform(0.0, 0.5) * np.exp(-age / rng.uniform(2.0, 10.0)) * price[0]
    for offer in range(n_actions - 1):
        bought = min(offer * whole(rng, 1, 3), n_ages - 1)
        transition[:, 1 + offer, bought] = 1.0
        reward[:, 1 + offer] = -price[offer] + resale - runs[bought]
    process = TabularMDP(transition, reward, gamma, np.eye(n_ages)[0])
    chosen = np.where(age >= rng.uniform(0.1, 1.0) * n_ages, whole(rng, 1, n_actions - 1), _KEEP)
    baseline = rule(rng, chosen, n_actions, 0.03, 0.4)
    range_ = declared(rng, reward.min(), max(reward.max(), 0.0))
    return Instance(process, baseline, longest_episode(rng, gamma), range_)
