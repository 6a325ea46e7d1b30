"""HCPI and off-policy evaluation beside the slow loops of spibb.testing.reference_ope."""

import numpy as np
from problems import GAMMA, clock, garnet

from spibb import Log, TabularPolicy
from spibb.algorithms.hcpi import HCPI
from spibb.ope.bounds import bca
from spibb.ope.off_policy import OffPolicy
from spibb.ope.split import Split
from spibb.ope.trajectories import Trajectories
from spibb.problem import Problem, ProblemBatch
from spibb.testing import reference_ope

# A thousand logs of a thousand episodes would take 2 GB.
N_PROBLEMS = 200
N_EPISODES = 1_000


def make_logs(n_problems: int) -> list[tuple[Log, TabularPolicy]]:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(n_problems):
        mdp = garnet(rng)
        baseline = TabularPolicy(rng.dirichlet(np.ones(mdp.n_actions), mdp.n_states))
        log = Log.sample(mdp, baseline, n_episodes=N_EPISODES, max_steps=50, rng=rng)
        found.append((log, baseline))
    return found


def time_reference(log: Log, baseline: TabularPolicy, algorithm: HCPI) -> float:
    """Seconds for one run by plain loops, on the same split."""
    n_train = round(algorithm.train_share * N_EPISODES)
    split = Split.of(Trajectories.from_log(log), n_train, 2, np.random.default_rng(0))
    episodes = reference_ope.episodes_of(log)
    folds = [[episodes[i] for i in fold] for fold in split.folds]
    start = clock()
    reference_ope.hcpi(
        folds, [episodes[i] for i in split.test], baseline.probabilities, GAMMA,
        algorithm.mixtures, algorithm.delta, algorithm.pessimism,
    )  # fmt: skip
    return clock() - start


def test_hcpi(benchmark, figures):
    made = make_logs(N_PROBLEMS)
    problems = ProblemBatch.of([Problem.of(a, baseline=b, gamma=GAMMA) for a, b in made])
    algorithm = HCPI()
    done = benchmark.pedantic(lambda: algorithm.search(problems), rounds=9, warmup_rounds=2)
    ours = benchmark.stats.stats.median / N_PROBLEMS
    peer = float(np.median([time_reference(*part, algorithm) for part in made[:2]]))
    rows = np.mean([len(log) for log, _ in made])
    passed = np.mean([found.is_accepted for found in done.findings])
    figures(
        f"hcpi (dr, t), {N_EPISODES:,} episodes, {rows:,.0f} rows ({100 * passed:.0f} % pass)",
        f"{1e3 * ours:.2f} ms",
        f"{1e3 * peer:.0f} ms (loops)",
        peer / ours,
    )


def test_estimators(benchmark, figures):
    log, baseline = make_logs(1)[0]
    rng = np.random.default_rng(1)
    policy = 0.9 * baseline.probabilities + 0.1 * rng.dirichlet(np.ones(4), 50)
    episodes = Trajectories.from_log(log)
    slow = reference_ope.episodes_of(log)
    asked = (slow, policy, baseline.probabilities, GAMMA)

    def terms() -> None:
        # A new object each time: walks are kept.
        off = OffPolicy(episodes, policy, baseline.probabilities, GAMMA)
        for name in ("is", "pdis", "wis", "cwpdis"):
            _ = off.statistic(name, rng).estimate

    benchmark.pedantic(terms, rounds=15, warmup_rounds=2)
    ours = benchmark.stats.stats.median
    start = clock()
    reference_ope.importance_sampling(*asked)
    reference_ope.per_decision(*asked)
    reference_ope.weighted(*asked)
    reference_ope.stepwise_weighted(*asked)
    peer = clock() - start
    figures(
        f"is, pdis, wis, cwpdis on {N_EPISODES:,} episodes",
        f"{1e3 * ours:.2f} ms",
        f"{1e3 * peer:.0f} ms (loops)",
        peer / ours,
    )


def test_bca_of_cwpdis(benchmark, figures):
    import scipy.stats

    log, baseline = make_logs(1)[0]
    rng = np.random.default_rng(1)
    policy = 0.9 * baseline.probabilities + 0.1 * rng.dirichlet(np.ones(4), 50)
    off = OffPolicy(Trajectories.from_log(log), policy, baseline.probabilities, GAMMA)
    stepwise, weighted = (off.statistic(name, rng) for name in ("cwpdis", "wis"))
    benchmark.pedantic(lambda: bca(stepwise, 0.05, rng), rounds=3, warmup_rounds=1)
    start = clock()
    bca(weighted, 0.05, rng)
    ours = clock() - start
    start = clock()
    scipy.stats.bootstrap(
        (weighted.weight, weighted.values), lambda w, x, axis: (w * x).sum(axis) / w.sum(axis),
        paired=True, vectorized=True, n_resamples=2_000, method="BCa", rng=rng,
    )  # fmt: skip
    peer = clock() - start
    figures(
        f"BCa, 2,000 resamples of {N_EPISODES:,} episodes: wis "
        f"(cwpdis {1e3 * benchmark.stats.stats.median:.0f} ms)",
        f"{1e3 * ours:.0f} ms",
        f"{1e3 * peer:.0f} ms (scipy)",
        peer / ours,
    )
