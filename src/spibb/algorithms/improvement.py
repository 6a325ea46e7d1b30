"""What every algorithm returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.certify.certificate import Certificate
from spibb.data.counts import Counts
from spibb.mdp.evaluation import Evaluation
from spibb.mdp.model import TabularMDP
from spibb.mdp.planning import Status
from spibb.mdp.policy import TabularPolicy


@dataclass(frozen=True, eq=False)
class Improvement:
    """A policy, its values in the estimated model, how it was found, and what is guaranteed.

    Attributes:
        policy: The improved policy.
        q: Q of that policy in the estimated model, shape (S, A).
        v: V of that policy in the estimated model, shape (S,).
        status: How the run ended; its value is advice.
        n_iterations: Improvement steps that were made.
        certificate: What is guaranteed and what was checked.
        baseline: The baseline and its values in the estimated model.
        model: The estimated model.
        counts: The counts it was estimated from.
        algorithm: The settings, as ``to_config`` gives them.
    """

    policy: TabularPolicy
    q: NDArray[np.float64]
    v: NDArray[np.float64]
    status: Status
    n_iterations: int
    certificate: Certificate
    baseline: Evaluation
    model: TabularMDP
    counts: Counts
    algorithm: dict[str, Any]

    @property
    def performance(self) -> float:
        """Estimated performance of the policy: V averaged over the first state."""
        return float(self.model.initial @ self.v)

    @property
    def estimated_gain(self) -> float:
        """Estimated performance minus the baseline's."""
        return self.performance - self.baseline.performance
