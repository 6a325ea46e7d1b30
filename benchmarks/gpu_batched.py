"""The batched engine, for networks of any shape, on a GPU: ``python benchmarks/gpu_batched.py``.

Gradient steps a second, summed over a population of the paper's network; needs the extra gpu. The
fused kernel, which serves networks that fit, is timed by ``benchmarks/gpu_training.py``.
"""

import time

import numpy as np
import torch
from gpu_training import SIZES, SOFT, population

from spibb.deep.population import PopulationState
from spibb.deep.rules import ApproxSoftSPIBBDQN, DoubleDQN, ExactSoftSPIBBDQN, PiBSPIBBDQN, Rule
from spibb.deep.train_torch import TorchEngine

# The first launch of a graph is not timed, nor is carrying the state to and fro.
_FIRST, _SHORT, _LONG = 100, 100, 1_100


def speed(rules: list[Rule], n_members: int) -> float:
    """Return gradient steps a second."""
    trainings = population(rules, n_members)
    engine = TorchEngine(trainings, "cuda")
    state = engine.advance(PopulationState.start(trainings.members, SIZES), _FIRST)
    spent = []
    for n_steps in (_SHORT, _LONG):
        torch.cuda.synchronize()
        began = time.perf_counter()
        state = engine.advance(state, n_steps)
        spent.append(time.perf_counter() - began)
    if not np.isfinite(state.params).all():
        print("   parameters are not finite")
    return n_members * (_LONG - _SHORT) / (spent[1] - spent[0])


def main() -> None:
    """Time some rules."""
    print(torch.cuda.get_device_name())
    for name, rules in (
        ("double-dqn", [DoubleDQN()]),
        ("pi-b-spibb-dqn", [PiBSPIBBDQN(n_wedge=5)]),
        ("approx-soft-spibb-dqn", [ApproxSoftSPIBBDQN(epsilon=0.5)]),
        ("exact-soft-spibb-dqn", [ExactSoftSPIBBDQN(epsilon=0.5)]),
        ("soft, both steps", SOFT),
    ):
        for n_members in (240, 2_400):
            found = speed(rules, n_members)
            print(f"{name:24} {n_members:5d} members: {found / 1e6:.3f} million steps/s",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
