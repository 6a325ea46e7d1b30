r"""Assumption 1 of the paper, checked for every model the log cannot rule out.

    sum_{x', a'} e(x', a') pi_b(a' | x') P*(x' | x, a) <= kappa e(x, a),   kappa < 1 / gamma.

P* is unknown, so its place is taken by the worst P in the L1 ball of radius e(x, a) around P^: move
up to e / 2 of the mass to the state of largest expected error, from those of least. Ending carries
no error. With e = min(2, e_P), which bounds the L1 distance as well as e_P does, pairs without data
have e = 2 and need no exception.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from spibb.certify.case import Case


def kappa(case: Case) -> NDArray[np.float64]:
    """Return, for every pair, the smallest kappa that serves; shape (S, A)."""
    errors = case.transition_errors
    expected = (case.baseline.policy.probabilities * errors).sum(axis=1)
    expected[case.model.terminal] = 0.0
    rows = case.model.rows
    worst = _worst_expectation(
        rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data,
        case.model.ending.ravel().copy(), expected, errors.ravel(),
    )  # fmt: skip
    # Nothing is asked of a terminal state: no action is taken there, and nothing is uncertain.
    asked = np.broadcast_to(~case.model.terminal[:, None], errors.shape) & (errors > 0)
    ratio = np.divide(worst.reshape(errors.shape), errors, out=np.zeros(errors.shape), where=asked)
    return np.asarray(ratio)


@numba.njit(cache=True)
def _worst_expectation(indptr, indices, data, ending, value, radius):  # type: ignore[no-untyped-def]
    """Return, for every row, the largest P.value over the L1 ball around it; ending has value 0."""
    worst = np.empty(len(radius))
    largest = value.max()
    for pair in range(len(radius)):
        moved = radius[pair] / 2.0
        if moved >= 1.0:
            worst[pair] = largest
            continue
        successors = indices[indptr[pair] : indptr[pair + 1]]
        weights = data[indptr[pair] : indptr[pair + 1]]
        left = max(0.0, moved - ending[pair])  # ending carries least: it gives first
        total = (moved - left) * largest
        for k in np.argsort(value[successors]):
            give = min(weights[k], left)
            left -= give
            total += (weights[k] - give) * value[successors[k]] + give * largest
        worst[pair] = total
    return worst
