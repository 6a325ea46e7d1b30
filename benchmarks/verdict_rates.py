"""How often each verdict of a report is wrong: ``python benchmarks/verdict_rates.py``.

Logs of several sizes from processes whose truth is known, improved by careful and by careless
algorithms; of each verdict, how many results had it, in how many of them the policy is truly worse
than the baseline, and what the policies gain on average, as a share of what there is to gain.
``--runs`` logs of each cell from ``--seed`` on.
"""

import argparse
import zlib
from multiprocessing import get_context

import numpy as np

from spibb import (
    ApproxSoftSPIBB,
    Assessment,
    AutoSPIBB,
    BasicRL,
    PiLeqBSPIBB,
    Problem,
    evaluate,
    solve,
)
from spibb.algorithms.base import Algorithm
from spibb.assessment.verdict import Decision
from spibb.studies.risk.problems import PROBLEMS

NAMES = ("random-mdps-0.9", "random-mdps-0.5", "maintenance", "queue", "inventory", "rare-best",
         "rare-ruinous", "cliff", "wards", "wards-alike", "corridors-alike", "noisy-random-mdps",
         "jackpots")  # fmt: skip
SIZES = (20, 100, 500)
ALGORITHMS: tuple[Algorithm, ...] = (
    AutoSPIBB(), ApproxSoftSPIBB(), ApproxSoftSPIBB(epsilon=4.0, delta=1.0),
    PiLeqBSPIBB(n_wedge=5), BasicRL(),
)  # fmt: skip


def judge(asked: tuple[str, int]) -> list[tuple[Decision, float]]:
    """Return verdicts on the policies of a run on a problem, and what they gain."""
    name, run = asked
    rng = np.random.default_rng([zlib.crc32(name.encode()), run])
    cell, found = PROBLEMS[name], []
    truth, baseline = made = cell.make(rng)
    old, best = evaluate(truth, baseline).performance, solve(truth).performance
    for size in SIZES:
        log = cell.sample(made, size, rng)
        problem = Problem.of(log, baseline=baseline, gamma=truth.gamma)
        for algorithm in ALGORITHMS:
            result = algorithm.improve(problem)
            gain = evaluate(truth, result.policy).performance - old
            found.append((Assessment.of(result).verdict.decision, gain / (best - old)))
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=9_000)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    every: list[tuple[Decision, float]] = []
    print("| process | verdict | policies | worse | mean gain | least |")
    print("|---|---|---|---|---|---|")
    runs = range(given.seed, given.seed + given.runs)
    with get_context("spawn").Pool(given.workers) as pool:
        for name in NAMES:
            judged = pool.imap(judge, [(name, run) for run in runs])
            mine = [one for found in judged for one in found]
            _tell(PROBLEMS[name].title, mine)
            every += mine
    _tell("**all**", every)


def _tell(name: str, found: list[tuple[Decision, float]]) -> None:
    for decision in Decision:
        print(_row(decision, name, [gain for one, gain in found if one is decision]), flush=True)


def _row(decision: Decision, name: str, gains: list[float]) -> str:
    values = np.array(gains or [np.nan])
    worse = int((values < -1e-9).sum())
    told = f"{len(gains)} | {worse} | {values.mean():.2f} | {values.min():.2f}"
    return f"| {name} | {decision} | {told} |"


if __name__ == "__main__":
    main()
