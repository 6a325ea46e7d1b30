"""Compile every kernel once, so that the first real call does not wait: ``python -m ...warmup``."""

import tempfile
from pathlib import Path

import numpy as np

from spibb.algorithms.basic_rl import BasicRL
from spibb.algorithms.registry import ALGORITHMS
from spibb.algorithms.soft_spibb import ApproxSoftSPIBB
from spibb.confounding.sensitivity import find_sensitivity
from spibb.data.baseline import estimate_baseline
from spibb.data.log import Log
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy
from spibb.operators import soft_exact_step
from spibb.problem import Limits
from spibb.uncertainty.error_functions import EmpiricalBernstein, HoeffdingP


def warm_up() -> None:
    """Run every algorithm on a problem of two states."""
    rng = np.random.default_rng(0)
    mdp = TabularMDP(
        transition=[[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]],
        reward=[[0.0, 1.0], [0.0, 0.0]],
        gamma=0.9,
        terminal=[False, True],
    )
    baseline = TabularPolicy.uniform(2, 2)
    log = Log.sample(mdp, baseline, n_episodes=20, max_steps=20, rng=rng)
    settings = [kind() for kind in ALGORITHMS.values()]
    settings += [ApproxSoftSPIBB(error=HoeffdingP()), ApproxSoftSPIBB(error=EmpiricalBernstein())]
    for algorithm in settings:
        algorithm.improve(log, baseline=baseline, gamma=0.9)
    BasicRL().improve(log, baseline=baseline, gamma=1.0)
    BasicRL().improve(log, baseline=baseline, gamma=0.9, limits=Limits(no_increase=["0"]))
    find_sensitivity(log, np.eye(2), baseline.probabilities, 0.9)
    estimate_baseline(log)
    soft_exact_step([0.0, 1.0], [0.5, 0.5], [1.0, 1.0], 0.1)
    with tempfile.TemporaryDirectory() as folder:  # quotation marks are checked by a kernel
        baseline.write(Path(folder) / "policy.csv")
        TabularPolicy.read(Path(folder) / "policy.csv")


if __name__ == "__main__":
    warm_up()
