"""How often each verdict of a report is wrong: ``python benchmarks/verdict_rates.py``.

Logs of several sizes from processes whose truth is known, improved by careful and by careless
algorithms; of each verdict, how many results had it, in how many of them the policy is truly worse
than the baseline, and what the policies gain on average, as a share of what there is to gain.
``--runs`` logs of each cell from ``--seed`` on.
"""

import argparse
import zlib
from collections import defaultdict

import numpy as np

from spibb import ApproxSoftSPIBB, AutoSPIBB, BasicRL, Log, PiLeqBSPIBB, Problem, evaluate, solve
from spibb.algorithms.base import Algorithm
from spibb.report.verdict import Decision, decide
from spibb.studies.risk.problems import PROBLEMS

NAMES = ("random-mdps-0.9", "random-mdps-0.5", "maintenance", "queue", "inventory", "rare-best",
         "rare-ruinous", "cliff")  # fmt: skip
SIZES = (20, 100, 500)
ALGORITHMS: tuple[Algorithm, ...] = (
    AutoSPIBB(), ApproxSoftSPIBB(), ApproxSoftSPIBB(epsilon=4.0, delta=1.0),
    PiLeqBSPIBB(n_wedge=5), BasicRL(),
)  # fmt: skip


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=9_000)
    given = parser.parse_args()
    found = defaultdict(list)
    for name in NAMES:
        cells = PROBLEMS[name]
        for run in range(given.seed, given.seed + given.runs):
            rng = np.random.default_rng([zlib.crc32(name.encode()), run])
            truth, baseline = cells.make(rng)
            old, best = evaluate(truth, baseline).performance, solve(truth).performance
            for size in SIZES:
                log = Log.sample(
                    truth, baseline, n_episodes=size, max_steps=cells.max_steps, rng=rng
                )
                problem = Problem.of(log, baseline=baseline, gamma=truth.gamma)
                for algorithm in ALGORITHMS:
                    result = algorithm.improve(problem)
                    gain = evaluate(truth, result.policy).performance - old
                    found[decide(result).decision, name].append(gain / (best - old))
        for decision in Decision:
            print(_row(decision, name, found[decision, name]), flush=True)
    for decision in Decision:
        every = [gain for name in NAMES for gain in found[decision, name]]
        print(_row(decision, "all", every), flush=True)


def _row(decision: Decision, name: str, gains: list[float]) -> str:
    values = np.array(gains or [np.nan])
    worse = int((values < -1e-9).sum())
    told = f"{len(gains)} | {worse} | {values.mean():.2f} | {values.min():.2f}"
    return f"| {name} | {decision} | {told} |"


if __name__ == "__main__":
    main()
