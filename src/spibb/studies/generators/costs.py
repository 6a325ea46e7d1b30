"""Processes in which every reward is a cost."""

from __future__ import annotations

import numpy as np

from spibb.mdp.model import TabularMDP
from spibb.studies.generators.baseline_rules import experienced, habits, rule
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.parameters import (
    chance,
    declared,
    discount,
    log_uniform,
    longest_episode,
    whole,
)
from spibb.studies.generators.transitions import ladder, random_rows


def holding_costs(rng: np.random.Generator) -> Instance:
    """Draw a backlog that costs every step, and effort that costs more but clears it sooner."""
    n_states, n_actions, gamma = whole(rng, 8, 40), whole(rng, 2, 5), discount(rng)
    effort = np.linspace(0.0, 1.0, n_actions)
    arrives = rng.uniform(0.2, 0.6)
    cleared = rng.uniform(0.1, 0.3) + rng.uniform(0.2, 0.6) * effort ** rng.uniform(0.5, 1.5)
    shape = (n_states, n_actions)
    up = np.broadcast_to(arrives * (1.0 - cleared), shape)
    down = np.broadcast_to((1.0 - arrives) * cleared, shape)
    backlog = np.arange(n_states)
    reward = -log_uniform(rng, 0.02, 0.3) * backlog[:, None] - rng.uniform(0.2, 2.0) * effort
    initial = np.eye(n_states)[0]
    process = TabularMDP(ladder(up, down), reward, gamma, initial)
    steps = whole(rng, 1, 3)
    baseline = rule(rng, np.minimum(backlog // steps, n_actions - 1), n_actions)
    return Instance(process, baseline, longest_episode(rng, gamma))


def cost_routes(rng: np.random.Generator) -> Instance:
    """Draw routes of lognormal costs to a goal that ends the episode and its costs."""
    n_states, n_actions, gamma = whole(rng, 8, 40), whole(rng, 2, 6), discount(rng, 0.9, 0.99)
    transition = random_rows(rng, n_states, n_actions, whole(rng, 1, 4))
    arrival = rng.random((n_states, n_actions)) < rng.uniform(0.05, 0.2)
    ending = np.where(arrival, rng.uniform(0.3, 1.0, arrival.shape), 0.01)
    reward = -np.exp(rng.uniform(0.3, 1.2) * rng.normal(size=arrival.shape))
    process = TabularMDP(transition * (1.0 - ending[..., None]), reward, gamma, ending=ending)
    baseline = experienced(rng, process) if chance(rng) else habits(rng, n_states, n_actions)
    range_ = declared(rng, reward.min(), 0.0)
    return Instance(process, baseline, longest_episode(rng, gamma), range_)
