"""Pseudo-counts of 10,000 states in 10,000 transitions, beside SciPy, and helicopters a second."""

import time

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from spibb.deep.pseudo_counts import KernelCounts
from spibb.deep.transitions import Transitions
from spibb.envs import Helicopter

WIDTH = 0.2


def by_scipy(data: Transitions) -> np.ndarray:
    """All distances, action by action, in NumPy and SciPy."""
    columns = [
        np.maximum(0, 1 - cdist(data.state, data.state[data.action == a]) / WIDTH).sum(axis=1)
        for a in range(data.n_actions)
    ]
    return np.stack(columns, axis=1)


def test_kernel_counts(benchmark):
    helicopter = Helicopter()
    rng = np.random.default_rng(0)
    data = helicopter.collect(helicopter.baseline().action_probabilities, 10_000, rng)
    fitted = KernelCounts(WIDTH).fit(data)
    found = benchmark(lambda: fitted.counts(data.state))
    start = time.perf_counter()
    expected = by_scipy(data)
    peer = time.perf_counter() - start
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    ours = benchmark.stats["mean"]
    print(f"\n10,000 x 10,000 counts: {1_000 * ours:.0f} ms, SciPy {peer / ours:.0f} times that")
    assert ours < 2.0


@pytest.mark.parametrize("kind", ["n_episodes", "n_steps"])
def test_helicopters(benchmark, kind):
    helicopter = Helicopter()
    policy = helicopter.baseline().action_probabilities
    length = {"n_episodes": 20_000} if kind == "n_episodes" else {"n_steps": 1_000, "n_runs": 300}
    found = benchmark.pedantic(lambda: helicopter.run_episodes(policy, [0], **length), rounds=3)
    rate = found.n_steps.sum() / benchmark.stats["mean"]
    print(f"\n{kind}: {rate / 1e6:.2f} million steps a second, network included")
