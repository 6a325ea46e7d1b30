"""Pseudo-counts and flights on a GPU: ``python benchmarks/gpu_helicopter.py``, with extra deep."""

import time
from collections.abc import Callable

import numpy as np
import torch

from spibb.deep.pseudo_counts import KernelCounts
from spibb.envs.helicopter import Helicopter


def seconds(task: Callable[[], object]) -> float:
    """Return the seconds of a call after a first one."""
    task()
    torch.cuda.synchronize()
    start = time.perf_counter()
    task()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def main() -> None:
    """Time the counts of a data set, and flights of a population with and without counting."""
    helicopter = Helicopter()
    baseline = helicopter.baseline()
    data = helicopter.collect(baseline.action_probabilities, 10_000, np.random.default_rng(0))
    fitted = KernelCounts().fit(data)
    states = torch.as_tensor(data.state, device="cuda")
    gap = np.abs(fitted.counts(states).cpu().numpy() - fitted.counts(data.state)).max()
    print(
        f"10,000 x 10,000 counts: {1e3 * seconds(lambda: fitted.counts(states)):.2f} ms, ", end=""
    )
    print(f"largest difference from the CPU {gap:.1e}")

    def counting(states: torch.Tensor) -> torch.Tensor:
        # What a policy of the SPIBB family must do besides its network.
        fitted.counts(states)
        return baseline.action_probabilities(states)

    seeds = np.arange(300)
    for name, policy in (
        ("network", baseline.action_probabilities),
        ("network and counts", counting),
    ):
        for length in ({"n_episodes": 1_000}, {"n_steps": 1_000}):
            spent = seconds(
                lambda p=policy, n=length: helicopter.run_episodes(p, seeds, device="cuda", **n)
            )
            found = helicopter.run_episodes(policy, seeds, device="cuda", **length)
            rate = found.n_steps.sum() / spent
            print(
                f"{name}, 300 members, {length}: {spent:.2f} s, {rate / 1e6:.2f} million steps a "
                f"second, mean {found.mean.mean():.3f}"
            )


if __name__ == "__main__":
    main()
