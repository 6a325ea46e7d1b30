r"""How much of actions and outcomes a column explains beyond labels.

One-way analysis of variance over quarters of the column, within labels (for actions) or pairs of
label and action (for outcomes). The share of the variance that a column explains beyond chance is

    share = (SS_between - sum of df_s sigma_s^2) / SS_total,

with the covariance Sigma_s of the targets in stratum s and sigma_s^2 its trace. It is 0 on average
where nothing depends on the column. SS_between is then about a multiple of a chi-square variable
with the mean sum of df_s sigma_s^2 and the variance sum of 2 df_s tr(Sigma_s^2), which gives the
p-value (Satterthwaite 1946).

A column that explains actions *and* outcomes biases what labels say of the actions. The bias is at
most about sqrt(share of actions x share of outcomes) deviations of the outcome (omitted-variable
bias, see Cinelli and Hazlett 2020, without their correction for collinearity).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from spibb.representation.steps import Array, Codes

# Quantile bins of a column within a label.
_BINS = 4


class Dependence(NamedTuple):
    """Shares of variance that columns explain, by column, shapes (K,).

    Attributes:
        share: The share, beyond chance.
        p_value: Probability of such a share where nothing depends on the column.
    """

    share: Array
    p_value: Array


def dependence(values: Array, stratum: Codes, label: Codes, targets: Array) -> Dependence:
    """Return how much of some targets each column explains within strata.

    Args:
        values: Columns, shape (n, K).
        stratum: What is held fixed: labels, or pairs.
        label: Labels, within which quarters are taken.
        targets: Shape (n, T), of equal scale.
    """
    n_strata = int(stratum.max()) + 1
    n_stratum = np.bincount(stratum, minlength=n_strata)
    targets = targets - _means(stratum, targets, n_stratum)[stratum]
    squares = float((targets**2).sum())
    share, p_value = np.zeros(values.shape[1]), np.ones(values.shape[1])
    if squares <= 0.0:
        return Dependence(share, p_value)
    trace, square = _covariances(stratum, targets, n_stratum)
    for k in range(values.shape[1]):
        cell = stratum * _BINS + quarters(label, values[:, k])
        n = np.bincount(cell, minlength=n_strata * _BINS)
        df = np.maximum((n.reshape(-1, _BINS) > 0).sum(axis=1) - 1, 0)
        between = float((_means(cell, targets, n) ** 2 * n[:, None]).sum())
        mean, variance = float(df @ trace), 2.0 * float(df @ square)
        share[k] = (between - mean) / squares
        if variance > 0.0:
            scale = variance / (2.0 * mean)
            p_value[k] = chi2.sf(between / scale, mean / scale)
    return Dependence(share, p_value)


def explained_by_stratum(values: Array, stratum: Codes, label: Codes, targets: Array) -> Array:
    """Return the sum of squares that one column explains beyond chance, by stratum."""
    n_strata = int(stratum.max()) + 1
    n_stratum = np.bincount(stratum, minlength=n_strata)
    targets = targets - _means(stratum, targets, n_stratum)[stratum]
    trace, _ = _covariances(stratum, targets, n_stratum)
    cell = stratum * _BINS + quarters(label, values)
    n = np.bincount(cell, minlength=n_strata * _BINS)
    df = np.maximum((n.reshape(-1, _BINS) > 0).sum(axis=1) - 1, 0)
    between = (_means(cell, targets, n) ** 2 * n[:, None]).sum(axis=1)
    return np.asarray(between.reshape(-1, _BINS).sum(axis=1) - df * trace)


def _covariances(stratum: Codes, targets: Array, n: NDArray[np.int64]) -> tuple[Array, Array]:
    """Return tr(Sigma) and tr(Sigma^2) of the centred targets in each stratum.

    Strata differ: a label with one usual action has next to no variance.
    """
    left = np.maximum(n - 1, 1)
    trace, square = np.zeros(len(n)), np.zeros(len(n))
    for i, y in enumerate(targets.T):
        for j in range(i + 1):
            covariance = np.bincount(stratum, y * targets[:, j], len(n)) / left
            square += covariance**2 * (1.0 if i == j else 2.0)
            if i == j:
                trace += covariance
    return trace, square


def _means(code: Codes, targets: Array, n: NDArray[np.int64]) -> Array:
    sums = [np.bincount(code, y, len(n)) for y in targets.T]
    return np.asarray(np.column_stack(sums) / np.maximum(n, 1)[:, None])


def quarters(label: Codes, values: Array) -> Codes:
    """Return in which quarter of its label's values each row lies; missing values in the first."""
    values = np.where(np.isnan(values), -np.inf, values)
    order = np.lexsort((values, label))
    first = np.append(True, label[order][1:] != label[order][:-1])
    start = np.flatnonzero(first)
    lengths = np.diff(np.append(start, len(label)))
    is_new = first | np.append(True, values[order][1:] != values[order][:-1])
    place = np.arange(len(label)) - np.repeat(start, lengths)
    place = place[np.maximum.accumulate(np.where(is_new, np.arange(len(label)), 0))]
    found = np.empty(len(label), dtype=np.int64)
    found[order] = _BINS * place // np.repeat(lengths, lengths)
    return found
