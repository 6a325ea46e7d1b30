"""Robust algorithms beside the slow loops of spibb.testing.reference_robust: ``make bench``.

On the logs of `problems` nearly every radius is 2: anything may happen, and planning is trivial.
The same logs a thousand times over have radii of about 0.1, which is the honest case.
"""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from problems import GAMMA, clock, counted, dense_counts

from spibb import Counts
from spibb.algorithms.basic_rl import BasicRL
from spibb.algorithms.mbie import MBIE
from spibb.algorithms.robust_baseline_regret import RobustBaselineRegret
from spibb.algorithms.robust_mdp import RobustMDP
from spibb.algorithms.soft_spibb import ApproxSoftSPIBB
from spibb.algorithms.spibb_family import PiBSPIBB
from spibb.certify.model_set import ModelSet
from spibb.certify.regret import RegretTest
from spibb.mdp.batch import ModelBatch
from spibb.mdp.policy import TabularPolicy
from spibb.mdp.robust import Balls, worst_expectations
from spibb.problem import Problem, ProblemBatch
from spibb.testing import reference_robust

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


def make_problems(n: int, n_problems: int = N_PROBLEMS) -> ProblemBatch:
    counts, baselines = counted(N_PROBLEMS)
    counts = [repeated(part, n) for part in counts[:n_problems]]
    pairs = zip(counts, baselines[:n_problems], strict=True)
    return ProblemBatch.of([Problem.of(a, baseline=b, gamma=GAMMA) for a, b in pairs])


def regret_bounds(problems: ProblemBatch, policy: Any, v: Any = None) -> Any:
    test = RegretTest.of(problems, DELTA)
    return test.bounds(test.tested(policy, v))


def time_loops(n: int, *, known_rewards: bool, with_test: bool) -> float:
    """Seconds for one problem: robust value iteration and, with the test, the baseline's best."""
    problems = make_problems(n, 1)
    models = ModelSet.of(problems, DELTA, known_rewards=known_rewards)
    # With the state that stands for those nobody named, as in the set.
    n_states = models.low.shape[1]
    transition = dense_rows(models.low).reshape(n_states, -1, n_states)
    baseline = models.policy(problems.baseline)[0]
    low, high, radius = models.low.reward[0], models.high.reward[0], models.balls.radius[0]
    start = clock()
    reference_robust.robust_values(transition, low, GAMMA, radius, tolerance=1e-8)
    if with_test:
        reference_robust.robust_values(
            transition, high, GAMMA, radius, baseline, best=True, tolerance=1e-8
        )
    return clock() - start


def dense_rows(batch: ModelBatch) -> np.ndarray:
    """The rows of the only problem of a batch."""
    shape = (len(batch.indptr) - 1, batch.shape[1])
    return sp.csr_array((batch.data, batch.indices, batch.indptr), shape=shape).toarray()


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
    benchmark.pedantic(
        lambda: worst_expectations(batch, Balls(radius), v), rounds=7, warmup_rounds=1
    )
    ours = benchmark.stats.stats.median / n_rows
    start = clock()
    for k in range(30):
        values = np.append(v[k // n_states], 0.0)
        reference_robust.worst_by_program(np.append(rows[k], 0.0), values, radius.ravel()[k])
    peer = (clock() - start) / 30
    figures(
        f"one inner minimum, {n_successors} successors",
        f"{1e9 * ours:.0f} ns",
        f"{1e6 * peer:.0f} us (linprog)",
        peer / ours,
    )


@pytest.mark.parametrize("n", [1, 1_000])
@pytest.mark.parametrize(
    "algorithm", [ApproxSoftSPIBB(), PiBSPIBB(), BasicRL()], ids=lambda one: one.id
)
def test_regret_test_of_a_batch(benchmark, figures, algorithm, n):
    """Beside the training of the policies that it tests: at most three times that is the aim."""
    problems = make_problems(n)
    done = algorithm.search(problems)
    start = clock()
    for _ in range(5):
        algorithm.search(problems)
    trained = (clock() - start) / 5 / N_PROBLEMS
    benchmark.pedantic(
        lambda: regret_bounds(problems, done.policy, done.v), rounds=5, warmup_rounds=1
    )
    ours = benchmark.stats.stats.median / N_PROBLEMS
    figures(
        f"regret test, 50 x 4, {algorithm.id}, log x {n:,}",
        f"{1e6 * ours:.0f} us",
        f"{1e6 * trained:.0f} us (its training)",
        trained / ours,
    )


def test_regret_test_of_a_large_problem(benchmark, figures):
    """700 states, 25 actions, every pair followed by every state: under 5 s is the aim."""
    counts = repeated(dense_counts(700, 25), 100)
    rng = np.random.default_rng(0)
    baseline, policy = rng.dirichlet(np.ones(25), (2, 1, 700))
    problem = Problem.of(counts, baseline=TabularPolicy(baseline[0]), gamma=GAMMA)
    problems = ProblemBatch.alone(problem)
    benchmark.pedantic(lambda: regret_bounds(problems, policy), rounds=3, warmup_rounds=1)
    figures("regret test, 700 x 25, dense", f"{benchmark.stats.stats.median:.2f} s")
