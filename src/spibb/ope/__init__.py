"""Off-policy evaluation: estimators from ragged episodes, and bounds on them.

>>> from spibb import Log, TabularPolicy
>>> log = Log.from_arrays(state=[0] * 4, action=[0, 1, 0, 1], reward=[1.0, 2.0, 1.0, 3.0],
...                       episode=[0, 1, 2, 3])
>>> found = evaluate_policy(log, policy=TabularPolicy([[0.25, 0.75]]), gamma=0.9,
...                         baseline=TabularPolicy([[0.5, 0.5]]))
>>> found["is"].estimate  # 0.25 x 1 + 0.75 x 2.5
2.125
"""

from spibb.ope.bounds import bca, concentration, student_t
from spibb.ope.estimators import ESTIMATORS
from spibb.ope.estimators.base import Estimator
from spibb.ope.evaluate import PolicyEstimate, PolicyEvaluation, evaluate_policy
from spibb.ope.off_policy import OffPolicy
from spibb.ope.trajectories import Trajectories
from spibb.ope.weights import effective_sample_size

__all__ = [
    "ESTIMATORS",
    "Estimator",
    "OffPolicy",
    "PolicyEstimate",
    "PolicyEvaluation",
    "Trajectories",
    "bca",
    "concentration",
    "effective_sample_size",
    "evaluate_policy",
    "student_t",
]
