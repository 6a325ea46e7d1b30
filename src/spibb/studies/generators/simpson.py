"""Actions that look good or bad over all states, and are the reverse within each of them."""

from __future__ import annotations

import numpy as np

from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.parameters import chance, declared, discount, whole
from spibb.studies.generators.reward_noise import Coin


def given_to_the_severe(rng: np.random.Generator) -> Instance:
    """Draw a drug that helps in every state, but is given to severe patients, who fare worse."""
    return _by_severity(rng, effect=1.0)


def given_to_the_mild(rng: np.random.Generator) -> Instance:
    """Draw a drug that harms in every state, but is given to mild patients, who recover anyway."""
    return _by_severity(rng, effect=-1.0)


def _by_severity(rng: np.random.Generator, effect: float) -> Instance:
    n_levels, n_actions = whole(rng, 3, 12), whole(rng, 2, 4)
    severity = np.linspace(0.0, 1.0, n_levels)
    drug = n_actions - 1
    fares = rng.uniform(0.75, 0.95) - rng.uniform(0.4, 0.65) * severity
    success = np.tile(fares[:, None], (1, n_actions))
    success[:, :drug] += 0.02 * rng.normal(size=(n_levels, drug))
    success[:, drug] += effect * rng.uniform(0.03, 0.15) * rng.uniform(0.6, 1.4, n_levels)
    success = np.clip(success, 0.02, 0.98)
    # A drug that helps goes to the severe, one that harms to the mild.
    towards = severity if effect > 0.0 else 1.0 - severity
    given = np.clip(rng.uniform(0.02, 0.1) + rng.uniform(0.5, 0.8) * towards**2, 0.02, 0.9)
    table = np.empty((n_levels, n_actions))
    table[:, drug] = given
    table[:, :drug] = (1.0 - given)[:, None] * rng.dirichlet(np.full(drug, 3.0))
    initial = rng.dirichlet(np.full(n_levels, 3.0))
    noise, range_ = Coin(), declared(rng, 0.0, 1.0)
    if chance(rng):  # one visit, or several whose severity changes with success
        process = TabularMDP(np.zeros((n_levels, n_actions, n_levels)), success, 0.0, initial)
        return Instance(process, TabularPolicy(table), 1, range_, noise)
    places = np.arange(n_levels)
    transition = np.zeros((n_levels, n_actions, n_levels))
    transition[places, :, np.maximum(places - 1, 0)] += success
    transition[places, :, np.minimum(places + 1, n_levels - 1)] += 1.0 - success
    leaves = rng.uniform(0.05, 0.4)
    transition *= 1.0 - leaves
    ending = np.full(success.shape, leaves)
    gamma = discount(rng, 0.8, 0.97)
    process = TabularMDP(transition, success, gamma, initial, ending=ending)
    return Instance(process, TabularPolicy(table), whole(rng, 5, 20), range_, noise)
