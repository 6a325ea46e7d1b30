"""What one job of the study does: draw logs of multiplied gridworlds, train, evaluate in truth.

Rows hold scores and numbers of iterations, which anyone can reproduce byte for byte; how long it
took is measured apart from them: see :mod:`spibb.studies.complexity.timings`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.many import improve_many
from spibb.data.counts import Counts
from spibb.envs.gridworld import GridWorld, softmax_policy
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import Evaluation, evaluate_batch
from spibb.mdp.model import TabularMDP
from spibb.mdp.planning import solve
from spibb.mdp.policy import TabularPolicy
from spibb.studies.complexity.plan import N_MOVES, ComplexityPlan
from spibb.studies.metrics import normalised_performance

if TYPE_CHECKING:
    import pyarrow as pa


@lru_cache(maxsize=32)
def _world(n_actions: int, gamma: float) -> tuple[TabularMDP, Evaluation]:
    mdp = GridWorld(n_actions // N_MOVES).to_mdp(gamma)
    return mdp, solve(mdp)


def make_baseline(plan: ComplexityPlan, eta: float, n_actions: int) -> TabularPolicy:
    """Return the softmax of the optimal Q, which gives copies of an action equal shares."""
    return softmax_policy(_world(n_actions, plan.gamma)[1].q, eta)


def draw_counts(plan: ComplexityPlan, run: int, eta: float, n_actions: int) -> Counts:
    """Draw the log of one run; its randomness comes from what it is alone."""
    key = (plan.etas.index(eta), n_actions)
    rng = np.random.default_rng(np.random.SeedSequence([plan.seed, run], spawn_key=key))
    return Counts.sample(
        _world(n_actions, plan.gamma)[0],
        make_baseline(plan, eta, n_actions),
        n_episodes=plan.trajectories_per_action * n_actions,
        max_steps=plan.max_steps,
        rng=rng,
    )


def run_job(plan: ComplexityPlan, first: int, last: int) -> pa.Table:
    """Run the repetitions from ``first`` to just before ``last``; one row for each result."""
    import pyarrow as pa

    runs = range(first, last)
    return pa.concat_tables(
        _cell(plan, runs, eta, n_actions) for eta in plan.etas for n_actions in plan.sizes
    )


def _cell(plan: ComplexityPlan, runs: Sequence[int], eta: float, n_actions: int) -> pa.Table:
    """Run all settings on the logs of one number of actions."""
    import pyarrow as pa

    baseline = make_baseline(plan, eta, n_actions)
    found = improve_many(
        [setting.build() for setting in plan.settings],
        [draw_counts(plan, run, eta, n_actions) for run in runs],
        baselines=baseline,
        gamma=plan.gamma,
        unseen=plan.unseen,
    )
    n_settings, n_rows = len(plan.settings), len(plan.settings) * len(runs)
    labels = pa.array([setting.label for setting in plan.settings])
    codes = pa.array(np.tile(np.arange(n_settings, dtype=np.int16), len(runs)))
    return pa.table(
        {
            "run": np.repeat(np.array(runs, dtype=np.int32), n_settings),
            "eta": np.full(n_rows, eta),
            "size": np.full(n_rows, n_actions, dtype=np.int32),
            "setting": pa.DictionaryArray.from_arrays(codes, labels),
            "score": _score(plan, baseline, n_actions, found.probabilities).T.ravel(),
            "n_iterations": found.n_iterations.T.astype(np.int32).ravel(),
        }
    )


def _score(
    plan: ComplexityPlan, baseline: TabularPolicy, n_actions: int, policies: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Return (rho - rho_b) / (rho* - rho_b) in the true process, shape (settings, runs)."""
    truth, optimum = _world(n_actions, plan.gamma)
    one = ModelBatch.stack([truth])
    many = ModelBatch.stack([truth] * policies.shape[1])

    def performance(batch: ModelBatch, policy: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((batch.initial * evaluate_batch(batch, policy)[0]).sum(axis=1))

    old = performance(one, baseline.probabilities[None].copy())
    new = np.stack([performance(many, policy) for policy in policies])
    return normalised_performance(new, old, optimum.performance).astype(np.float32)
