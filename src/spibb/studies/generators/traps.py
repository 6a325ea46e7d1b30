"""Short cuts that sometimes end in a state that is bad for ever."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.mdp.evaluation import evaluate
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy
from spibb.studies.generators.baseline_rules import habits
from spibb.studies.generators.instance import MODERATE_EPISODES, Instance
from spibb.studies.generators.parameters import (
    chance,
    declared,
    discount,
    log_uniform,
    longest_episode,
    whole,
)
from spibb.studies.generators.rare_damage import damage_rate
from spibb.studies.generators.transitions import random_rows

Array = NDArray[np.float64]

_GO, _CUT = 0, 1


def trap_listed(rng: np.random.Generator) -> Instance:
    """Draw a road with a short cut into a trap that is listed, and that logs hardly ever enter."""
    road = _Road(rng, start_in_trap=0.0)
    # The short cut is rare enough that 300 episodes hold less than one entry, on average.
    return road.instance(rng, log_uniform(rng, 0.02, 1.0))


def trap_seen(rng: np.random.Generator) -> Instance:
    """Draw a road with a short cut into a trap that some episodes begin in, so that it is known."""
    road = _Road(rng, start_in_trap=rng.uniform(0.02, 0.1))
    return road.instance(rng, log_uniform(rng, 0.3, 30.0))


def hidden_traps(rng: np.random.Generator) -> Instance:
    """Draw a random process where a few well-paid pairs sometimes lead to an endless loss."""
    n_states, n_actions, gamma = whole(rng, 8, 40), whole(rng, 3, 6), discount(rng, 0.85, 0.98)
    trap = n_states - 1
    transition = random_rows(rng, n_states, n_actions, whole(rng, 2, 5))
    transition[..., trap] = 0.0
    transition /= np.maximum(transition.sum(axis=2, keepdims=True), 1e-12)
    transition[transition.sum(axis=2) == 0.0, 0] = 1.0
    cost = rng.uniform(1.0, 4.0)
    # A fall costs about (cost + 1) / (1 - gamma); its probability makes up for the better reward.
    is_risky = rng.random((n_states, n_actions)) < rng.uniform(0.05, 0.25)
    premium = rng.uniform(0.3, 1.0, is_risky.shape)
    falls = rng.uniform(1.5, 5.0, is_risky.shape) * premium * (1.0 - gamma) / (cost + 1.0)
    falls = np.where(is_risky, np.minimum(falls, 0.5), 0.0)
    falls[trap] = 0.0
    transition *= 1.0 - falls[..., None]
    transition[..., trap] += falls
    transition[trap] = 0.0
    transition[trap, :, trap] = 1.0
    reward = rng.uniform(0.0, 1.0, is_risky.shape) + np.where(is_risky, premium, 0.0)
    reward[trap] = -cost
    initial = np.append(np.full(trap, 1.0 / trap), 0.0)
    process = TabularMDP(transition, reward, gamma, initial)
    table = habits(rng, n_states, n_actions).probabilities.copy()
    table *= np.where(is_risky, log_uniform(rng, 0.003, 0.1), 1.0)
    baseline = TabularPolicy(table / table.sum(axis=1, keepdims=True))
    max_steps = longest_episode(rng, gamma)
    rate = damage_rate(process, baseline, max_steps, falls)
    range_ = declared(rng, -cost, reward.max())
    return Instance(process, baseline, max_steps, range_, damage_rate=rate)


class _Road:
    """A road to a goal; the short cut skips some of it, and sometimes ends in the trap.

    Args:
        rng: Source of randomness.
        start_in_trap: Share of episodes that begin in the trap.
    """

    def __init__(self, rng: np.random.Generator, start_in_trap: float) -> None:
        n_places, self.n_actions = whole(rng, 6, 40), whole(rng, 2, 5)
        self.gamma = discount(rng, 0.93, 0.99)
        self.trap, self.skipped = n_places, whole(rng, 2, min(5, n_places - 2))
        self.advance = rng.uniform(0.6, 1.0)
        self.step_cost, self.goal = rng.uniform(0.0, 0.1), rng.uniform(1.0, 5.0)
        self.idle_reward = self.step_cost * rng.uniform(0.0, 0.5)
        self.cost = rng.uniform(0.05, 0.5)
        self.start = np.eye(n_places + 1)[0] * (1.0 - start_in_trap)
        self.start[self.trap] = start_in_trap
        self.max_steps = int(np.clip(rng.uniform(1.5, 4.0) * n_places, 15, 100))
        # The share of falls makes the short cut worse than the road, by a random factor.
        going = np.eye(self.n_actions)[np.full(n_places + 1, _GO)]
        value = evaluate(self.process(0.0), going).v[: self.trap]
        saved = self.gamma * (value[self.skipped :] - value[1 : 1 - self.skipped])
        harm = self.goal + self.cost / (1.0 - self.gamma)
        factor = rng.uniform(1.3, 5.0)
        self.falls = float(np.clip(factor * saved.mean() / harm, 0.004, 0.3))

    def process(self, falls: float) -> TabularMDP:
        """Return the process with a given probability of falls."""
        trap, n_actions = self.trap, self.n_actions
        transition = np.zeros((trap + 1, n_actions, trap + 1))
        reward = np.full((trap + 1, n_actions), -self.step_cost)
        ending = np.zeros((trap + 1, n_actions))
        transition[trap, :, trap], reward[trap] = 1.0, -self.cost
        for x in range(trap):
            transition[x, :, x] = 1.0
            reward[x, 2:] = -self.idle_reward
            for action, reached, p in ((_GO, x + 1, self.advance), (_CUT, x + self.skipped, 1.0)):
                lost = falls if action == _CUT else 0.0
                transition[x, action] = 0.0
                transition[x, action, x] = 1.0 - p
                transition[x, action, trap] = lost
                if reached < trap:
                    transition[x, action, reached] += p - lost
                else:
                    ending[x, action] = p - lost
                    reward[x, action] += self.goal * (p - lost)
        return TabularMDP(transition, reward, self.gamma, self.start, ending=ending)

    def instance(self, rng: np.random.Generator, n_falls: float) -> Instance:
        """Return a problem whose baseline falls so often in a log of moderate size, on average."""
        process = self.process(self.falls)
        hits = np.zeros(process.reward.shape)
        hits[: self.trap, _CUT] = self.falls
        idle = log_uniform(rng, 0.05, 0.5) if self.n_actions > 2 else 0.0
        cut = 0.1
        for _ in range(3):  # rates are nearly proportional to the share of short cuts
            baseline = self._baseline(cut, idle)
            rate = damage_rate(process, baseline, self.max_steps, hits)
            cut = min(0.4, cut * n_falls / (rate * MODERATE_EPISODES))
        baseline = self._baseline(cut, idle)
        rate = damage_rate(process, baseline, self.max_steps, hits)
        highest = float(process.reward.max())
        is_declared = chance(rng)
        range_ = (-max(self.cost, self.step_cost), max(highest, 0.0)) if is_declared else None
        return Instance(process, baseline, self.max_steps, range_, damage_rate=rate)

    def _baseline(self, cut: float, idle: float) -> TabularPolicy:
        row = np.zeros(self.n_actions)
        row[_GO], row[_CUT] = 1.0 - cut - idle, cut
        if self.n_actions > 2:
            row[2:] = idle / (self.n_actions - 2)
        return TabularPolicy(np.tile(row, (self.trap + 1, 1)))
