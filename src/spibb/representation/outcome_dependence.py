r"""How much of what follows a step a column explains beyond label and action.

Targets are those of :mod:`spibb.representation.targets`: r + gamma V(s'), and the return. The share
counts both. Two tests give the p-value, doubled (Bonferroni) since the lower one is taken:

* of r + gamma V(s'), by permutation within pairs (:mod:`spibb.representation.dependence`). Errors
  of different steps are uncorrelated where the label is all that matters;
* of the return, by block. Returns of one episode overlap, so that rows are not exchangeable. With
  the return y centred within pairs, and z_q the deviation of 'in quarter q of the column' from its
  mean in the pair, the sums of z_q y over blocks have mean 0. Hotelling's T^2 tests it.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import f as f_distribution

from spibb.compiled.blas import one_blas_thread
from spibb.representation.dependence import BINS, Dependence, dependence, quarters
from spibb.representation.steps import Array, Codes, Steps


def outcome_dependence(values: Array, steps: Steps, stratum: Codes, targets: Array) -> Dependence:
    """Return how much of what follows each column explains, given label and action.

    Args:
        values: Columns of each step, shape (n, K).
        steps: The steps.
        stratum: The pair of each step.
        targets: r + gamma V(s'), and the return if there is one, shape (n, T).
    """
    found = dependence(values, stratum, steps.state, targets, n_tested=1)
    if targets.shape[1] < 2:
        return found
    by_block = np.array(
        [_p_value_by_block(column, steps, stratum, targets[:, -1]) for column in values.T]
    )
    return found._replace(p_value=np.minimum(2.0 * np.minimum(found.p_value, by_block), 1.0))


@one_blas_thread()
def _p_value_by_block(column: Array, steps: Steps, stratum: Codes, y: Array) -> float:
    """Test whether the return is the same in all quarters of a column; see the module."""
    n = np.maximum(np.bincount(stratum), 1)
    y = y - (np.bincount(stratum, y) / n)[stratum]
    quarter = quarters(steps.state, column)
    sums = np.empty((steps.n_blocks, BINS - 1))
    for q in range(BINS - 1):  # the last one is what the others leave
        is_in = (quarter == q).astype(np.float64)
        sums[:, q] = steps.by_block((is_in - (np.bincount(stratum, is_in) / n)[stratum]) * y)
    sums = sums[np.isin(np.arange(steps.n_blocks), steps.block)]
    n_blocks = len(sums)
    mean = sums.mean(axis=0)
    covariance = (sums - mean).T @ (sums - mean) / max(1, n_blocks - 1)
    rank = int(np.linalg.matrix_rank(covariance, hermitian=True))
    if rank == 0 or n_blocks <= rank + 1:
        return 1.0
    squared = n_blocks * float(mean @ np.linalg.pinv(covariance, hermitian=True) @ mean)
    ratio = squared * (n_blocks - rank) / (rank * (n_blocks - 1))
    return float(f_distribution.sf(ratio, rank, n_blocks - rank))
