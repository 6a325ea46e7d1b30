r"""How much of actions and outcomes a column explains beyond labels.

One-way analysis of variance over quarters of the column, within labels (for actions) or pairs of
label and action (for outcomes). The share of the variance that a column explains beyond chance is

    share = (SS_between - sum of df_s sigma_s^2) / SS_total,

with a variance sigma_s^2 of each stratum s. It is 0 on average where nothing depends on the column,
and its standard error is then the root of sum of 2 df_s sigma_s^4, over SS_total.

A column that explains actions *and* outcomes biases what labels say of the actions. The bias is at
most about sqrt(share of actions x share of outcomes) deviations of the outcome (omitted-variable
bias, see Cinelli and Hazlett 2020, without their correction for collinearity).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spibb.representation.steps import Array, Codes

# Quantile bins of a column within a label.
_BINS = 4


class Dependence(NamedTuple):
    """Shares of variance that columns explain, and their errors where nothing depends on them.

    Attributes:
        share: By column, shape (K,).
        error: Standard error of a share whose true value is 0.
    """

    share: Array
    error: Array

    def is_clear(self, deviations: float) -> NDArray[np.bool_]:
        """Mark the columns whose share is beyond chance by so many standard errors."""
        return np.asarray(self.share > deviations * self.error)


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
    share, error = np.zeros(values.shape[1]), np.zeros(values.shape[1])
    if squares <= 0.0:
        return Dependence(share, error)
    # Strata differ in their variance: a label with one usual action has next to none.
    variance = _means(stratum, targets**2, n_stratum)
    variance *= (n_stratum / np.maximum(n_stratum - 1, 1))[:, None]
    for k in range(values.shape[1]):
        cell = stratum * _BINS + quarters(label, values[:, k])
        n = np.bincount(cell, minlength=n_strata * _BINS)
        df = np.maximum((n.reshape(-1, _BINS) > 0).sum(axis=1) - 1, 0)[:, None]
        between = float((_means(cell, targets, n) ** 2 * n[:, None]).sum())
        share[k] = (between - float((df * variance).sum())) / squares
        error[k] = np.sqrt(2.0 * float((df * variance**2).sum())) / squares
    return Dependence(share, error)


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
