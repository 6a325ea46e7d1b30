"""Bandits with small click rates."""

from __future__ import annotations

import numpy as np

from spibb.mdp.model import TabularMDP
from spibb.studies.generators.baseline_rules import habits, usual
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.parameters import declared, discount, log_uniform, whole
from spibb.studies.generators.reward_noise import Coin
from spibb.studies.generators.transitions import anywhere


def click_banners(rng: np.random.Generator) -> Instance:
    """Draw banners of one page, or of a few pages, with about one click in a hundred visits."""
    n_pages, n_banners = whole(rng, 1, 10), whole(rng, 2, 12)
    rate = log_uniform(rng, 0.003, 0.05)
    spread = rng.uniform(0.2, 0.8)
    clicks = np.clip(rate * np.exp(spread * rng.normal(size=(n_pages, n_banners))), 0.0, 0.5)
    nowhere = np.zeros((n_pages, n_banners, n_pages))
    initial = rng.dirichlet(np.full(n_pages, 2.0))
    process = TabularMDP(nowhere, clicks, 0.0, initial)
    baseline = usual(rng, n_pages, n_banners, 1.0 / n_banners, 0.9)
    return Instance(process, baseline, 1, declared(rng, 0.0, 1.0), Coin())


def click_sessions(rng: np.random.Generator) -> Instance:
    """Draw visits of several pages, where the banner also moves visitors on or makes them leave."""
    n_pages, n_banners = whole(rng, 3, 20), whole(rng, 2, 8)
    rate = log_uniform(rng, 0.005, 0.1)
    clicks = np.clip(rate * np.exp(0.5 * rng.normal(size=(n_pages, n_banners))), 0.0, 0.6)
    leaves = rng.uniform(0.1, 0.5, (n_pages, n_banners))
    popular = anywhere(rng.dirichlet(np.full(n_pages, 1.0)), n_banners)
    transition = popular * (1.0 - leaves[..., None])
    process = TabularMDP(transition, clicks, discount(rng, 0.9, 0.99), ending=leaves)
    baseline = habits(rng, n_pages, n_banners)
    return Instance(process, baseline, 30, declared(rng, 0.0, 1.0), Coin())
