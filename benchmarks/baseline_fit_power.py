"""Count what the test of the baseline finds: in sound logs, and where rare states differ.

    python benchmarks/baseline_fit_power.py [--logs 10000] [--seed 5]

A difference is spread over states that are seen once or twice. It is looked for by bets in single
states alone, and by all bets. The last lines are processor times of the test on one table.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from spibb.data.baseline_fit import (
    _CLOSENESS,
    FIT_LEVEL,
    _log_mean,
    _log_ratio,
    _ratios,
    _write_ratios,
    baseline_fit,
)

# States, episodes, how often the log takes an action there, and how often the baseline would.
SPREAD = (
    (20_000, 1_000, 0.9, 0.2),
    (5_000, 1_000, 0.8, 0.4),
    (2_000, 1_000, 0.7, 0.4),
    (20_000, 1_000, 0.8, 0.5),
    (2_000, 600, 0.8, 0.5),
)
N_SPREAD = 200
ROUNDS = 2_000


def small_log(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the counts of a log of one to a thousand rows, and the baseline that made it."""
    shape = int(rng.integers(1, 200)), int(rng.integers(2, 6))
    b = rng.dirichlet(np.full(shape[1], rng.choice([0.1, 1.0, 10.0])), shape[0])
    often = rng.dirichlet(np.full(shape[0], rng.choice([0.1, 1.0])))
    rows = rng.multinomial(int(10 ** rng.uniform(0, 3)), often)
    return np.array([rng.multinomial(k, row) for k, row in zip(rows, b, strict=True)]), b


def spread_log(
    rng: np.random.Generator, n_states: int, n_episodes: int, taken: float, said: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return counts of episodes half of which go to one of many states, and the baseline."""
    n_rare = int(rng.binomial(n_episodes, 0.5))
    rows = np.bincount(rng.integers(0, n_states, n_rare), minlength=n_states)
    ones = rng.binomial(rows, taken)
    rare = np.stack([rows - ones, ones], axis=1)
    b = np.tile([[1.0 - said, said]], (n_states + 1, 1))
    b[0] = 0.5
    return np.concatenate([[[n_episodes - n_rare, n_rare]], rare]), b


def by_single_states(n: np.ndarray, b: np.ndarray) -> float:
    """Return the p-value of bets in single states alone."""
    return float(np.exp(min(0.0, -_log_mean(_ratios(n, b).sum(axis=1)))))


def microseconds(function: Callable[[], object]) -> float:
    """Return the median processor time of a call, after one that compiles."""
    function()
    found = []
    for _ in range(20):
        start = time.process_time()
        for _ in range(ROUNDS // 20):
            function()
        found.append((time.process_time() - start) / (ROUNDS // 20))
    return 1e6 * float(np.median(found))


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=5)
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    sound = np.array([baseline_fit(*small_log(rng)).p_value for _ in range(asked.logs)])
    for level in (0.05, FIT_LEVEL):
        print(f"sound logs with p < {level:g}: {int((sound < level).sum())} of {len(sound):,}")
    for cell in SPREAD:
        logs = [spread_log(rng, *cell) for _ in range(N_SPREAD)]
        single = sum(by_single_states(*one) < FIT_LEVEL for one in logs)
        fits = [baseline_fit(*one) for one in logs]
        seen = sum(one.p_value < FIT_LEVEL for one in fits)
        refused = sum(one.is_refused for one in fits)
        print(
            f"{cell[0]:,} states, {cell[1]:,} episodes, {cell[2]:.0%} instead of {cell[3]:.0%}: "
            f"seen in single states {single}, by all bets {seen}, refused {refused} of {N_SPREAD}"
        )
    b = rng.dirichlet(np.ones(4), 50)
    n = rng.multinomial(20, b)
    room = np.empty((len(_CLOSENESS), len(n)))
    single_time = microseconds(lambda: _write_ratios(n, b, _CLOSENESS, room))
    all_time = microseconds(lambda: _log_ratio(n, b))
    print(f"50 x 4: {single_time:.1f} us for single states, {all_time:.1f} us for all bets")


if __name__ == "__main__":
    main()
