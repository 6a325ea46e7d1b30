"""How far estimated baselines are from the true ones: the table of docs/loggers.md.

    python benchmarks/estimated_baseline.py [--logs 20]

Total variation, weighted by rows, of plain frequencies, of `estimate_baseline`, and of the same
without its last rule: actions that were never taken in a state get what the prior gives them. 30
states, 3 actions, logs of 5, 20 and 100 episodes.
"""

from __future__ import annotations

import argparse

import numpy as np

from spibb import Counts, Log, TabularPolicy, estimate_baseline
from spibb.data.baseline import STRENGTHS
from spibb.data.dirichlet import fit_dirichlet
from spibb.testing.checks import random_problem

KINDS = {
    "random rows": lambda rng, known: known,
    "the same in every state": lambda rng, known: np.tile(rng.dirichlet(np.ones(3)), (30, 1)),
    "deterministic": lambda rng, known: np.eye(3)[rng.integers(0, 3, 30)],
    "90 % one action": lambda rng, known: 0.9 * np.eye(3)[rng.integers(0, 3, 30)] + 0.1 / 3,
}


def distances(kind: str, n_episodes: int, seed: int) -> tuple[float, ...]:
    """Return the rows of a log, and how far each estimate is from its policy."""
    mdp, known, _ = random_problem(seed, n_states=30, n_episodes=3)
    rng = np.random.default_rng(seed)
    truth = KINDS[kind](rng, known.probabilities)
    log = Log.sample(mdp, TabularPolicy(truth), n_episodes=n_episodes, max_steps=50, rng=rng)
    n_sa = Counts.from_log(log).n_sa.astype(float)
    n = n_sa.sum(axis=1)
    g, m = fit_dirichlet(n_sa, STRENGTHS)
    tables = (
        estimate_baseline(log, shrink=False).probabilities,
        estimate_baseline(log).probabilities,
        (n_sa + m * g) / (n[:, None] + m),
    )
    off = (n @ np.abs(table - truth).sum(axis=1) / 2.0 / n.sum() for table in tables)
    return len(log), *off


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=int, default=20)
    n_logs = parser.parse_args().logs
    print("| policy | rows | frequencies | estimate | without the rule |\n|---|---|---|---|---|")
    for kind in KINDS:
        cells = [
            np.mean([distances(kind, n, seed) for seed in range(n_logs)], axis=0)
            for n in (5, 20, 100)
        ]
        rows = ", ".join(f"{cell[0]:,.0f}" for cell in cells)
        told = (", ".join(f"{cell[k]:.3f}" for cell in cells) for k in (1, 2, 3))
        print(f"| {kind} | {rows} | {' | '.join(told)} |")


if __name__ == "__main__":
    main()
