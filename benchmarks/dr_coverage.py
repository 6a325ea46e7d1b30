"""How often intervals of ``dr`` miss, and whether they warn: ``python benchmarks/dr_coverage.py``.

    python benchmarks/dr_coverage.py [--logs 300] [--seed 0]

Cells are processes with few telling episodes, at several sizes, and benign ones. A line gives the
share of logs whose 95 % interval misses the truth, the share that carries a warning, the misses
without one, and the median number of equal squares that the terms count as. The exit code is 1 if a
cell misses by more than three points and fewer than 95 % of its logs carry a warning.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np

from spibb import Log, TabularMDP, TabularPolicy, evaluate
from spibb.ope import evaluate_policy
from spibb.ope.off_policy import OffPolicy
from spibb.ope.weights import effective_sample_size
from spibb.problem import Problem
from spibb.testing.checks import random_problem

LEVEL, SLACK, WARNED = 0.05, 0.03, 0.95
Paid = Callable[[np.random.Generator, np.ndarray], np.ndarray]


def chain(reward: list[list[float]], forward: float, n_steps: int = 4) -> TabularMDP:
    """Return a chain whose action 1 goes on with a probability and whose end pays."""
    transition, ending = np.zeros((n_steps, 2, n_steps)), np.ones((n_steps, 2))
    for x in range(n_steps - 1):
        transition[x, :, x + 1] = [0.3, forward]
        ending[x] = [0.7, 1.0 - forward]
    table = np.zeros((n_steps, 2))
    table[-1] = reward[0]
    table[:-1] = reward[1]
    return TabularMDP(transition, table, 0.95, np.eye(n_steps)[0], ending=ending)


def one_state(mean: list[float]) -> TabularMDP:
    """Return a process of one state and one step."""
    n = len(mean)
    return TabularMDP(np.zeros((1, n, 1)), [mean], 0.0, ending=np.ones((1, n)))


def scaled(shape: Callable[[np.random.Generator, int], np.ndarray]) -> Paid:
    """Return rewards of the same means that are multiplied by positive numbers of mean 1."""
    return lambda rng, reward: reward * shape(rng, len(reward))


def cells() -> dict[str, tuple[TabularMDP, TabularPolicy, TabularPolicy, Paid | None]]:
    """Return process, baseline, policy and noise of rewards, by name."""
    both = TabularPolicy([[0.5, 0.5]] * 4), TabularPolicy([[0.2, 0.8]] * 4)
    arms = TabularPolicy([[0.7, 0.3]]), TabularPolicy([[0.3, 0.7]])
    trap, falls = np.zeros((2, 2, 2)), np.array([[1.0, 0.98], [1.0, 1.0]])
    trap[0, 1, 1] = 0.02
    fall = TabularMDP(trap, [[0.5, 0.7], [-20.0, -20.0]], 0.95, [1.0, 0.0], ending=falls)
    pair = TabularPolicy([[0.5, 0.5]] * 2), TabularPolicy([[0.1, 0.9]] * 2)
    found = {
        "sparse end": (chain([[1.0, 1.0], [0.0, 0.0]], 0.4), *both, None),
        "trap": (fall, *pair, None),
        "Pareto": (one_state([1.0, 1.2]), *arms, scaled(lambda g, n: (g.pareto(2.5, n) + 1) * 0.6)),
        "lognormal": (
            one_state([1.0, 1.2]), *arms, scaled(lambda g, n: g.lognormal(-1.125, 1.5, n)),
        ),
        "coins": (
            one_state([0.4, 0.5]), *arms,
            lambda rng, reward: (rng.random(len(reward)) < reward).astype(float),
        ),
    }  # fmt: skip
    for name, share in (("random, near", 0.2), ("random, far", 0.5)):
        mdp, baseline, _ = random_problem(1)
        mdp = mdp.with_reward(np.abs(mdp.reward))
        other = np.random.default_rng(8).dirichlet(np.ones(3), 6)
        policy = TabularPolicy((1 - share) * baseline.probabilities + share * other)
        found[name] = (mdp, baseline, policy, None)
    return found


def tally(name: str, n: int, bound: str, first: int, last: int, seed: int) -> np.ndarray:
    """Return whether it misses, whether it warns, and equal squares, for some logs."""
    mdp, baseline, policy, noise = cells()[name]
    truth, found = evaluate(mdp, policy).performance, []
    for k in range(first, last):
        rng = np.random.default_rng([seed, n, k])
        log = Log.sample(mdp, baseline, n_episodes=n, max_steps=1_000, rng=rng)
        if noise is not None:
            log = replace(log, reward=noise(rng, log.reward))
        asked = {"policy": policy, "baseline": baseline, "gamma": mdp.gamma}
        result = evaluate_policy(log, **asked, bound=bound, estimators=["dr"])
        part, problem = result["dr"], Problem.of(log, baseline=baseline, gamma=mdp.gamma)
        terms = OffPolicy.of(problem, policy).statistic("dr", np.random.default_rng(0)).terms
        squares = float(effective_sample_size((terms - terms.mean()) ** 2))
        misses = not part.interval[0] <= truth <= part.interval[1]
        found.append((misses, bool(part.warnings or result.warnings), squares))
    return np.array(found, dtype=float)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    asked, silent = parser.parse_args(), []
    print(f"{asked.logs} logs a cell, seed {asked.seed}; 95 % intervals of dr, in %.\n")
    print("| cell | episodes | bound | misses | warned | misses unwarned | equal squares |")
    print("|---" * 7 + "|")
    with ProcessPoolExecutor() as pool:
        keys = [
            (name, n, bound)
            for name in cells()
            for n in (100, 300, 1_000)
            for bound in ("bca", "student-t")
        ]
        jobs = [
            [
                pool.submit(tally, *key, k, min(k + 50, asked.logs), asked.seed)
                for k in range(0, asked.logs, 50)
            ]
            for key in keys
        ]
        for (name, n, bound), parts in zip(keys, jobs, strict=True):
            rows = np.concatenate([part.result() for part in parts])
            misses, warned = rows[:, 0].mean(), rows[:, 1].mean()
            unwarned = (rows[:, 0] * (1.0 - rows[:, 1])).mean()
            shares = " | ".join(f"{100 * x:.1f}" for x in (misses, warned, unwarned))
            squares = f"{np.median(rows[:, 2]):.0f}"
            print(f"| {name} | {n:,} | {bound} | {shares} | {squares} |", flush=True)
            if misses > LEVEL + SLACK and warned < WARNED:
                silent.append(f"{name}, {n:,}, {bound}")
    for name in silent:
        print(f"MISSES WITHOUT A WARNING: {name}")
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
