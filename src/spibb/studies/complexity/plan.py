"""The plan of the study, and what its runs draw: the gridworld with its actions multiplied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from spibb.data.counts import Counts
from spibb.envs.gridworld import GridWorld, softmax_policy
from spibb.mdp.model import TabularMDP
from spibb.mdp.planning import solve
from spibb.mdp.policy import TabularPolicy
from spibb.studies.kinds import Count, Discount, Treatment, Whole
from spibb.studies.plan import Plan, Setting, factor
from spibb.studies.version1 import Version1

# Actions of the gridworld before they are multiplied.
N_MOVES = 4


@dataclass(frozen=True, kw_only=True)
class ComplexityPlan(Plan):
    """What the study varies; a run is a new log.

    Attributes:
        temperature: Temperatures of the baseline, a softmax of the optimal Q.
        actions: Numbers of actions, multiples of 4.
        max_steps: Longest trajectory.
        gamma: The discount.
        unseen: What pairs without data do in the estimated models.
        trajectories_per_action: Trajectories of a log for each action, so that pairs are seen as
            often however many actions there are.
        n_timed: Logs that are timed alone, one after another: those of the first runs.
        n_together: Logs that are timed in one batch; 0: none.
        n_repeats: How often each is timed; the median counts.
    """

    study: ClassVar[str] = "complexity"
    # As those of the study on random MDPs.
    present_rules: ClassVar[int] = 2
    columns: ClassVar[Mapping[str, str]] = {"n_iterations": "whole numbers"}
    reader1 = Version1("temperature", "actions")

    temperature: tuple[float, ...] = factor(
        "temperature", float, lambda x: x > 0, "a number > 0", is_needed=True
    )
    actions: tuple[int, ...] = factor(
        "number of actions", int, lambda x: x % N_MOVES == 0, f"multiples of its {N_MOVES} actions",
        is_needed=True,
    )  # fmt: skip
    max_steps: Count
    gamma: Discount = 0.95
    unseen: Treatment = "terminal"
    trajectories_per_action: Count = 25
    n_timed: Count = 20
    n_together: Whole = 50
    n_repeats: Count = 5


class World(NamedTuple):
    """A gridworld, the performance of its optimum, and a baseline."""

    truth: TabularMDP
    best: float
    baseline: TabularPolicy


@lru_cache(maxsize=32)
def find_world(gamma: float, temperature: float, n_actions: int) -> World:
    """Return a world; its baseline gives copies of an action equal shares."""
    truth = GridWorld(n_actions // N_MOVES).to_mdp(gamma)
    optimum = solve(truth)
    return World(truth, optimum.performance, softmax_policy(optimum.q, temperature))


def draw_counts(plan: ComplexityPlan, run: int, temperature: float, n_actions: int) -> Counts:
    """Draw the log of one run; its randomness comes from what it is alone."""
    key = (plan.temperature.index(temperature), n_actions)
    rng = np.random.default_rng(np.random.SeedSequence([plan.seed, run], spawn_key=key))
    truth, _, baseline = find_world(plan.gamma, temperature, n_actions)
    n_episodes, max_steps = plan.trajectories_per_action * n_actions, plan.max_steps
    return Counts.sample(truth, baseline, n_episodes=n_episodes, max_steps=max_steps, rng=rng)


_SOFT = (("Exact-Soft-SPIBB", {"algorithm": "exact-soft-spibb", "delta": 1.0}),
         ("Approx-Soft-SPIBB", {"algorithm": "approx-soft-spibb", "delta": 1.0}))  # fmt: skip
PLANS = (
    ComplexityPlan(
        name="complexity",
        seed=2021,
        n_runs=200,
        runs_per_job=10,
        temperature=(0.1,),
        actions=(4, 8, 16, 32, 64, 128, 256),
        max_steps=50,
        settings=(
            Setting.of("Basic RL", {"algorithm": "basic-rl"}),
            *Setting.grid("n_wedge", (10,), ("Pi_b-SPIBB", {"algorithm": "pi-b-spibb"})),
            *Setting.grid("epsilon", (1,), *_SOFT, scale=1.0),
        ),
    ),
)
