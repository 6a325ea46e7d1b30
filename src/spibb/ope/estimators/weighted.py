"""Weighted importance sampling: sum_i w_T^i G^i / sum_i w_T^i, G the return. Consistent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spibb.ope.estimators.base import WeightedEstimator
from spibb.ope.statistics import DOMINATED, Array, Statistic, resampled_ratios
from spibb.ope.weights import ImportanceWeights


class WeightedSampling(WeightedEstimator):
    """The mean return, weighted."""

    id = "wis"
    title = "weighted importance sampling"

    def of_walk(self, walk: ImportanceWeights, policy: int) -> WeightedMean:
        """Return the estimate of one policy of a walk."""
        return WeightedMean(walk.weight[:, policy], walk.gain)


@dataclass(frozen=True, eq=False)
class WeightedMean(Statistic):
    """sum_i w_i x_i / sum_i w_i: weighted importance sampling. NaN where all weights are 0."""

    weight: Array
    values: Array

    @property
    def estimate(self) -> float:
        """The weighted mean."""
        total = float(self.weight.sum())
        return float(self.weight @ self.values) / total if total > 0.0 else float("nan")

    def __len__(self) -> int:
        return len(self.values)

    def resampled(self, indices: NDArray[np.int64]) -> Array:
        """Return the weighted means of resamples."""
        return np.asarray(resampled_ratios(self.weight * self.values, self.weight, indices))

    @property
    def columns(self) -> Array:
        """w_i x_i and w_i."""
        return np.stack([self.weight * self.values, self.weight])

    def of_sums(self, sums: Array) -> Array:
        """Return the weighted means."""
        over, under = sums.T
        found = np.divide(over, under, out=np.full(len(sums), np.nan), where=under > 0.0)
        return np.asarray(found)

    def jackknife(self) -> Array:
        """Leave out each episode in turn, by subtraction from the sums."""
        over, under = float(self.weight @ self.values), float(self.weight.sum())
        left = under - self.weight
        with np.errstate(invalid="ignore", divide="ignore"):
            without = (over - self.weight * self.values) / left
        for i in np.flatnonzero(left < DOMINATED * under):
            rest = np.delete(np.arange(len(self)), i)
            without[i] = WeightedMean(self.weight[rest], self.values[rest]).estimate
        return np.asarray(without.mean() - without)
