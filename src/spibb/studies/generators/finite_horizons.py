"""Processes of a fixed number of stages; the stage is part of the state."""

from __future__ import annotations

import numpy as np

from spibb.mdp.model import TabularMDP
from spibb.studies.generators.baseline_rules import habits, rule
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.parameters import chance, declared, whole


def seasonal_pricing(rng: np.random.Generator) -> Instance:
    """Draw a stock to be sold by prices before a season ends."""
    n_weeks, most, n_prices = whole(rng, 3, 9), whole(rng, 2, 5), whole(rng, 3, 8)
    price = np.linspace(rng.uniform(0.2, 0.6), rng.uniform(1.2, 2.5), n_prices)
    appetite = rng.uniform(0.6, 0.98) * rng.uniform(0.6, 1.0, n_weeks)
    sells = np.clip(appetite[:, None] * np.exp(-rng.uniform(0.3, 1.5) * price), 0.01, 0.95)
    n_states = n_weeks * most  # weeks x pieces left, 1 to most; without a piece, it is over
    transition, ending = np.zeros((n_states, n_prices, n_states)), np.zeros((n_states, n_prices))
    reward = np.empty((n_states, n_prices))
    for week in range(n_weeks):
        for left in range(1, most + 1):
            x = week * most + left - 1
            reward[x] = price * sells[week]
            after = x + most
            if week + 1 == n_weeks:
                ending[x] = 1.0
                continue
            transition[x, :, after] = 1.0 - sells[week]
            if left > 1:
                transition[x, :, after - 1] = sells[week]
            else:
                ending[x] = sells[week]
    initial = np.eye(n_states)[most - 1]
    process = TabularMDP(transition, reward, 1.0, initial, ending=ending)
    week_of = np.arange(n_states) // most
    # Sellers begin high and lower the price towards the end of the season.
    start = rng.uniform(0.3, 1.0)
    chosen = np.rint((n_prices - 1) * start * (1.0 - week_of / n_weeks)).astype(np.int64)
    range_ = declared(rng, 0.0, price.max())
    return Instance(process, rule(rng, chosen, n_prices), n_weeks, range_)


def staged_choices(rng: np.random.Generator) -> Instance:
    """Draw stages of random states, each of which leads to the next stage."""
    n_stages, width, n_actions = whole(rng, 3, 10), whole(rng, 2, 6), whole(rng, 2, 5)
    n_states = n_stages * width
    transition = np.zeros((n_states, n_actions, n_states))
    for stage in range(n_stages - 1):
        here = slice(stage * width, (stage + 1) * width)
        onward = slice((stage + 1) * width, (stage + 2) * width)
        rows = rng.dirichlet(np.full(width, 0.5), (width, n_actions))
        transition[here, :, onward] = rows
    reward = rng.normal(size=(n_states, n_actions))
    if chance(rng):  # only the last stage pays
        reward[:-width] = 0.0
    initial = np.append(rng.dirichlet(np.ones(width)), np.zeros(n_states - width))
    gamma = 1.0 if chance(rng) else rng.uniform(0.8, 1.0)
    process = TabularMDP(transition, reward, gamma, initial)
    return Instance(process, habits(rng, n_states, n_actions), n_stages)
