"""How much ``auto-spibb`` gains, and how often it does harm: ``python benchmarks/risk_cells.py``.

Logs of several sizes from processes whose truth is known; normalised gain over the baseline, mean
and 5 %-CVaR, the share of logs on which the policy is worse than the baseline, and seconds a log.
``--runs`` logs of each cell from ``--seed`` on; ``--only`` some of the processes.
"""

import argparse
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spibb import AutoSPIBB, Counts, PiLeqBSPIBB, Problem, TabularMDP, TabularPolicy
from spibb.algorithms.base import Algorithm
from spibb.envs import Cliff, Garnet, Inventory, Maintenance, Queue, RareAction
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import evaluate_batch
from spibb.mdp.planning import solve
from spibb.problem import ProblemBatch

SIZES = (10, 20, 50, 100, 200, 500)
ALGORITHMS: tuple[Algorithm, ...] = (AutoSPIBB(), PiLeqBSPIBB(n_wedge=10))


@dataclass(frozen=True)
class Cells:
    """A process.

    Attributes:
        make: Draws the process and its baseline.
        max_steps: Steps of an episode.
    """

    make: Callable[[np.random.Generator], tuple[TabularMDP, TabularPolicy]]
    max_steps: int = 50


def _garnet(eta: float) -> Cells:
    def make(rng: np.random.Generator) -> tuple[TabularMDP, TabularPolicy]:
        garnet = Garnet.random(rng)
        return garnet.mdp, garnet.baseline(eta, rng)

    return Cells(make, 1_000)


PROCESSES = {
    "random MDPs, eta .9": _garnet(0.9),
    "random MDPs, eta .5": _garnet(0.5),
    "maintenance": Cells(lambda _: (Maintenance().to_mdp(0.95), Maintenance().baseline(0.1))),
    "queue": Cells(lambda _: (Queue().to_mdp(0.95), Queue().baseline(0.1))),
    "inventory": Cells(lambda _: (Inventory().to_mdp(0.95), Inventory().baseline(0.1))),
    "rare and best": Cells(lambda _: (RareAction().to_mdp(0.9), RareAction().baseline(0.3)), 40),
    "rare and ruinous": Cells(
        lambda _: (RareAction(is_ruinous=True).to_mdp(0.9), RareAction().baseline(0.3)), 40
    ),
    "cliff": Cells(lambda _: (Cliff().to_mdp(0.99), Cliff().baseline(0.3)), 200),
}


def gains(cells: Cells, name: str, size: int, runs: range, seconds: dict[str, float]) -> np.ndarray:
    """Return normalised gains, shape (algorithms, runs), and add up the seconds of algorithms."""
    problems, truths = [], []
    for run in runs:
        rng = np.random.default_rng([zlib.crc32(name.encode()), run])
        truth, baseline = cells.make(rng)
        rng = np.random.default_rng([zlib.crc32(name.encode()), run, size])
        counts = Counts.sample(truth, baseline, n_episodes=size, max_steps=cells.max_steps, rng=rng)
        truths.append(truth)
        problems.append(Problem.of(counts, baseline=baseline, gamma=truth.gamma))
    batch, models = ProblemBatch.of(problems), ModelBatch.stack(truths)
    best = np.array([solve(truth).performance for truth in truths])

    def performance(policies: np.ndarray) -> np.ndarray:
        return np.asarray((evaluate_batch(models, policies)[0] * models.initial).sum(axis=1))

    old = performance(batch.baseline.copy())
    new = []
    for one in ALGORITHMS:
        began = time.perf_counter()
        policies = one.search(batch).policy
        seconds[one.id] = seconds.get(one.id, 0.0) + time.perf_counter() - began
        new.append(performance(policies))
    return np.asarray((new - old) / (best - old))


def cvar(values: np.ndarray) -> float:
    """Return the mean of the worst twentieth."""
    return float(np.sort(values)[: max(1, round(0.05 * len(values)))].mean())


def main() -> None:
    """Print a table for each process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=5_000)
    parser.add_argument("--only", default=",".join(PROCESSES))
    given = parser.parse_args()
    runs = range(given.seed, given.seed + given.runs)
    for name, cells in PROCESSES.items():
        if name not in given.only:
            continue
        seconds: dict[str, float] = {}
        found = np.stack([gains(cells, name, size, runs, seconds) for size in SIZES], axis=1)
        for algorithm, rows in zip(ALGORITHMS, found, strict=True):
            told = " | ".join(f"{row.mean():.2f} / {cvar(row):.2f}" for row in rows)
            worse = " ".join(f"{100 * (row < -1e-9).mean():.0f}" for row in rows)
            cost = 1e3 * seconds[algorithm.id] / (len(SIZES) * given.runs)
            print(
                f"| {name} | {algorithm.id} | {told} | worse in {worse} % | {cost:.0f} ms",
                flush=True,
            )


if __name__ == "__main__":
    main()
