"""Actions that look good for some steps, and do harm later."""

from __future__ import annotations

import numpy as np

from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy
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


def stimulant(rng: np.random.Generator) -> Instance:
    """Draw a stimulant that pays more at each use, until a number of uses ruins for long."""
    n_uses, gamma = whole(rng, 2, 8), discount(rng, 0.85, 0.98)
    ruin, n_states = n_uses, n_uses + 1
    plain, boost, rest = 0, 1, 2
    n_actions = whole(rng, 2, 3)
    recovers, forgets = log_uniform(rng, 0.003, 0.1), rng.uniform(0.05, 0.5)
    transition = np.zeros((n_states, n_actions, n_states))
    for x in range(n_uses):
        lower = max(x - 1, 0)
        transition[x, plain, lower] += forgets
        transition[x, plain, x] += 1.0 - forgets
        transition[x, boost, x + 1] = 1.0
        if n_actions > 2:
            transition[x, rest, lower] = 1.0
    transition[ruin, :, 0], transition[ruin, :, ruin] = recovers, 1.0 - recovers
    cost, premium = rng.uniform(0.5, 3.0), rng.uniform(0.1, 0.8)
    reward = np.tile(np.array([1.0, 1.0 + premium, rng.uniform(0.3, 0.9)])[:n_actions], (n_uses, 1))
    reward = np.vstack([reward, np.full(n_actions, -cost)])
    process = TabularMDP(transition, reward, gamma, np.eye(n_states)[0])
    # Users grow careful: the share of the stimulant falls with its uses.
    first, fall = rng.uniform(0.2, 0.6), rng.uniform(0.6, 1.0)
    boosts = first * fall ** np.arange(n_states)
    rests = rng.uniform(0.05, 0.3) if n_actions > 2 else 0.0
    table = np.zeros((n_states, n_actions))
    table[:, boost] = boosts
    table[:, plain] = (1.0 - boosts) * (1.0 - rests)
    if n_actions > 2:
        table[:, rest] = (1.0 - boosts) * rests
    baseline, max_steps = TabularPolicy(table), longest_episode(rng, gamma)
    rate = damage_rate(process, baseline, max_steps, transition[..., ruin] * (reward > 0.0))
    return Instance(
        process, baseline, max_steps, declared(rng, -cost, 1.0 + premium), damage_rate=rate
    )


def dose_toxicity(rng: np.random.Generator) -> Instance:
    """Draw doses that help more the higher they are, while toxicity accumulates up to a crisis."""
    n_levels, n_doses, gamma = whole(rng, 4, 10), whole(rng, 3, 5), discount(rng, 0.85, 0.98)
    crisis, n_states = n_levels, n_levels + 1  # beyond the last level, the treatment ends
    dose = np.linspace(0.0, 1.0, n_doses)
    rises, falls = rng.uniform(0.4, 0.9) * dose, rng.uniform(0.1, 0.5) * (1.0 - 0.8 * dose)
    total = np.maximum(rises + falls, 1.0)
    rises, falls = rises / total, falls / total
    transition, ending = np.zeros((n_states, n_doses, n_states)), np.zeros((n_states, n_doses))
    ending[crisis] = 1.0
    for x in range(n_levels):
        transition[x, :, x + 1] += rises
        transition[x, :, max(x - 1, 0)] += falls
        transition[x, :, x] += 1.0 - rises - falls
    shape = rng.uniform(0.4, 1.2)
    loss = rng.uniform(3.0, 20.0)
    reward = np.vstack([np.tile(dose**shape, (n_levels, 1)), np.full(n_doses, -loss)])
    process = TabularMDP(transition, reward, gamma, np.eye(n_states)[0], ending=ending)
    level = np.arange(n_states) / n_levels
    chosen = np.rint((n_doses - 1) * np.clip(rng.uniform(0.6, 1.6) - level, 0.0, 1.0))
    baseline = rule(rng, chosen.astype(np.int64), n_doses, 0.05, 0.4)
    max_steps = longest_episode(rng, gamma)
    rate = damage_rate(process, baseline, max_steps, transition[..., crisis])
    range_ = declared(rng, -loss, 1.0)
    return Instance(process, baseline, max_steps, range_, damage_rate=rate)


def late_reckoning(rng: np.random.Generator) -> Instance:
    """Draw offers that each pay for some steps, the best paid of which sometimes ends in ruin."""
    n_offers, gamma = whole(rng, 2, 6), discount(rng, 0.9, 0.99)
    length = whole(rng, 3, min(12, 55 // n_offers))
    ruin, n_states = 1 + n_offers * length, 2 + n_offers * length
    transition = np.zeros((n_states, n_offers, n_states))
    reward = np.zeros((n_states, n_offers))
    pays = rng.uniform(0.2, 1.0, n_offers)
    bad = 0  # the offer that ends in ruin pays best
    pays[bad] = 1.0 + rng.uniform(0.1, 0.5)
    ruins, cost = log_uniform(rng, 0.02, 0.6), rng.uniform(0.5, 2.0)
    leaves = log_uniform(rng, 0.005, 0.1)
    for offer in range(n_offers):
        first = 1 + offer * length
        transition[0, offer, first] = 1.0
        reward[first : first + length] = pays[offer]
        for x in range(first, first + length - 1):
            transition[x, :, x + 1] = 1.0
        last = first + length - 1
        transition[last, :, 0] = 1.0 - (ruins if offer == bad else 0.0)
        transition[last, :, ruin] = ruins if offer == bad else 0.0
    transition[ruin, :, 0], transition[ruin, :, ruin], reward[ruin] = leaves, 1.0 - leaves, -cost
    process = TabularMDP(transition, reward, gamma, np.eye(n_states)[0])
    table = np.full((n_states, n_offers), 1.0 / n_offers)
    share = log_uniform(rng, 0.01, 0.3)
    table[0, bad] = share
    table[0, 1:] = (1.0 - share) * rng.dirichlet(np.full(n_offers - 1, 2.0))
    baseline = TabularPolicy(table)
    max_steps = int(min(100, rng.uniform(1.5, 6.0) * (length + 1)))
    enters = np.zeros(reward.shape)
    enters[length * (bad + 1)] = ruins
    rate = damage_rate(process, baseline, max_steps, enters)
    return Instance(process, baseline, max_steps, declared(rng, -cost, pays[bad]), damage_rate=rate)
