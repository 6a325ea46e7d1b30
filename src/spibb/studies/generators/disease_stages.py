"""Ordered stages of a disease."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.mdp.model import TabularMDP
from spibb.studies.generators.baseline_rules import experienced, rule
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
from spibb.studies.generators.transitions import ladder

Array = NDArray[np.float64]


def disease_stages(rng: np.random.Generator) -> Instance:
    """Draw stages of a disease up to death, slowed by treatments with side effects."""
    n_stages, n_actions, gamma = whole(rng, 4, 20), whole(rng, 2, 5), discount(rng, 0.9, 0.99)
    strength = np.linspace(0.0, 1.0, n_actions)
    stage = np.linspace(0.0, 1.0, n_stages)[:, None]
    worsens = rng.uniform(0.1, 0.4) * (1.0 - rng.uniform(0.3, 0.8) * strength) * (0.5 + stage)
    improves = rng.uniform(0.02, 0.3) * strength * (1.0 - 0.5 * stage)
    quality = 1.0 - rng.uniform(0.5, 1.0) * stage - rng.uniform(0.05, 0.5) * strength
    process = _with_death(worsens, improves, 0.0 * quality, quality, rng.uniform(0.0, 10.0), gamma)
    threshold = np.sort(rng.random(n_actions - 1))
    chosen = np.append((stage > threshold).sum(axis=1), 0)
    baseline = rule(rng, chosen, n_actions) if chance(rng) else experienced(rng, process)
    range_ = declared(rng, process.reward.min(), process.reward.max())
    return Instance(process, baseline, longest_episode(rng, gamma), range_)


def toxic_treatment(rng: np.random.Generator) -> Instance:
    """Draw a strong treatment that improves each stage, but now and then kills at once."""
    n_stages, n_actions, gamma = whole(rng, 4, 15), whole(rng, 3, 5), discount(rng, 0.9, 0.98)
    strength = np.linspace(0.0, 1.0, n_actions)
    stage = np.linspace(0.0, 1.0, n_stages)[:, None]
    worsens = rng.uniform(0.1, 0.3) * (1.0 - 0.7 * strength) * np.ones_like(stage)
    improves = rng.uniform(0.2, 0.5) * strength * np.ones_like(stage)
    kills = np.zeros((n_stages, n_actions))
    kills[:, -1] = log_uniform(rng, 0.002, 0.05) * rng.uniform(0.5, 2.0, n_stages)
    quality = 1.0 - stage - rng.uniform(0.0, 0.2) * strength
    process = _with_death(worsens, improves, kills, quality, rng.uniform(1.0, 20.0), gamma)
    chosen = np.append(np.rint((n_actions - 2) * stage[:, 0]), 0).astype(np.int64)
    baseline = rule(rng, chosen, n_actions, 0.02, 0.3)
    max_steps = longest_episode(rng, gamma)
    rate = damage_rate(process, baseline, max_steps, np.vstack([kills, np.zeros(n_actions)]))
    range_ = declared(rng, process.reward.min(), process.reward.max())
    return Instance(process, baseline, max_steps, range_, damage_rate=rate)


def _with_death(
    worsens: Array, improves: Array, kills: Array, quality: Array, loss: float, gamma: float
) -> TabularMDP:
    """Return stages, and death as one more state, which costs a loss and ends the episode.

    Args:
        worsens: Probability of the next stage, or of death after the last, shape (stages, actions).
        improves: Probability of the stage before.
        kills: Probability of death at once.
        quality: Reward of a stage and an action.
        loss: Cost of death.
        gamma: The discount.
    """
    n_stages, n_actions = quality.shape
    total = np.maximum(worsens + improves, 1.0)
    # A ladder of one stage more has death as its top.
    up, down = (np.vstack([part / total, np.zeros(n_actions)]) for part in (worsens, improves))
    transition = ladder(up, down)
    transition[:n_stages] *= 1.0 - kills[..., None]
    transition[:n_stages, :, n_stages] += kills
    transition[n_stages] = 0.0
    ending = np.zeros(up.shape)
    ending[n_stages] = 1.0
    reward = np.vstack([quality, np.full(n_actions, -loss)])
    initial = np.zeros(n_stages + 1)
    initial[: max(n_stages // 2, 1)] = 1.0 / max(n_stages // 2, 1)
    return TabularMDP(transition, reward, gamma, initial, ending=ending)
