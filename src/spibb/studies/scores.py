"""How good policies are in truth, between the baseline (0) and the optimum (1)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import evaluate_batch
from spibb.studies.metrics import Floats, normalised_performance


def score_policies(
    truth: ModelBatch, baseline: Floats, policies: Iterable[Floats], best: ArrayLike
) -> NDArray[np.float32]:
    """Return (rho - rho_b) / (rho* - rho_b) in the true processes, shape (settings, problems).

    Args:
        truth: The process of each problem.
        baseline: The baselines, shape (problems, S, A).
        policies: The policies of each setting, likewise.
        best: The performance of the optimum.
    """

    def performance(policy: Floats) -> Floats:
        return np.asarray((truth.initial * evaluate_batch(truth, policy)[0]).sum(axis=1))

    old = performance(baseline)
    found = [normalised_performance(performance(policy), old, best) for policy in policies]
    return np.array(found, dtype=np.float32)
