"""Off-policy estimators of rho(pi) from episodes that the baseline made, each kind in its own file.

``is``, ``pdis`` and ``dr`` are means of one term for each episode, and unbiased for the return as
far as episodes are recorded; ``wis`` and ``cwpdis`` are consistent; ``model`` is neither, unless
the model is right. Letters in their files: g the discount, r_t rewards, w_t weights
(spibb.ope.weights), T the last step, i the episode.

A new estimator is a subclass of :class:`Estimator` in a file of its own, and a line below.
"""

from spibb.ope.estimators.base import Estimator, WeightedEstimator
from spibb.ope.estimators.doubly_robust import DoublyRobustEstimator
from spibb.ope.estimators.importance import ImportanceSampling, PerDecisionSampling
from spibb.ope.estimators.model_based import ModelBasedEstimator
from spibb.ope.estimators.stepwise import StepwiseWeightedSampling
from spibb.ope.estimators.weighted import WeightedSampling

ESTIMATORS: dict[str, Estimator] = {
    one.id: one
    for one in (
        ImportanceSampling(),
        PerDecisionSampling(),
        WeightedSampling(),
        StepwiseWeightedSampling(),
        DoublyRobustEstimator(),
        ModelBasedEstimator(),
    )
}


def weighted_estimators() -> dict[str, WeightedEstimator]:
    """Return the estimators that weight episodes, by which HCPI can test."""
    return {name: one for name, one in ESTIMATORS.items() if isinstance(one, WeightedEstimator)}
