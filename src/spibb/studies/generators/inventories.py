"""Stocks that are ordered for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

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

Array = NDArray[np.float64]


def stock_orders(rng: np.random.Generator) -> Instance:
    """Draw a stock that orders fill and a random demand empties; waiting customers cost."""
    least, most, gamma = -whole(rng, 3, 12), whole(rng, 8, 30), discount(rng, 0.85, 0.98)
    order = np.unique(np.rint(np.linspace(0, whole(rng, 4, 10), whole(rng, 3, 5))).astype(int))
    demand = _demand(rng, 8)
    n_states = most - least + 1
    stock = np.arange(least, most + 1)
    rows, columns = np.ix_(np.arange(n_states), np.arange(len(order)))
    transition = np.zeros((n_states, len(order), n_states))
    for asked, p in enumerate(demand):
        left = np.maximum(np.minimum(stock[:, None] + order, most) - asked, least)
        np.add.at(transition, (rows, columns, left - least), p)
    holding, waiting = log_uniform(rng, 0.02, 0.3), log_uniform(rng, 0.3, 3.0)
    kept = holding * np.maximum(stock, 0) + waiting * np.maximum(-stock, 0)
    price = np.where(order > 0, rng.uniform(0.0, 1.5) + rng.uniform(0.05, 0.3) * order, 0.0)
    reward = -kept[:, None] - price
    process = TabularMDP(transition, reward, gamma, np.eye(n_states)[whole(rng, 0, most) - least])
    up_to = rng.uniform(0.1, 0.6) * most
    chosen = np.abs(order - np.maximum(up_to - stock, 0.0)[:, None]).argmin(axis=1)
    baseline = rule(rng, chosen, len(order), 0.02, 0.4)
    range_ = declared(rng, reward.min(), 0.0)
    return Instance(process, baseline, longest_episode(rng, gamma), range_)


def perishable_stock(rng: np.random.Generator) -> Instance:
    """Draw a stock that sells at a profit, and part of which spoils every night."""
    most, gamma = whole(rng, 6, 25), discount(rng, 0.8, 0.97)
    n_states, n_actions = most + 1, whole(rng, 3, 6)
    order = np.unique(np.rint(np.linspace(0, most * rng.uniform(0.3, 0.8), n_actions)).astype(int))
    demand, spoils = _demand(rng, max(most // 2, 3)), rng.uniform(0.02, 0.4)
    cost, price = rng.uniform(0.3, 0.8), 1.0
    transition = np.zeros((n_states, len(order), n_states))
    reward = np.zeros((n_states, len(order)))
    stays = [binom.pmf(np.arange(left + 1), left, 1.0 - spoils) for left in range(n_states)]
    for x in range(n_states):
        for a, bought in enumerate(order):
            filled = min(x + int(bought), most)
            reward[x, a] = -cost * (filled - x) - 0.02 * x
            for asked, p in enumerate(demand):
                sold = min(asked, filled)
                reward[x, a] += p * price * sold
                left = filled - sold
                transition[x, a, : left + 1] += p * stays[left]
    transition /= transition.sum(axis=2, keepdims=True)
    process = TabularMDP(transition, reward, gamma, np.eye(n_states)[0])
    up_to = rng.uniform(0.1, 0.9) * most
    stock = np.arange(n_states)
    chosen = np.abs(order - np.maximum(up_to - stock, 0.0)[:, None]).argmin(axis=1)
    baseline = rule(rng, chosen, len(order), 0.02, 0.4)
    return Instance(process, baseline, longest_episode(rng, gamma))


def _demand(rng: np.random.Generator, most: int) -> Array:
    demand = np.asarray(binom.pmf(np.arange(most + 1), most, rng.uniform(0.2, 0.7)))
    return np.asarray(demand / demand.sum())
