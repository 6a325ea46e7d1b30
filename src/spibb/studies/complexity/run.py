"""What one job of the study does: draw logs of multiplied gridworlds, train, evaluate in truth.

Rows hold scores and numbers of iterations, which anyone can reproduce byte for byte; how long it
took is measured apart from them: see :mod:`spibb.studies.complexity.timings`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.many import improve_many
from spibb.data.counts import Counts
from spibb.envs.gridworld import GridWorld, softmax_policy
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import Evaluation
from spibb.mdp.model import TabularMDP
from spibb.mdp.planning import solve
from spibb.mdp.policy import TabularPolicy
from spibb.studies.complexity.plan import N_MOVES, ComplexityPlan
from spibb.studies.scores import score_policies
from spibb.studies.study import Columns


@lru_cache(maxsize=32)
def _world(n_actions: int, gamma: float) -> tuple[TabularMDP, Evaluation]:
    mdp = GridWorld(n_actions // N_MOVES).to_mdp(gamma)
    return mdp, solve(mdp)


def make_baseline(plan: ComplexityPlan, temperature: float, n_actions: int) -> TabularPolicy:
    """Return the softmax of the optimal Q, which gives copies of an action equal shares."""
    return softmax_policy(_world(n_actions, plan.gamma)[1].q, temperature)


def draw_counts(plan: ComplexityPlan, run: int, temperature: float, n_actions: int) -> Counts:
    """Draw the log of one run; its randomness comes from what it is alone."""
    key = (plan.temperature.index(temperature), n_actions)
    rng = np.random.default_rng(np.random.SeedSequence([plan.seed, run], spawn_key=key))
    return Counts.sample(
        _world(n_actions, plan.gamma)[0],
        make_baseline(plan, temperature, n_actions),
        n_episodes=plan.trajectories_per_action * n_actions,
        max_steps=plan.max_steps,
        rng=rng,
    )


def run(plan: ComplexityPlan, runs: Sequence[int]) -> Columns:
    """Score every setting on the logs of some runs, and count its iterations."""
    shape = (len(runs), *plan.shape)
    scores, n_iterations = np.empty(shape, np.float32), np.empty(shape, np.int32)
    for i, temperature in enumerate(plan.temperature):
        for j, n_actions in enumerate(plan.actions):
            found = _cell(plan, runs, temperature, n_actions)
            scores[:, i, j], n_iterations[:, i, j] = (part.T for part in found)
    return {"score": scores, "n_iterations": n_iterations}


def _cell(
    plan: ComplexityPlan, runs: Sequence[int], temperature: float, n_actions: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Run all settings on the logs of one number of actions: scores and iterations."""
    baseline = make_baseline(plan, temperature, n_actions)
    found = improve_many(
        [setting.build() for setting in plan.settings],
        [draw_counts(plan, run, temperature, n_actions) for run in runs],
        baselines=baseline,
        gamma=plan.gamma,
        unseen=plan.unseen,
    )
    truth, optimum = _world(n_actions, plan.gamma)
    scores = score_policies(
        ModelBatch.stack([truth] * len(runs)),
        np.stack([baseline.probabilities] * len(runs)),
        found.probabilities,
        optimum.performance,
    )
    return scores, found.n_iterations
