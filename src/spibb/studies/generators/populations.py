"""Separate populations that do not mix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy
from spibb.studies.generators.baseline_rules import usual
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.parameters import (
    declared,
    discount,
    log_uniform,
    longest_episode,
    whole,
)
from spibb.studies.generators.transitions import ladder

Array = NDArray[np.float64]


def patients_of_kinds(rng: np.random.Generator) -> Instance:
    """Draw patients of several kinds, each of which another drug helps best."""
    n_kinds, n_levels, n_drugs = whole(rng, 2, 8), whole(rng, 3, 7), whole(rng, 2, 5)
    gamma = discount(rng, 0.85, 0.98)
    helps = rng.uniform(0.05, 0.3, (n_kinds, n_drugs))
    helps[np.arange(n_kinds), rng.integers(n_drugs, size=n_kinds)] += rng.uniform(0.15, 0.5)
    shares = rng.dirichlet(np.full(n_kinds, 1.5))
    process = _kinds(rng, helps, shares, n_levels, gamma)
    baseline = usual(rng, process.n_states, n_drugs, 0.3, 0.9)
    return Instance(process, baseline, longest_episode(rng, gamma))


def a_rare_kind(rng: np.random.Generator) -> Instance:
    """Draw a rare kind of patients whom the drug that is best for all others harms."""
    n_levels, n_drugs, gamma = whole(rng, 3, 10), whole(rng, 2, 5), discount(rng, 0.85, 0.98)
    rare = log_uniform(rng, 0.01, 0.15)
    helps = rng.uniform(0.15, 0.35, (2, n_drugs))
    new = n_drugs - 1
    helps[0, new] += rng.uniform(0.1, 0.3)
    helps[1, new] = rng.uniform(0.0, 0.05)
    process = _kinds(rng, helps, np.array([1.0 - rare, rare]), n_levels, gamma)
    baseline = usual(rng, process.n_states, n_drugs, 0.6, 0.95)
    return Instance(process, baseline, longest_episode(rng, gamma))


def schools(rng: np.random.Generator) -> Instance:
    """Draw schools that are processes of their own, with habits of their own."""
    n_schools, n_states = whole(rng, 2, 6), whole(rng, 3, 10)
    n_actions, gamma = whole(rng, 2, 5), discount(rng)
    total = n_schools * n_states
    transition = np.zeros((total, n_actions, total))
    reward = np.empty((total, n_actions))
    table = np.empty((total, n_actions))
    spread = rng.uniform(0.2, 1.0)
    for school in range(n_schools):
        own = slice(school * n_states, (school + 1) * n_states)
        transition[own, :, own] = rng.dirichlet(np.full(n_states, 0.5), (n_states, n_actions))
        action_effect = spread * rng.normal(size=n_actions)
        reward[own] = rng.normal() + action_effect + 0.3 * rng.normal(size=(n_states, n_actions))
        table[own] = rng.dirichlet(np.full(n_actions, 0.7)) * 0.95 + 0.05 / n_actions
    initial = np.repeat(rng.dirichlet(np.full(n_schools, 1.0)), n_states) / n_states
    process = TabularMDP(transition, reward, gamma, initial)
    range_ = declared(rng, reward.min(), reward.max())
    return Instance(process, TabularPolicy(table), longest_episode(rng, gamma), range_)


def _kinds(
    rng: np.random.Generator, helps: Array, shares: Array, n_levels: int, gamma: float
) -> TabularMDP:
    """Return levels of disease of each kind: level 0 is health and ends, each other level costs."""
    n_kinds, n_drugs = helps.shape
    total = n_kinds * n_levels
    transition, ending = np.zeros((total, n_drugs, total)), np.zeros((total, n_drugs))
    reward = np.zeros((total, n_drugs))
    worsens = rng.uniform(0.05, 0.4, (n_kinds, 1))
    initial = np.zeros(total)
    for kind in range(n_kinds):
        own = slice(kind * n_levels, (kind + 1) * n_levels)
        down = np.broadcast_to(helps[kind], (n_levels, n_drugs))
        up = worsens[kind] * (1.0 - down)
        within = ladder(up, down)
        first = kind * n_levels
        ending[first] = helps[kind]
        within[0, :, 0] -= helps[kind]
        transition[own, :, own] = within
        reward[own] = -(1.0 + np.arange(n_levels)[:, None]) / n_levels
        initial[own] = shares[kind] / n_levels
    return TabularMDP(np.maximum(transition, 0.0), reward, gamma, initial, ending=ending)
