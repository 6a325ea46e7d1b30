"""Corridors whose doors lead to wards."""

from __future__ import annotations

import numpy as np

from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy
from spibb.studies.generators.baseline_rules import habits, usual
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.parameters import declared, discount, log_uniform, whole


def corridors_and_wards(rng: np.random.Generator) -> Instance:
    """Draw corridors whose doors lead to others and to wards, where some patients are cured."""
    n_corridors, n_wards, n_actions = whole(rng, 6, 36), whole(rng, 3, 20), whole(rng, 2, 6)
    inside = n_corridors + n_wards
    cured, lost, n_states = inside, inside + 1, inside + 2
    transition = np.zeros((n_states, n_actions, n_states))
    door = rng.integers(inside, size=(n_corridors, n_actions))
    np.put_along_axis(transition[:n_corridors], door[..., None], 1.0, axis=2)
    slips = log_uniform(rng, 0.005, 0.2)
    transition[:n_corridors] *= 1.0 - slips
    transition[:n_corridors, :, :inside] += slips / inside
    cures = rng.uniform(0.3, 0.6) + rng.uniform(0.0, 0.2) * rng.normal(size=(n_wards, 1))
    cures = cures + rng.uniform(0.02, 0.15) * rng.normal(size=(n_wards, n_actions))
    cures = np.clip(cures, 0.02, 0.98)
    transition[n_corridors:inside, :, cured] = cures
    transition[n_corridors:inside, :, lost] = 1.0 - cures
    first = np.where(np.arange(n_states) < n_corridors, 1.0 / n_corridors, 0.0)
    is_end, entry = np.arange(n_states) >= inside, np.eye(n_states)[cured]
    process = TabularMDP(
        transition, None, discount(rng, 0.9, 0.99), first, is_end, entry_reward=entry
    )
    table = usual(rng, n_states, n_actions).probabilities.copy()
    table[:n_corridors] = habits(rng, n_corridors, n_actions).probabilities
    return Instance(process, TabularPolicy(table), whole(rng, 20, 60), declared(rng, 0.0, 1.0))


def ward_transfers(rng: np.random.Generator) -> Instance:
    """Draw wards between which patients are moved, at a price, until they recover."""
    n_wards, n_actions, gamma = whole(rng, 4, 40), whole(rng, 2, 5), discount(rng, 0.9, 0.99)
    recovers = rng.beta(1.5, 6.0, (n_wards, 1)) + 0.01
    stay = 0  # the other actions each lead to another ward
    transition = np.zeros((n_wards, n_actions, n_wards))
    transition[np.arange(n_wards), stay, np.arange(n_wards)] = 1.0
    target = rng.integers(n_wards, size=(n_wards, n_actions - 1))
    np.put_along_axis(transition[:, 1:], target[..., None], 1.0, axis=2)
    ending = np.repeat(recovers, n_actions, axis=1)
    ending[:, 1:] *= 0.3
    reward = np.full(ending.shape, -rng.uniform(0.05, 0.3)) + ending
    reward[:, 1:] -= rng.uniform(0.0, 0.5)
    process = TabularMDP(transition * (1.0 - ending[..., None]), reward, gamma, ending=ending)
    baseline = usual(rng, n_wards, n_actions, 0.4, 0.95)
    return Instance(process, baseline, whole(rng, 20, 100))
