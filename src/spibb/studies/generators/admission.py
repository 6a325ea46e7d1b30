"""Admission to few places."""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

from spibb.mdp.model import TabularMDP
from spibb.studies.generators.baseline_rules import rule
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.parameters import declared, discount, longest_episode, whole
from spibb.studies.generators.transitions import ladder


def bed_admission(rng: np.random.Generator) -> Instance:
    """Draw beds, and patients of several classes who are admitted or sent elsewhere."""
    n_classes = whole(rng, 2, 5)
    n_beds = whole(rng, 2, 60 // n_classes - 1)
    gamma = discount(rng, 0.9, 0.99)
    # States: beds taken, 0 to n_beds, by class of the patient at the door.
    n_states = (n_beds + 1) * n_classes
    shares = rng.dirichlet(np.full(n_classes, 2.0))
    value = np.sort(rng.uniform(0.1, 2.0, n_classes))
    freed = rng.uniform(0.02, 0.3)
    stays = [binom.pmf(np.arange(taken + 1), taken, 1.0 - freed) for taken in range(n_beds + 1)]
    transition = np.zeros((n_states, 2, n_beds + 1))
    reward = np.zeros((n_states, 2))
    overfull = rng.uniform(0.0, 2.0)  # an admission without a bed costs, and the patient leaves
    for x in range(n_states):
        taken, kind = divmod(x, n_classes)
        transition[x, 0, : taken + 1] = stays[taken]
        admitted = min(taken + 1, n_beds)
        transition[x, 1, : admitted + 1] = stays[admitted]
        reward[x, 1] = value[kind] if taken < n_beds else -overfull
    reward -= (
        rng.uniform(0.0, 1.0) * np.repeat(np.arange(n_beds + 1) == n_beds, n_classes)[:, None]
    )  # a full house costs
    process = TabularMDP(
        (transition[..., None] * shares).reshape(n_states, 2, n_states), reward, gamma,
        np.append(shares, np.zeros(n_states - n_classes)),
    )  # fmt: skip
    beds, classes = np.divmod(np.arange(n_states), n_classes)
    # Some places are kept for the classes of more value.
    kept = rng.uniform(0.0, 0.6) * n_beds * (1.0 - classes / (n_classes - 1))
    chosen = (beds < n_beds - kept).astype(np.int64)
    baseline = rule(rng, chosen, 2, 0.05, 0.5)
    range_ = declared(rng, reward.min(), reward.max())
    return Instance(process, baseline, longest_episode(rng, gamma), range_)


def server_admission(rng: np.random.Generator) -> Instance:
    """Draw a server that takes jobs at one of several prices, where long lines make jobs late."""
    n_states, n_prices, gamma = whole(rng, 6, 40), whole(rng, 2, 8), discount(rng, 0.9, 0.99)
    price = np.linspace(rng.uniform(0.2, 0.6), rng.uniform(1.2, 3.0), n_prices)
    accepts = np.exp(-rng.uniform(0.4, 1.2) * price)
    line = np.arange(n_states)[:, None]
    done = np.where(line > 0, rng.uniform(0.1, 0.5), 0.0)
    enters = np.where(line < n_states - 1, accepts, 0.0)
    transition = ladder(enters * (1.0 - done), done * (1.0 - enters))
    reward = enters * price - rng.uniform(0.01, 0.2) * line
    process = TabularMDP(transition, reward, gamma, np.eye(n_states)[0])
    chosen = np.minimum(line[:, 0] // whole(rng, 2, 8), n_prices - 1)
    baseline = rule(rng, chosen, n_prices, 0.05, 0.5)
    return Instance(process, baseline, longest_episode(rng, gamma))
