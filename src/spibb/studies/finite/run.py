"""What one job of the study does: draw logs of fixed processes, train, evaluate in truth.

The randomness of a run on a process comes from a SeedSequence of the plan's seed, the run's number
and the process's name alone, and every problem of a batch is computed on its own: results depend
neither on how runs are grouped into jobs, nor on what else is run, nor on who computes them.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.base import Algorithm
from spibb.algorithms.many import improve_many
from spibb.data.counts import Counts
from spibb.data.estimate import checked_unseen
from spibb.data.log import Log
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import evaluate_batch
from spibb.mdp.policy import TabularPolicy
from spibb.studies.finite.plan import FinitePlan
from spibb.studies.finite.processes import TrueProcess, make_baseline, true_process
from spibb.studies.metrics import normalised_performance

if TYPE_CHECKING:
    import pyarrow as pa

# Algorithms that average returns see a single trajectory as pieces of this many steps: one return
# of a pair from each. Few enough steps for several returns, so many that at gamma = 0.95 the return
# of a first visit loses 2 % of its value to the end of its piece on average.
_PIECE = 1_000


@dataclass(frozen=True, eq=False)
class _Problem:
    """One log, with the policy that made it; the log itself where an algorithm needs it."""

    run: int
    eta: float
    size: int
    baseline: TabularPolicy
    counts: Counts
    log: Log | None

    def data(self, *, with_log: bool) -> Log | Counts:
        """Return what an algorithm is given: pieces of a trajectory only where it needs them."""
        return self.log if with_log and self.log is not None else self.counts


def run_job(plan: FinitePlan, first: int, last: int) -> pa.Table:
    """Run the repetitions from ``first`` to just before ``last``; one row for each result."""
    import pyarrow as pa

    return pa.concat_tables(
        _run_process(plan, process, places, range(first, last))
        for process, places in plan.places().items()
    )


def _run_process(plan: FinitePlan, process: str, places: list[int], runs: range) -> pa.Table:
    known = true_process(process, plan.gamma)
    algorithms = [plan.settings[place].build() for place in places]
    with_logs = any(one.needs_log for one in algorithms)
    problems = [
        problem for run in runs for problem in _draw(plan, process, run, with_logs=with_logs)
    ]
    unseen = [plan.settings[place].unseen or plan.unseen for place in places]
    policies = _train(plan, algorithms, unseen, problems, known)
    return _table(plan, places, problems, _score(known, problems, policies))


def _draw(plan: FinitePlan, process: str, run: int, *, with_logs: bool) -> list[_Problem]:
    """Draw a log for each strength of the baseline and each size."""
    truth = true_process(process, plan.gamma).truth
    seeds = np.random.SeedSequence([plan.seed, run], spawn_key=(zlib.crc32(process.encode()),))
    rng = np.random.default_rng(seeds)
    problems = []
    for eta in plan.etas:
        baseline = make_baseline(process, plan.gamma, eta)
        for size in plan.sizes:
            n_episodes, max_steps = (size, plan.max_steps) if plan.max_steps else (1, size)
            shape = {"n_episodes": n_episodes, "max_steps": max_steps}
            # The same draws either way: see Counts.sample.
            if with_logs:
                log = Log.sample(truth, baseline, **shape, rng=rng)
                counts = Counts.from_log(log)
                log = log if plan.max_steps else _in_pieces(log)
                problems.append(_Problem(run, eta, size, baseline, counts, log))
            else:
                counts = Counts.sample(truth, baseline, **shape, rng=rng)
                problems.append(_Problem(run, eta, size, baseline, counts, None))
    return problems


def _in_pieces(log: Log) -> Log:
    """Cut one long trajectory into episodes that are truncated."""
    rows = np.arange(len(log))
    is_last = (rows % _PIECE == _PIECE - 1) | (rows == len(log) - 1)
    return replace(
        log, episode=rows // _PIECE, step=rows % _PIECE, truncated=is_last & ~log.terminated
    )


def _train(
    plan: FinitePlan,
    algorithms: Sequence[Algorithm],
    unseen: Sequence[str],
    problems: Sequence[_Problem],
    known: TrueProcess,
) -> NDArray[np.float64]:
    """Return the policies, shape (algorithms, problems, S, A)."""
    shape = problems[0].baseline.probabilities.shape
    policies = np.empty((len(algorithms), len(problems), *shape))
    groups: dict[tuple[bool, str], list[int]] = {}
    for k, (algorithm, treatment) in enumerate(zip(algorithms, unseen, strict=True)):
        groups.setdefault((algorithm.needs_log, treatment), []).append(k)
    for (with_logs, treatment), which in groups.items():
        found = improve_many(
            [algorithms[k] for k in which],
            [problem.data(with_log=with_logs) for problem in problems],
            baselines=[problem.baseline for problem in problems],
            gamma=plan.gamma,
            # The benchmarks' algorithms know the states and where episodes begin.
            initial=known.truth.initial,
            states_complete=True,
            unseen=checked_unseen(treatment),
        )
        policies[which] = found.probabilities
    return policies


def _score(
    known: TrueProcess, problems: Sequence[_Problem], policies: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Return (rho - rho_b) / (rho* - rho_b) in the true process, shape (settings, problems)."""
    batch = ModelBatch.stack([known.truth] * len(problems))

    def performance(policy: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((batch.initial * evaluate_batch(batch, policy)[0]).sum(axis=1))

    baseline = performance(np.stack([problem.baseline.probabilities for problem in problems]))
    scores = [normalised_performance(performance(one), baseline, known.best) for one in policies]
    return np.array(scores, dtype=np.float32)


def _table(
    plan: FinitePlan, places: list[int], problems: Sequence[_Problem], scores: NDArray[np.float32]
) -> pa.Table:
    import pyarrow as pa

    n_settings, n_problems = scores.shape
    labels = pa.array([setting.label for setting in plan.settings])
    codes = pa.array(np.tile(np.array(places, dtype=np.int16), n_problems))
    return pa.table(
        {
            "run": np.repeat([problem.run for problem in problems], n_settings).astype(np.int32),
            "eta": np.repeat([problem.eta for problem in problems], n_settings),
            "size": np.repeat([problem.size for problem in problems], n_settings).astype(np.int32),
            "setting": pa.DictionaryArray.from_arrays(codes, labels),
            "score": scores.T.ravel(),
        }
    )
