"""The study on fixed processes: draw logs of fixed processes, train, evaluate in truth.

The randomness of a run on a process comes from a SeedSequence of the plan's seed, the run's number
and the process's name alone, and every problem of a batch is computed on its own: results depend
neither on how runs are grouped into jobs, nor on what else is run, nor on who computes them.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.base import Algorithm
from spibb.algorithms.many import improve_many
from spibb.data.counts import Counts
from spibb.data.estimate import checked_unseen
from spibb.data.log import Log
from spibb.mdp.batch import ModelBatch
from spibb.mdp.policy import TabularPolicy
from spibb.studies.finite.page import draw_finite, finite_pages
from spibb.studies.finite.plans import PLANS, FinitePlan
from spibb.studies.finite.processes import TrueProcess, make_baseline, true_process
from spibb.studies.scores import score_policies
from spibb.studies.study import Columns, Study

# Algorithms that average returns see a single trajectory as pieces of this many steps: one return
# of a pair from each. Few enough steps for several returns, so many that at gamma = 0.95 the return
# of a first visit loses 2 % of its value to the end of its piece on average.
_PIECE = 1_000


class _Problem(NamedTuple):
    """One log, with the policy that made it; counts again where no algorithm needs the log."""

    baseline: TabularPolicy
    counts: Counts
    log: Log | Counts


def run(plan: FinitePlan, runs: Sequence[int]) -> Columns:
    """Score every setting on the logs of some runs."""
    found = [_run_process(plan, process, runs) for process in plan.process]
    return {"score": np.stack(found, axis=1)}


def _run_process(plan: FinitePlan, process: str, runs: Sequence[int]) -> NDArray[np.float32]:
    known = true_process(process, plan.gamma)
    algorithms = [setting.build() for setting in plan.settings]
    with_logs = any(one.needs_log for one in algorithms)
    problems = [one for run in runs for one in _draw(plan, process, run, with_logs=with_logs)]
    truths = ModelBatch.stack([known.truth] * len(problems))
    baselines = np.stack([problem.baseline.probabilities for problem in problems])
    policies = _train(plan, algorithms, problems, known)
    scores = score_policies(truths, baselines, policies, known.best)
    return scores.T.reshape(len(runs), *plan.shape[1:])


def _draw(plan: FinitePlan, process: str, run: int, *, with_logs: bool) -> list[_Problem]:
    """Draw a log for each strength of the baseline and each size."""
    truth = true_process(process, plan.gamma).truth
    seeds = np.random.SeedSequence([plan.seed, run], spawn_key=(zlib.crc32(process.encode()),))
    rng = np.random.default_rng(seeds)
    problems = []
    for strength in plan.factors[plan.strength]:
        baseline = make_baseline(process, plan.gamma, strength)
        for size in plan.trajectories or plan.steps:
            n_episodes, max_steps = (size, plan.max_steps) if plan.trajectories else (1, size)
            # The same draws either way: see Counts.sample.
            sample: Any = Log.sample if with_logs else Counts.sample
            drawn = sample(truth, baseline, n_episodes=n_episodes, max_steps=max_steps, rng=rng)
            counts = Counts.from_log(drawn) if with_logs else drawn
            log = _in_pieces(drawn) if with_logs and plan.steps else drawn
            problems.append(_Problem(baseline, counts, log))
    return problems


def _in_pieces(log: Log) -> Log:
    """Cut one long trajectory into episodes that are truncated."""
    episode, step = np.divmod(np.arange(len(log)), _PIECE)
    is_last = step == _PIECE - 1
    is_last[-1:] = True
    return replace(log, episode=episode, step=step, truncated=is_last & ~log.terminated)


def _train(
    plan: FinitePlan, algorithms: list[Algorithm], problems: list[_Problem], known: TrueProcess
) -> NDArray[np.float64]:
    """Return the policies, shape (algorithms, problems, S, A)."""
    shape = problems[0].baseline.probabilities.shape
    policies = np.empty((len(algorithms), len(problems), *shape))
    keys = [
        (algorithm.needs_log, setting.unseen or plan.unseen)
        for algorithm, setting in zip(algorithms, plan.settings, strict=True)
    ]
    for with_logs, treatment in dict.fromkeys(keys):
        which = [k for k, key in enumerate(keys) if key == (with_logs, treatment)]
        found = improve_many(
            [algorithms[k] for k in which],
            [one.log if with_logs else one.counts for one in problems],
            baselines=[problem.baseline for problem in problems],
            gamma=plan.gamma,
            # The benchmarks' algorithms know the states and where episodes begin.
            initial=known.truth.initial,
            states_complete=True,
            unseen=checked_unseen(treatment),
        )
        policies[which] = found.probabilities
    return policies


FINITE = Study(FinitePlan, run, PLANS, draw=draw_finite, pages=finite_pages)
