"""Per-decision importance sampling (Precup, Sutton, Singh 2000): the mean of sum_t g^t w_t r_t."""

from __future__ import annotations

import numpy as np

from spibb.ope.estimators.base import OneSidedEstimator
from spibb.ope.return_range import ReturnRange
from spibb.ope.statistics import Array
from spibb.ope.weights import Walk


class PerDecisionSampling(OneSidedEstimator):
    """The mean of returns of weighted rewards."""

    id = "pdis"
    title = "per-decision importance sampling"
    is_per_step = True

    def about(self, walk: Walk, end: float = 0.0) -> Array:
        """Return sum_t g^t w_t r_t - s end."""
        return np.asarray(walk.value - walk.spread * end)

    def ends(self, known: ReturnRange) -> tuple[float, float]:
        """Return the returns of the least and of the largest reward for ever."""
        return known.streams(self.id)
