"""Train on the CPU and on the GPU and print the largest differences, as JSON.

Run as a script: on a machine with a GPU, or with NUMBA_ENABLE_CUDASIM=1 in Numba's simulator, which
executes the very kernels thread by thread.
"""

import json
import sys

import numpy as np

import spibb
from spibb.envs.garnet import Garnet

ALGORITHMS = [
    spibb.BasicRL(),
    spibb.PiBSPIBB(n_wedge=5),
    spibb.PiLeqBSPIBB(n_wedge=5),
    spibb.ExactSoftSPIBB(epsilon=0.5, delta=1.0),
    spibb.ApproxSoftSPIBB(epsilon=0.5, delta=1.0),
    spibb.ApproxSoftSPIBB(epsilon=0.5, delta=1.0, max_iterations=1),
    spibb.ExactLowerSoftSPIBB(epsilon=0.5, delta=1.0),
    spibb.RaMDP(kappa=0.003),
    spibb.RMin(n_wedge=3),
]


def compare(n_states: int, n_actions: int, n_problems: int) -> dict[str, float]:
    """Return how far values on the two are apart; policies may differ where actions tie."""
    rng = np.random.default_rng(0)
    garnet = Garnet.random(rng, n_states=n_states, n_actions=n_actions, n_successors=2)
    baselines = [garnet.baseline(0.5, rng) for _ in range(n_problems)]
    counts = [
        spibb.Counts.sample(garnet.mdp, one, n_episodes=30, max_steps=30, rng=rng)
        for one in baselines
    ]
    cpu, gpu = (
        spibb.improve_many(ALGORITHMS, counts, baselines=baselines, gamma=0.95, device=device)
        for device in ("cpu", "cuda")
    )
    old = np.stack([one.probabilities for one in baselines])
    return {
        "values": float(np.abs(cpu.v - gpu.v).max()),
        "baselines": float(np.abs(cpu.baseline_v - gpu.baseline_v).max()),
        "changed": float(np.abs(cpu.probabilities - old).max()),
    }


if __name__ == "__main__":
    print(json.dumps(compare(*(int(part) for part in sys.argv[1:]))))
