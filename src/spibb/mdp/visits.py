"""How often a policy visits each state in a model: d = (I - gamma P_pi^T)^-1 p_0."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from spibb.compiled.blas import one_blas_thread
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import dense_system, is_large
from spibb.mdp.large import visits_large


@one_blas_thread()
def discounted_visits(
    batch: ModelBatch, problem: int, policy: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the expected discounted visits of every state, shape (S,).

    They sum to 1 / (1 - gamma) where nothing ends. With gamma = 1 the policy must end.

    Args:
        batch: Models.
        problem: Which of them.
        policy: Shape (S, A).

    Example:
        >>> from spibb.mdp.model import TabularMDP
        >>> batch = ModelBatch.stack([TabularMDP([[[0.0, 1.0]], [[0.0, 1.0]]], [[0.0], [0.0]], 0.5,
        ...                                      initial=[1.0, 0.0])])
        >>> discounted_visits(batch, 0, np.ones((2, 1)))
        array([1., 1.])
    """
    if is_large(batch.shape[1]):
        return visits_large(batch, problem, policy)
    start = batch.initial[problem]
    matrix, _ = dense_system(batch, problem, policy)
    return np.asarray(scipy.linalg.solve(matrix.T, start, overwrite_a=True, check_finite=False))
