"""The Dirichlet-multinomial distribution of rows of counts, with parameters found on them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from spibb.compiled.jit import jit

Array = NDArray[np.float64]

_N_STEPS = 100
_TOLERANCE = 1e-4
_LARGEST_STRENGTH = 1e4
# Longer sums are done by series.
_LONGEST_SUM = 16


def fit_dirichlet(n: Array, strengths: Sequence[float]) -> tuple[Array, float]:
    """Return mean and pseudo-count of the Dirichlet distribution from which rows are drawn.

    The mean is the maximum of the likelihood by Minka's fixed point ("Estimating a Dirichlet
    distribution", 2000). The pseudo-count m has the hyper-prior m / (1 + m)^2, whose median is 1.

    Args:
        n: Counts, shape (rows, outcomes).
        strengths: Among which m is found.

    Example:
        >>> g, m = fit_dirichlet(np.array([[9.0, 1.0], [1.0, 9.0]]), (0.5, 2.0, 100.0))
        >>> g.round(6).tolist(), m
        ([0.5, 0.5], 2.0)
    """
    row, outcome = np.nonzero(n)
    indptr = np.append(0, np.bincount(row, minlength=len(n)).cumsum()).astype(np.int64)
    k = np.ascontiguousarray(n[row, outcome])
    g, m = _frequencies(indptr, outcome.astype(np.int32), k, n.shape[1]), np.array(strengths)
    p = m[:, None] * np.maximum(g[outcome], 1e-12)
    of_rows = gammaln(m)[:, None] - gammaln(n.sum(axis=1) + m[:, None])
    likelihood = of_rows.sum(axis=1) + (gammaln(k + p) - gammaln(p)).sum(axis=1)
    expected = np.log(m) - 2.0 * np.log1p(m)
    return g, float(m[int((likelihood + expected).argmax())])


@jit
def _digamma(x):  # type: ignore[no-untyped-def]
    """Return psi(x), x > 0, by its recurrence and its asymptotic series."""
    total = 0.0
    while x < 6.0:
        total -= 1.0 / x
        x += 1.0
    square = 1.0 / (x * x)
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240)))
    return total + math.log(x) - 0.5 / x - series


@jit
def _rise(n, a):  # type: ignore[no-untyped-def]
    """Return psi(n + a) - psi(a) for a whole number n."""
    if n <= _LONGEST_SUM:
        total = 0.0
        for k in range(int(n)):
            total += 1.0 / (a + k)
        return total
    return _digamma(n + a) - _digamma(a)


@jit
def _frequencies(indptr, indices, counts, n_outcomes):  # type: ignore[no-untyped-def]
    """Return the mean by Minka's fixed point."""
    alpha = np.zeros(n_outcomes)
    for k in range(len(indices)):
        alpha[indices[k]] += 1.0
    alpha *= 2.0 / max(alpha.sum(), 1.0)
    risen = np.empty(n_outcomes)
    for _ in range(_N_STEPS):
        m, fall = alpha.sum(), 0.0
        risen[:] = 0.0
        for pair in range(len(indptr) - 1):
            n = 0.0
            for k in range(indptr[pair], indptr[pair + 1]):
                n += counts[k]
                risen[indices[k]] += _rise(counts[k], alpha[indices[k]])
            fall += _rise(n, m)
        if fall <= 0.0:
            break
        moved = 0.0
        for y in range(n_outcomes):
            new = alpha[y] * risen[y] / fall
            moved = max(moved, abs(new - alpha[y]))
            alpha[y] = new
        if moved <= _TOLERANCE * m or alpha.sum() > _LARGEST_STRENGTH:
            break
    return alpha / max(alpha.sum(), 1e-300)
