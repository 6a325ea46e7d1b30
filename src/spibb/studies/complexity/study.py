"""The study of run time: draw logs of multiplied gridworlds, train, evaluate in truth.

Rows hold scores and numbers of iterations, which anyone can reproduce byte for byte; how long it
took is measured apart from them: see :mod:`spibb.studies.complexity.timings`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from spibb.algorithms.many import improve_many
from spibb.data.counts import Counts
from spibb.envs.gridworld import GridWorld, softmax_policy
from spibb.mdp.batch import ModelBatch
from spibb.mdp.model import TabularMDP
from spibb.mdp.planning import solve
from spibb.mdp.policy import TabularPolicy
from spibb.studies.kinds import Count, Discount, Treatment, Whole
from spibb.studies.plan import Plan, Setting, factor
from spibb.studies.scores import score_policies
from spibb.studies.study import Columns
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


def run(plan: ComplexityPlan, runs: Sequence[int]) -> Columns:
    """Score every setting on the logs of some runs, and count its iterations."""
    shape = (len(runs), *plan.shape)
    scores, n_iterations = np.empty(shape, np.float32), np.empty(shape, np.int32)
    tried = [setting.build() for setting in plan.settings]
    for i, j in np.ndindex(*plan.shape[:-1]):
        cell = plan.temperature[i], plan.actions[j]
        truth, best, baseline = find_world(plan.gamma, *cell)
        logs = [draw_counts(plan, run, *cell) for run in runs]
        found = improve_many(tried, logs, baselines=baseline, gamma=plan.gamma, unseen=plan.unseen)
        truths = ModelBatch.stack([truth] * len(runs))
        baselines = np.stack([baseline.probabilities] * len(runs))
        scores[:, i, j] = score_policies(truths, baselines, found.probabilities, best).T
        n_iterations[:, i, j] = found.n_iterations.T
    return {"score": scores, "n_iterations": n_iterations}


_SOFT = {"Exact-Soft-SPIBB": "exact-soft-spibb", "Approx-Soft-SPIBB": "approx-soft-spibb"}
_SETTINGS = (
    Setting.of("Basic RL", {"algorithm": "basic-rl"}),
    *Setting.grid("n_wedge", (10,), {"Pi_b-SPIBB": "pi-b-spibb"}),
    *Setting.grid("epsilon", (1,), _SOFT, scale=1.0, delta=1.0),
)
PLANS = (
    ComplexityPlan(
        name="complexity", seed=2021, n_runs=200, runs_per_job=10, temperature=(0.1,),
        actions=(4, 8, 16, 32, 64, 128, 256), max_steps=50, settings=_SETTINGS,
    ),
)  # fmt: skip
