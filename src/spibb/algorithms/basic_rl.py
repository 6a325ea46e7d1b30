"""Basic RL: solve the maximum-likelihood model.

    max_pi  rho(pi, M^)

Guarantee: none; with enough data everywhere it is optimal. Pairs without data end with value 0,
which favours them where returns are negative. Policy iteration starts from the baseline.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spibb.algorithms.iterating import PolicyIterating, Step
from spibb.operators.rows import Operator
from spibb.problem import ProblemBatch


@dataclass(frozen=True, kw_only=True)
class BasicRL(PolicyIterating):
    """Plain reinforcement learning on the estimated model, without any safety.

    Example:
        In state 0 action 1 pays more, and both end the process.

        >>> from spibb import Log, TabularPolicy
        >>> log = Log.from_arrays(state=[0, 0], action=[0, 1], reward=[1.0, 2.0],
        ...                       terminated=[True, True], episode=[0, 1])
        >>> result = BasicRL().improve(log, baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.9)
        >>> result.policy.probabilities, result.v
        (array([[0., 1.]]), array([2.]))
    """

    id: ClassVar[str] = "basic-rl"

    def step(self, problems: ProblemBatch) -> Step:
        """Be greedy; every change is free."""
        return Step(Operator.GREEDY, np.zeros(problems.n_sa.shape), np.inf)
