"""A usual action that wins rarely, beside actions that pay little but surely."""

from __future__ import annotations

import numpy as np

from spibb.mdp.model import TabularMDP
from spibb.studies.generators.baseline_rules import usual
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.parameters import declared, discount, log_uniform, whole
from spibb.studies.generators.rare_damage import damage_rate
from spibb.studies.generators.reward_noise import Jackpots
from spibb.studies.generators.transitions import anywhere


def rare_wins_paid(rng: np.random.Generator) -> Instance:
    """Draw contexts where the usual action wins once in 50 to 200 uses, and others pay a little."""
    n_states, n_actions = whole(rng, 1, 10), whole(rng, 2, 6)
    often = log_uniform(rng, 1 / 200, 1 / 50)
    win = 1.0 / often  # so that the usual action earns about 1
    reward = np.empty((n_states, n_actions))
    reward[:, 0] = rng.uniform(0.9, 1.1, n_states)
    reward[:, 1:] = rng.uniform(0.2, 0.8, (n_states, n_actions - 1))
    transition = anywhere(rng.dirichlet(np.full(n_states, 3.0)), n_actions)
    ending = np.full(reward.shape, log_uniform(rng, 0.1, 1.0))
    process = TabularMDP(
        transition * (1.0 - ending[..., None]), reward, discount(rng, 0.8, 0.97), ending=ending
    )
    baseline, max_steps = usual(rng, n_states, n_actions, 0.5, 0.97), whole(rng, 5, 20)
    wins = np.zeros(reward.shape)
    wins[:, 0] = reward[:, 0] / win
    return Instance(
        process,
        baseline,
        max_steps,
        declared(rng, 0.0, win),
        Jackpots(win, 0.85),
        damage_rate(process, baseline, max_steps, wins),
    )


def rare_wins_reached(rng: np.random.Generator) -> Instance:
    """Draw a process where the usual action rarely reaches a state that pays a great win."""
    n_places, n_actions = whole(rng, 3, 20), whole(rng, 2, 5)
    small, great, n_states = n_places, n_places + 1, n_places + 2
    transition = np.zeros((n_states, n_actions, n_states))
    often = log_uniform(rng, 1 / 200, 1 / 50)
    moves = rng.dirichlet(np.full(n_places, 0.5), (n_places, n_actions))
    # The other actions reach the small win more often than the usual one reaches the great win.
    sure = rng.uniform(0.1, 0.4, (n_places, n_actions))
    sure[:, 0] = 0.0
    transition[:n_places, :, :n_places] = moves * (1.0 - sure[..., None])
    transition[:n_places, :, small] = sure
    transition[:n_places, 0, :n_places] *= 1.0 - often
    transition[:n_places, 0, great] = often
    back = np.append(rng.dirichlet(np.ones(n_places)), [0.0, 0.0])
    transition[small], transition[great] = back, back
    win = 1.0 / often
    entry = np.zeros(n_states)
    entry[great], entry[small] = win, rng.uniform(0.2, 0.8) / sure[:, 1:].mean()
    gamma = discount(rng, 0.8, 0.97)
    initial = np.append(np.full(n_places, 1.0 / n_places), [0.0, 0.0])
    process = TabularMDP(transition, None, gamma, initial, entry_reward=entry)
    baseline, max_steps = usual(rng, n_states, n_actions, 0.5, 0.97), whole(rng, 5, 30)
    rate = damage_rate(process, baseline, max_steps, transition[..., great])
    return Instance(process, baseline, max_steps, declared(rng, 0.0, win), damage_rate=rate)
