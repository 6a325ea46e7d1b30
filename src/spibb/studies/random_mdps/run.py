"""What one job of the study does: draw processes, baselines and logs, train, evaluate in truth.

The randomness of a run comes from a SeedSequence of the plan's seed and the run's number alone, and
every problem of a batch is computed on its own: results depend neither on how runs are grouped into
jobs nor on who computes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.many import improve_many
from spibb.data.counts import Counts
from spibb.envs.garnet import Garnet
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import evaluate_batch
from spibb.mdp.model import TabularMDP
from spibb.mdp.planning import solve
from spibb.mdp.policy import TabularPolicy
from spibb.studies.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class _Problem:
    """One log, with what it takes to judge the policies that are trained on it."""

    run: int
    eta: float
    size: int
    truth: TabularMDP
    best: float
    baseline: TabularPolicy
    counts: Counts


def run_job(plan: Plan, first: int, last: int) -> pa.Table:
    """Run the repetitions from ``first`` to just before ``last``; one row for each result."""
    problems = [problem for run in range(first, last) for problem in _draw(plan, run)]
    algorithms = [setting.build() for setting in plan.settings]
    found = improve_many(
        algorithms,
        [problem.counts for problem in problems],
        baselines=[problem.baseline for problem in problems],
        gamma=plan.gamma,
    )
    return _table(plan, problems, _score(problems, found.probabilities))


def _draw(plan: Plan, run: int) -> list[_Problem]:
    """Draw one process, a baseline for each eta, and a log for each size."""
    rng = np.random.default_rng(np.random.SeedSequence([plan.seed, run]))
    garnet = Garnet.random(
        rng,
        n_states=plan.n_states,
        n_actions=plan.n_actions,
        n_successors=plan.n_successors,
        gamma=plan.gamma,
    )
    world = garnet.with_second_goal(rng, plan.second_goal) if plan.second_goal else garnet
    truth = world.to_mdp()
    best = solve(truth).performance
    problems = []
    for eta in plan.etas:
        baseline = garnet.baseline(eta, rng)
        for size in plan.sizes:
            counts = Counts.sample(
                truth, baseline, n_episodes=size, max_steps=plan.max_steps, rng=rng
            )
            problems.append(_Problem(run, eta, size, truth, best, baseline, counts))
    return problems


def _score(problems: list[_Problem], probabilities: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return (rho - rho_b) / (rho* - rho_b) in the true processes, shape (settings, problems)."""
    batch = ModelBatch.stack([problem.truth for problem in problems])
    start = np.stack([problem.truth.initial for problem in problems])
    best = np.array([problem.best for problem in problems])

    def performance(policy: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((start * evaluate_batch(batch, policy)[0]).sum(axis=1))

    baseline = performance(np.stack([problem.baseline.probabilities for problem in problems]))
    scores = [(performance(policy) - baseline) / (best - baseline) for policy in probabilities]
    return np.array(scores, dtype=np.float32)


def _table(plan: Plan, problems: list[_Problem], scores: NDArray[np.float32]) -> pa.Table:
    import pyarrow as pa

    n_settings, n_problems = scores.shape
    labels = pa.array([setting.label for setting in plan.settings])
    codes = pa.array(np.tile(np.arange(n_settings, dtype=np.int16), n_problems))
    return pa.table(
        {
            "run": np.repeat([problem.run for problem in problems], n_settings).astype(np.int32),
            "eta": np.repeat([problem.eta for problem in problems], n_settings),
            "size": np.repeat([problem.size for problem in problems], n_settings).astype(np.int32),
            "setting": pa.DictionaryArray.from_arrays(codes, labels),
            "score": scores.T.ravel(),
        }
    )
