r"""Assumption 1 of the paper, checked for every model the log cannot rule out.

    sum_{x', a'} e(x', a') pi_b(a' | x') P*(x' | x, a) <= kappa e(x, a),   kappa < 1 / gamma.

P* is unknown, so its place is taken by the worst P in the L1 ball of radius e(x, a) around P^: move
up to e / 2 of the mass to the state of largest expected error, from those of least. Ending carries
no error. With e = min(2, e_P), which bounds the L1 distance as well as e_P does, pairs without data
have e = 2 and need no exception.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.certify.case import Case
from spibb.mdp.batch import ModelBatch
from spibb.mdp.robust import Balls, worst_expectations


def kappa(case: Case) -> NDArray[np.float64]:
    """Return, for every pair, the smallest kappa that serves; shape (S, A)."""
    errors = case.transition_errors
    expected = (case.baseline.policy.probabilities * errors).sum(axis=1)
    expected[case.problem.model.terminal] = 0.0
    batch = ModelBatch.stack([case.problem.model])
    # The largest expectation is the least of the negated one.
    worst = -worst_expectations(batch, Balls(errors[None]), -expected[None])[0]
    # Nothing is asked of a terminal state: no action is taken there, and nothing is uncertain.
    asked = np.broadcast_to(~case.problem.model.terminal[:, None], errors.shape) & (errors > 0)
    ratio = np.divide(worst, errors, out=np.zeros(errors.shape), where=asked)
    return np.asarray(ratio)
