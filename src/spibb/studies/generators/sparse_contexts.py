"""Contextual bandits of two arms whose contexts are mostly rare."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.parameters import declared, log_uniform, whole
from spibb.studies.generators.reward_noise import Blur, Coin

Array = NDArray[np.float64]


def sparse_contexts(rng: np.random.Generator) -> Instance:
    """Draw two arms and many contexts, of which a few make up most of the visits."""
    n_contexts = whole(rng, 20, 60)
    successes = rng.uniform(0.2, 0.8, (n_contexts, 1)) + np.array([0.0, 1.0]) * (
        rng.normal(0.0, 0.1) + rng.uniform(0.05, 0.25) * rng.normal(size=(n_contexts, 1))
    )
    process = _bandit(rng, np.clip(successes, 0.02, 0.98))
    share = log_uniform(rng, 0.02, 0.5)
    table = np.tile([1.0 - share, share], (n_contexts, 1))
    return Instance(process, TabularPolicy(table), 1, declared(rng, 0.0, 1.0), Coin())


def sparse_contexts_by_rule(rng: np.random.Generator) -> Instance:
    """Draw two arms and many contexts, each of which has a usual arm of its own."""
    n_contexts = whole(rng, 20, 60)
    reward = rng.normal(size=(n_contexts, 1)) + rng.uniform(0.1, 0.6) * rng.normal(
        size=(n_contexts, 2)
    )
    process = _bandit(rng, reward)
    share = log_uniform(rng, 0.02, 0.4)
    # The usual arm is right in most contexts.
    right = reward.argmax(axis=1)
    wrong = rng.random(n_contexts) < rng.uniform(0.1, 0.5)
    usual_arm = np.where(wrong, 1 - right, right)
    table = np.full((n_contexts, 2), share)
    table[np.arange(n_contexts), usual_arm] = 1.0 - share
    return Instance(process, TabularPolicy(table), 1, noise=Blur(rng.uniform(0.1, 1.0)))


def _bandit(rng: np.random.Generator, reward: Array) -> TabularMDP:
    weight = (1.0 + np.arange(len(reward))) ** -rng.uniform(0.8, 2.0)
    nowhere = np.zeros((len(reward), 2, len(reward)))
    return TabularMDP(nowhere, reward, 0.0, weight / weight.sum())
