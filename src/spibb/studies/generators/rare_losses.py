"""Actions that look better than others, but for rare large losses."""

from __future__ import annotations

import numpy as np

from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy
from spibb.studies.generators.baseline_rules import habits, usual
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.parameters import (
    chance,
    declared,
    discount,
    log_uniform,
    longest_episode,
    whole,
)
from spibb.studies.generators.rare_damage import damage_rate
from spibb.studies.generators.reward_noise import RareLosses
from spibb.studies.generators.transitions import anywhere, random_rows


def rare_losses_paid(rng: np.random.Generator) -> Instance:
    """Draw contexts where riskier actions pay a little more, and rarely lose a great deal."""
    n_states, n_actions = whole(rng, 1, 12), whole(rng, 2, 6)
    loss = log_uniform(rng, 10.0, 100.0)
    noise = RareLosses(plain=1.0, loss=loss, premium=loss * rng.uniform(0.1, 0.5))
    # The usual action is the safest; that of the others loses about as much as it pays.
    probability = rng.uniform(0.2, 1.5, (n_states, n_actions)) / loss
    probability[:, 0] = rng.uniform(0.0, 0.2, n_states) / loss
    reward = noise.mean(probability)
    transition = anywhere(rng.dirichlet(np.full(n_states, 3.0)), n_actions)
    ending = np.full(reward.shape, log_uniform(rng, 0.05, 1.0))
    process = TabularMDP(
        transition * (1.0 - ending[..., None]), reward, discount(rng, 0.8, 0.97), ending=ending
    )
    baseline, max_steps = usual(rng, n_states, n_actions, 0.5, 0.97), whole(rng, 5, 30)
    # Rewards follow from means, up to rounding.
    lowest, highest = 1.0 - loss, 1.0 + noise.premium * probability.max() + 1e-9
    return Instance(
        process,
        baseline,
        max_steps,
        declared(rng, lowest, highest),
        noise,
        damage_rate(process, baseline, max_steps, probability),
    )


def rare_losses_reached(rng: np.random.Generator) -> Instance:
    """Draw a random process where fast actions pay more and rarely lead to a costly accident."""
    n_places, n_actions, gamma = whole(rng, 5, 40), whole(rng, 2, 5), discount(rng, 0.8, 0.98)
    accident, n_states = n_places, n_places + 1
    loss = log_uniform(rng, 10.0, 100.0)
    speed = np.linspace(0.0, 1.0, n_actions)
    risk = np.clip(speed * rng.uniform(0.1, 2.5, (n_places, 1)) / loss, 0.0, 0.2)
    transition = np.zeros((n_states, n_actions, n_states))
    moves = random_rows(rng, n_places, n_actions, whole(rng, 2, 5))
    transition[:n_places, :, :n_places] = moves * (1.0 - risk[..., None])
    transition[:n_places, :, accident] = risk
    # Rewards of entered places are logged; faster actions reach better places.
    entry = np.append(rng.uniform(0.0, 1.0, n_places), -loss)
    best = np.argsort(entry[:n_places])[-max(n_places // 4, 1) :]
    for x in range(n_places):
        pull = 0.5 * speed[:, None] * (1.0 - risk[x])[:, None]
        transition[x, :, :n_places] *= 1.0 - 0.5 * speed[:, None]
        transition[x, :, best] += (pull / len(best)).T
    transition[accident, :, :n_places] = 1.0 / n_places
    initial = np.append(np.full(n_places, 1.0 / n_places), 0.0)
    process = TabularMDP(transition, None, gamma, initial, entry_reward=entry)
    table = habits(rng, n_states, n_actions).probabilities * np.exp(-rng.uniform(0, 4) * speed)
    baseline = TabularPolicy(table / table.sum(axis=1, keepdims=True))
    max_steps = longest_episode(rng, gamma)
    rate = damage_rate(process, baseline, max_steps, transition[..., accident])
    return Instance(process, baseline, max_steps, declared(rng, -loss, 1.0), damage_rate=rate)


def one_bad_batch(rng: np.random.Generator) -> Instance:
    """Draw suppliers of which the cheapest, rarely used, delivers a ruinous batch now and then."""
    n_suppliers, gamma = whole(rng, 3, 8), discount(rng, 0.8, 0.97)
    fine, ruined = 0, 1
    is_one_step = chance(rng, 0.3)
    bad = rng.uniform(0.0, 0.002, n_suppliers)
    saving = rng.uniform(0.0, 0.3, n_suppliers)
    cheapest = n_suppliers - 1
    loss = log_uniform(rng, 10.0, 60.0)
    saving[cheapest] = rng.uniform(0.4, 0.8)
    bad[cheapest] = rng.uniform(1.2, 4.0) * saving[cheapest] / loss
    transition = np.zeros((2, n_suppliers, 2))
    transition[fine, :, ruined], transition[fine, :, fine] = bad, 1.0 - bad
    reward = np.vstack([1.0 + saving, np.full(n_suppliers, -loss)])
    ending = np.zeros((2, n_suppliers))
    ending[ruined] = 1.0
    if is_one_step:  # an order is an episode
        ending[fine] = 1.0 - bad
        transition[fine, :, fine] = 0.0
    process = TabularMDP(transition, reward, gamma, np.array([1.0, 0.0]), ending=ending)
    table = np.tile(rng.dirichlet(np.full(n_suppliers, 2.0)), (2, 1))
    share = log_uniform(rng, 0.01, 0.2)
    table[:, cheapest] = 0.0
    table *= (1.0 - share) / table.sum(axis=1, keepdims=True)
    table[:, cheapest] = share
    baseline, max_steps = TabularPolicy(table), whole(rng, 5, 40)
    shown = np.zeros(reward.shape)
    shown[fine, cheapest] = bad[cheapest]
    rate = damage_rate(process, baseline, max_steps, shown)
    return Instance(
        process, baseline, max_steps, declared(rng, -loss, reward.max()), damage_rate=rate
    )
