"""Importance sampling: the mean of w_T sum_t g^t r_t, by whole episodes.

Per decision (Precup, Sutton, Singh 2000): the mean of sum_t g^t w_t r_t.
"""

from __future__ import annotations

import numpy as np

from spibb.ope.estimators.base import OneSidedEstimator
from spibb.ope.statistics import Array
from spibb.ope.weights import ImportanceWeights


class ImportanceSampling(OneSidedEstimator):
    """The mean of weighted returns."""

    id = "is"
    title = "importance sampling"
    is_of_returns = True

    def about(self, walk: ImportanceWeights, end: float = 0.0) -> Array:
        """Return w_T (G - end)."""
        return np.asarray(walk.weight * (walk.gain - end)[:, None])


class PerDecisionSampling(OneSidedEstimator):
    """The mean of returns of weighted rewards."""

    id = "pdis"
    title = "per-decision importance sampling"
    is_per_step = True

    def about(self, walk: ImportanceWeights, end: float = 0.0) -> Array:
        """Return sum_t g^t w_t r_t - s end."""
        return np.asarray(walk.value - walk.spread * end)
