"""Betting bounds beside bisection with plain loops: ``make bench``. Under 1 ms is the aim."""

import numpy as np
from problems import clock

from spibb.ope.betting import FRACTIONS, betting
from spibb.testing import reference_ope

N_EPISODES = 1_000


def test_betting(benchmark, figures):
    terms = np.exp(0.5 * np.random.default_rng(0).normal(size=N_EPISODES))
    found = benchmark(lambda: betting(terms, 0.05))
    ours = benchmark.stats.stats.median
    start = clock()
    slow = reference_ope.betting(terms.tolist(), FRACTIONS.tolist(), 0.05)
    peer = clock() - start
    assert abs(found - slow) < 1e-6
    figures(
        f"betting bound, {N_EPISODES:,} episodes, {len(FRACTIONS)} fractions",
        f"{1e3 * ours:.2f} ms",
        f"{1e3 * peer:.0f} ms (loops)",
        peer / ours,
    )
