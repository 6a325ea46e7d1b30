"""Robust algorithms beside the slow loops of spibb.testing.reference_robust: ``make bench``.

On the logs of `problems` nearly every radius is 2: anything may happen, and planning is trivial.
The same logs a thousand times over have radii of about 0.1, which is the honest case.
"""

import time

import numpy as np
import pytest
import scipy.sparse as sp
from problems import GAMMA, counted

from spibb import Counts
from spibb.algorithms.base import Problems
from spibb.algorithms.mbie import MBIE
from spibb.algorithms.robust_baseline_regret import RobustBaselineRegret
from spibb.algorithms.robust_mdp import RobustMDP
from spibb.certify.robust import ModelSet
from spibb.mdp.batch import ModelBatch
from spibb.mdp.robust import worst_expectations
from spibb.testing import reference_robust
from spibb.uncertainty.error_functions import Evidence
from spibb.uncertainty.ranges import ValueRange

N_PROBLEMS = 1_000
DELTA = 0.05


def repeated(counts: Counts, n: int) -> Counts:
    """The counts of a log that holds every row n times."""
    return Counts(
        n_sa=counts.n_sa * n,
        n_sas=sp.csr_array(counts.n_sas * n),
        n_end=sp.csr_array(counts.n_end * n),
        reward_sum=counts.reward_sum * n,
        reward_range=counts.reward_range,
        n_initial=counts.n_initial * n,
    )


def make_problems(n: int, n_problems: int = N_PROBLEMS) -> Problems:
    counts, baselines = counted(N_PROBLEMS)
    counts = [repeated(part, n) for part in counts[:n_problems]]
    evidence = [Evidence(part, ValueRange.of(part, GAMMA, None)) for part in counts]
    return Problems.of(evidence, [part.estimate(GAMMA) for part in counts], baselines[:n_problems])


def time_loops(n: int, *, known_rewards: bool, with_test: bool) -> float:
    """Seconds for one problem: robust value iteration and, with the test, the baseline's best."""
    problems = make_problems(n, 1)
    models = ModelSet.of(problems.evidence, problems.batch, DELTA, known_rewards=known_rewards)
    transition = problems.evidence[0].counts.to_mdp(GAMMA).dense
    low, high, radius = models.low.reward[0], models.high.reward[0], models.radius[0]
    start = time.perf_counter()
    reference_robust.robust_values(transition, low, GAMMA, radius, tolerance=1e-8)
    if with_test:
        reference_robust.robust_values(
            transition, high, GAMMA, radius, problems.baseline[0], best=True, tolerance=1e-8
        )
    return time.perf_counter() - start


@pytest.mark.parametrize("n", [1, 1_000])
@pytest.mark.parametrize(
    "algorithm", [RobustMDP(), MBIE(), RobustBaselineRegret()], ids=lambda one: one.id
)
def test_search(benchmark, figures, algorithm, n):
    problems = make_problems(n)
    done = benchmark.pedantic(lambda: algorithm.search(problems), rounds=5, warmup_rounds=1)
    ours = benchmark.stats.stats.median / N_PROBLEMS
    what = f"{algorithm.id}, log x {n:,} ({done.n_iterations.mean():.1f} steps)"
    if algorithm.id == "robust-baseline-regret":
        figures(what, f"{1e6 * ours:.0f} us")
        return
    peer = time_loops(
        n, known_rewards=algorithm.id == "mbie", with_test=algorithm.id == "robust-mdp"
    )
    figures(what, f"{1e6 * ours:.0f} us", f"{peer:.2f} s (loops)", peer / ours)


@pytest.mark.parametrize("n_successors", [4, 50])
def test_inner_minimum(benchmark, figures, n_successors):
    rng = np.random.default_rng(3)
    n_rows, n_states = 20_000, 50
    rows = np.zeros((n_rows, n_states))
    for row in rows:
        row[rng.choice(n_states, n_successors, replace=False)] = rng.dirichlet(
            np.ones(n_successors)
        )
    sparse = sp.csr_array(rows)
    batch = ModelBatch(
        indptr=sparse.indptr.astype(np.int64),
        indices=sparse.indices.astype(np.int32),
        data=sparse.data,
        reward=np.zeros((n_rows // n_states, n_states, 1)),
        ending=np.zeros((n_rows // n_states, n_states, 1)),
        initial=np.full((n_rows // n_states, n_states), 1.0 / n_states),
        gamma=GAMMA,
    )
    radius = rng.uniform(0.05, 1.0, batch.shape)
    v = rng.normal(size=batch.shape[:2])
    benchmark.pedantic(lambda: worst_expectations(batch, radius, v), rounds=7, warmup_rounds=1)
    ours = benchmark.stats.stats.median / n_rows
    start = time.perf_counter()
    for k in range(30):
        values = np.append(v[k // n_states], 0.0)
        reference_robust.worst_by_program(np.append(rows[k], 0.0), values, radius.ravel()[k])
    peer = (time.perf_counter() - start) / 30
    figures(
        f"one inner minimum, {n_successors} successors",
        f"{1e9 * ours:.0f} ns",
        f"{1e6 * peer:.0f} us (linprog)",
        peer / ours,
    )
