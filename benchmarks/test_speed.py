"""Speed beside the slow, obvious loops of spibb.testing.reference, in one run: ``make bench``."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from problems import GAMMA, clock, counted, dense_counts, logs

from spibb import (
    DUIPI,
    ApproxSoftSPIBB,
    BasicRL,
    ExactSoftSPIBB,
    PiBSPIBB,
    PiLeqBSPIBB,
    RaMDP,
    TabularPolicy,
    improve_many,
)
from spibb.algorithms.iterating import iterate
from spibb.operators import soft_approx_step, soft_exact_step
from spibb.problem import Problem, ProblemBatch
from spibb.testing import reference, reference_successors

N_PROBLEMS = 1_000
ALGORITHMS = [
    BasicRL(),
    PiBSPIBB(n_wedge=10),
    PiLeqBSPIBB(n_wedge=10),
    ApproxSoftSPIBB(epsilon=1.0),
    ExactSoftSPIBB(epsilon=1.0),
]
MEDIANS: dict[str, float] = {}


def stacked(counts, baselines) -> ProblemBatch:
    pairs = zip(counts, baselines, strict=True)
    return ProblemBatch.of([Problem.of(a, baseline=b, gamma=GAMMA) for a, b in pairs])


def reference_row(algorithm, baseline, n_sa, errors):
    if isinstance(algorithm, BasicRL):
        return lambda q, x: reference.greedy_row(q)
    if isinstance(algorithm, PiBSPIBB):
        return lambda q, x: reference.pi_b_row(q, baseline[x], n_sa[x] >= 10)
    if isinstance(algorithm, PiLeqBSPIBB):
        return lambda q, x: reference.pi_leq_b_row(q, baseline[x], n_sa[x] >= 10)
    exact = isinstance(algorithm, ExactSoftSPIBB)
    row = reference.soft_exact_row if exact else reference.soft_approx_row
    return lambda q, x: row(q, baseline[x], errors[x], algorithm.epsilon)


def time_reference(algorithm, n_problems: int) -> float:
    """Seconds for one run of policy iteration by plain loops."""
    took = []
    for log, baseline in logs(N_PROBLEMS)[:n_problems]:
        transition, reward, n_sa = reference.maximum_likelihood(
            log.state, log.action, log.reward, log.next_state, log.terminated, 50, 4
        )
        with np.errstate(divide="ignore"):
            errors = np.sqrt(2 * np.log(2 * n_sa.size / 0.05) / n_sa)
        row = reference_row(algorithm, baseline.probabilities, n_sa, errors)
        start = clock()
        reference.policy_iteration(transition, reward, GAMMA, baseline.probabilities, row)
        took.append(clock() - start)
    return float(np.median(took))


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: algorithm.id)
def test_policy_iteration(benchmark, figures, algorithm):
    counts, baselines = counted(N_PROBLEMS)
    problems = stacked(counts, baselines)
    models, start, first = problems.models, problems.baseline, problems.baseline_values
    step = algorithm.step(problems)
    done = benchmark.pedantic(
        lambda: iterate(models, start, step, first=first), rounds=15, warmup_rounds=2
    )
    ours = benchmark.stats.stats.median / N_PROBLEMS
    MEDIANS[algorithm.id] = ours
    peer = time_reference(algorithm, 2 if isinstance(algorithm, ExactSoftSPIBB) else 5)
    steps = done.n_iterations.mean()
    figures(
        f"{algorithm.id}, to convergence ({steps:.1f} steps)",
        f"{1e6 * ours:.0f} us",
        f"{1e3 * peer:.1f} ms (loops)",
        peer / ours,
    )


def test_improve_many(benchmark, figures):
    """From counts to policies: problems are made, models estimated, baselines evaluated."""
    counts, baselines = counted(N_PROBLEMS)
    algorithm = ApproxSoftSPIBB(epsilon=1.0)
    benchmark.pedantic(
        lambda: improve_many([algorithm], counts, baselines=baselines, gamma=GAMMA),
        rounds=15, warmup_rounds=2,
    )  # fmt: skip
    ours, peer = benchmark.stats.stats.median / N_PROBLEMS, time_reference(algorithm, 5)
    figures(
        "improve_many, end to end", f"{1e6 * ours:.0f} us", f"{1e3 * peer:.1f} ms (loops, solving)",
        peer / ours,
    )  # fmt: skip


@pytest.mark.parametrize("algorithm", [RaMDP(kappa=0.003), DUIPI(xi=1.0)], ids=lambda a: a.id)
def test_penalising(benchmark, figures, algorithm):
    counts, baselines = counted(N_PROBLEMS)
    problems = stacked(counts, baselines)
    done = benchmark.pedantic(lambda: algorithm.search(problems), rounds=5, warmup_rounds=1)
    ours = benchmark.stats.stats.median / N_PROBLEMS
    peer, ratio = "", None
    if isinstance(algorithm, DUIPI):
        model = counts[0].to_mdp(GAMMA)
        start = clock()
        reference_successors.duipi(
            model.dense, model.ending, model.reward, counts[0].n_sa.astype(float), GAMMA,
            baselines[0].probabilities, xi=1.0, prior=0.0, n_sweeps=int(done.n_iterations[0]),
        )  # fmt: skip
        took = clock() - start
        peer, ratio = f"{1e3 * took:.0f} ms (loops)", took / ours
    steps = done.n_iterations.mean()
    figures(
        f"{algorithm.id}, with evaluation ({steps:.1f} steps)", f"{1e6 * ours:.0f} us", peer, ratio
    )


def test_exact_against_approximate(figures):
    ratio = MEDIANS["exact-soft-spibb"] / MEDIANS["approx-soft-spibb"]
    figures("exact soft / approximate soft", f"{ratio:.2f} times")


@pytest.mark.parametrize("n_actions", [4, 9, 25])
def test_exact_row(benchmark, figures, n_actions):
    rng = np.random.default_rng(2)
    n_rows = 100_000
    q = rng.normal(size=(n_rows, n_actions))
    baseline = rng.dirichlet(np.ones(n_actions), n_rows)
    errors = rng.exponential(size=(n_rows, n_actions))
    benchmark.pedantic(lambda: soft_exact_step(q, baseline, errors, 0.5), rounds=7, warmup_rounds=1)
    ours = benchmark.stats.stats.median / n_rows
    start = clock()
    for row in range(100):
        reference.soft_exact_row(q[row], baseline[row], errors[row], 0.5)
    peer = (clock() - start) / 100
    start = clock()
    soft_approx_step(q, baseline, errors, 0.5)
    approximate = (clock() - start) / n_rows
    figures(
        f"one exact row, {n_actions} actions (approximate {1e6 * approximate:.2f} us)",
        f"{1e6 * ours:.2f} us",
        f"{1e6 * peer:.0f} us (linprog)",
        peer / ours,
    )


def test_large_dense_problem(benchmark, figures):
    counts = dense_counts(700, 25)
    baseline = TabularPolicy.uniform(700, 25)
    algorithm = ExactSoftSPIBB(epsilon=1.0)
    # A start is given, since counts without episodes are certified only for a given one.
    given = {"initial": np.full(700, 1 / 700), "reward_range": (-1.0, 1.0)}

    def improve():
        algorithm.improve(counts, baseline=baseline, gamma=GAMMA, **given)

    benchmark.pedantic(improve, rounds=3, warmup_rounds=1)
    tracemalloc.start()
    improve()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    model = 700 * 25 * 700 * 8
    figures(
        "exact-soft-spibb with certificate, 700 states x 25 actions, dense",
        f"{benchmark.stats.stats.median:.2f} s",
        f"memory {peak / model:.1f} x model",
    )


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--overwrite", "--out"]])
def test_command_line_start(benchmark, figures, arguments, tmp_path):
    command = [sys.executable, "-m", "spibb", *arguments]
    if "--out" in arguments:
        command.append(str(tmp_path / "out"))
    benchmark.pedantic(
        lambda: subprocess.run(command, check=True, capture_output=True), rounds=5, warmup_rounds=1
    )
    figures(f"spibb {arguments[0]}, whole command", f"{benchmark.stats.stats.median:.2f} s")
