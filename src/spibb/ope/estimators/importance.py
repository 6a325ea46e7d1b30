"""Importance sampling: the mean of w_T sum_t g^t r_t."""

from __future__ import annotations

import numpy as np

from spibb.ope.estimators.base import OneSidedEstimator
from spibb.ope.return_range import ReturnRange
from spibb.ope.statistics import Array
from spibb.ope.weights import Walk


class ImportanceSampling(OneSidedEstimator):
    """The mean of weighted returns."""

    id = "is"
    title = "importance sampling"
    is_of_returns = True

    def about(self, walk: Walk, end: float = 0.0) -> Array:
        """Return w_T (G - end)."""
        return np.asarray(walk.weight * (walk.gain - end)[:, None])

    def ends(self, known: ReturnRange) -> tuple[float, float]:
        """Return the range of returns."""
        return known.low, known.high
