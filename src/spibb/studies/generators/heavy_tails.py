"""Rewards and costs with heavy tails."""

from __future__ import annotations

import numpy as np

from spibb.mdp.model import TabularMDP
from spibb.studies.generators.baseline_rules import experienced, habits, usual
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.parameters import (
    chance,
    declared,
    discount,
    log_uniform,
    longest_episode,
    whole,
)
from spibb.studies.generators.reward_noise import LognormalFactor, ParetoFactor, StudentNoise
from spibb.studies.generators.transitions import random_rows


def lognormal_rewards(rng: np.random.Generator) -> Instance:
    """Draw a random process whose observed rewards are lognormal."""
    n_states, n_actions, gamma = whole(rng, 2, 30), whole(rng, 2, 6), discount(rng)
    transition = random_rows(rng, n_states, n_actions, whole(rng, 1, 5))
    reward = np.exp(rng.uniform(0.1, 0.5) * rng.normal(size=(n_states, n_actions)))
    process = TabularMDP(transition, reward, gamma)
    baseline = habits(rng, n_states, n_actions)
    noise = LognormalFactor(rng.uniform(0.7, 2.0))
    return Instance(process, baseline, longest_episode(rng, gamma), noise=noise)


def pareto_claims(rng: np.random.Generator) -> Instance:
    """Draw tariffs of customers, whose claims are Pareto costs."""
    n_states, n_actions = whole(rng, 2, 20), whole(rng, 2, 5)
    gamma = discount(rng, 0.8, 0.95)
    claims = np.exp(0.4 * rng.normal(size=(n_states, 1)) + 0.2 * rng.normal(size=(1, n_actions)))
    cost = -claims * np.exp(0.15 * rng.normal(size=(n_states, n_actions)))
    stays = 1.0 - log_uniform(rng, 0.05, 0.5)
    transition = random_rows(rng, n_states, n_actions, 3) * stays
    ending = np.full(cost.shape, 1.0 - stays)
    process = TabularMDP(transition, cost, gamma, ending=ending)
    baseline = usual(rng, n_states, n_actions)
    noise = ParetoFactor(rng.uniform(2.1, 3.5))
    return Instance(process, baseline, whole(rng, 5, 30), noise=noise)


def lognormal_means(rng: np.random.Generator) -> Instance:
    """Draw a random process whose mean rewards are lognormal, so that few pairs matter."""
    n_states, n_actions, gamma = whole(rng, 5, 40), whole(rng, 2, 8), discount(rng)
    transition = random_rows(rng, n_states, n_actions, whole(rng, 2, 6))
    reward = np.exp(rng.uniform(1.0, 2.0) * rng.normal(size=(n_states, n_actions)))
    if chance(rng):
        reward = -reward
    process = TabularMDP(transition, reward, gamma)
    baseline = experienced(rng, process) if chance(rng) else habits(rng, n_states, n_actions)
    range_ = declared(rng, reward.min(), reward.max())
    return Instance(process, baseline, longest_episode(rng, gamma), range_)


def student_noise(rng: np.random.Generator) -> Instance:
    """Draw a random process whose rewards have Student noise of two to four degrees of freedom."""
    n_states, n_actions, gamma = whole(rng, 3, 30), whole(rng, 2, 6), discount(rng)
    transition = random_rows(rng, n_states, n_actions, whole(rng, 1, 5))
    reward = rng.normal(size=(n_states, n_actions))
    process = TabularMDP(transition, reward, gamma)
    baseline = habits(rng, n_states, n_actions)
    noise = StudentNoise(rng.uniform(0.3, 1.5), rng.uniform(2.1, 4.0))
    return Instance(process, baseline, longest_episode(rng, gamma), noise=noise)
