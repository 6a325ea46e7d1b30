r"""How far the baseline's visits in the estimated model may be from the true ones.

    ||d* - d^||_1 (x) <= gamma / (1 - gamma) sum_x' d^(x' | x) sum_a pi_b(a | x') min(2, e_P(x', a))

since d* - d^ = gamma d^ (P*_b - P^_b) d* and every row of d* sums to at most 1 / (1 - gamma). It
holds on the same event as e_P. The paper's Proposition 3 treats visits as an empirical
distribution, which they are not, and is not used.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.certify.case import Case
from spibb.mdp.evaluation import evaluate


def occupancy_error(case: Case) -> NDArray[np.float64]:
    """Return the bound for every first state, shape (S,)."""
    gamma = case.problem.gamma
    baseline = case.baseline.policy
    # d^ applied to a vector is the value of the baseline in a model that pays that vector.
    paid = np.broadcast_to(
        (baseline.probabilities * case.transition_errors).sum(axis=1, keepdims=True),
        case.problem.model.reward.shape,
    )
    visits = evaluate(case.problem.model.with_reward(paid), baseline)
    return np.asarray(gamma / (1.0 - gamma) * (visits.v + visits.error))
