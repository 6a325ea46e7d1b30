r"""How much of actions and outcomes a column explains beyond labels.

One-way analysis of variance over quarters of the column, within labels (for actions) or pairs of
label and action (for outcomes). The share of the variance that a column explains beyond chance is

    share = (SS_between - sum of df_s sigma_s^2) / SS_total,

with the covariance Sigma_s of the targets in stratum s and sigma_s^2 its trace. It is 0 on average
where nothing depends on the column.

The p-value compares SS_between with its distribution if the column were permuted within strata. Of
that its mean, sum of df_s sigma_s^2, and its variance are exact (Kazi-Aoual, Hitier, Sabatier and
Lebreton 1995): with n rows, df + 1 quarters of n_q rows, h = sum of n_q (1 / n_q - 1 / n)^2,
t = sum of |y_i|^2, q = sum of |y_i|^4 and f = |Y'Y|^2, stratum by stratum,

    2 (df (n - 1) - df^2) ((n - 1) f - t^2) / ((n - 1)^2 (n + 1) (n - 2))
    + (n (n + 1) h - (n - 1) (df^2 + 2 df)) (n (n + 1) q - (n - 1) (t^2 + 2 f))
      / ((n + 1) n (n - 1) (n - 2) (n - 3)).

A multiple of a chi-square variable with this mean and variance takes the place of the distribution.
The second line matters where one quarter is small and targets are rare: few rows of a usual action.

Rows are exchangeable under the hypothesis only if errors of different rows are uncorrelated. That
holds for actions, and for r + gamma V(s'). It does not hold for returns, which overlap: a column
that stays the same for many steps would seem to explain them
(:mod:`spibb.representation.outcome_dependence` tests them by block).

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
BINS = 4


class Dependence(NamedTuple):
    """Shares of variance that columns explain, by column, shapes (K,).

    Attributes:
        share: The share, beyond chance.
        p_value: Probability of such a share where nothing depends on the column.
    """

    share: Array
    p_value: Array


def dependence(
    values: Array, stratum: Codes, label: Codes, targets: Array, n_tested: int | None = None
) -> Dependence:
    """Return how much of some targets each column explains within strata.

    Args:
        values: Columns, shape (n, K).
        stratum: What is held fixed: labels, or pairs.
        label: Labels, within which quarters are taken.
        targets: Shape (n, T), of equal scale.
        n_tested: The p-value is about so many first targets; None: all.
    """
    n_strata = int(stratum.max()) + 1
    n_stratum = np.bincount(stratum, minlength=n_strata)
    targets = targets - _means(stratum, targets, n_stratum)[stratum]
    squares = float((targets**2).sum())
    share, p_value = np.zeros(values.shape[1]), np.ones(values.shape[1])
    if squares <= 0.0:
        return Dependence(share, p_value)
    n_tested = targets.shape[1] if n_tested is None else n_tested
    left = np.maximum(n_stratum - 1, 1)
    total = np.column_stack([np.bincount(stratum, y**2, n_strata) for y in targets.T])
    by_chance = _ByChance(stratum, targets[:, :n_tested], n_stratum)
    for k in range(values.shape[1]):
        cell = stratum * BINS + quarters(label, values[:, k])
        n = np.bincount(cell, minlength=n_strata * BINS)
        df = np.maximum((n.reshape(-1, BINS) > 0).sum(axis=1) - 1, 0)
        between = (_means(cell, targets, n) ** 2 * n[:, None]).sum(axis=0)
        mean = (df / left) @ total
        share[k] = float((between - mean).sum()) / squares
        tested, variance = float(mean[:n_tested].sum()), by_chance.variance(n.reshape(-1, BINS))
        if variance > 1e-12 * tested**2:
            scale = variance / (2.0 * tested)
            p_value[k] = chi2.sf(float(between[:n_tested].sum()) / scale, tested / scale)
    return Dependence(share, p_value)


def explained_by_stratum(values: Array, stratum: Codes, label: Codes, targets: Array) -> Array:
    """Return the sum of squares that one column explains beyond chance, by stratum."""
    n_strata = int(stratum.max()) + 1
    n_stratum = np.bincount(stratum, minlength=n_strata)
    targets = targets - _means(stratum, targets, n_stratum)[stratum]
    squares = np.bincount(stratum, (targets**2).sum(axis=1), n_strata)
    trace = squares / np.maximum(n_stratum - 1, 1)
    cell = stratum * BINS + quarters(label, values)
    n = np.bincount(cell, minlength=n_strata * BINS)
    df = np.maximum((n.reshape(-1, BINS) > 0).sum(axis=1) - 1, 0)
    between = (_means(cell, targets, n) ** 2 * n[:, None]).sum(axis=1)
    return np.asarray(between.reshape(-1, BINS).sum(axis=1) - df * trace)


class _ByChance:
    """What permuting a column within strata makes of targets that are centred in them."""

    def __init__(self, stratum: Codes, targets: Array, n: NDArray[np.int64]) -> None:
        squares = (targets**2).sum(axis=1)
        self.n = n.astype(np.float64)
        self.total = np.bincount(stratum, squares, len(n))
        self.fourth = np.bincount(stratum, squares**2, len(n))
        self.products = np.zeros(len(n))
        for i, y in enumerate(targets.T):
            for j in range(i + 1):
                product = np.bincount(stratum, y * targets[:, j], len(n))
                self.products += product**2 * (1.0 if i == j else 2.0)

    def variance(self, n_quarter: NDArray[np.int64]) -> float:
        """Return the variance of SS_between by the rows of each quarter, shape (strata, 4)."""
        n, t, q, f = self.n, self.total, self.fourth, self.products
        df = np.maximum((n_quarter > 0).sum(axis=1) - 1.0, 0.0)
        h = (1.0 / np.maximum(n_quarter, 1)).sum(axis=1, where=n_quarter > 0) - (
            df + 1.0
        ) / _positive(n)
        h -= (df + 1.0) / _positive(n) - 1.0 / _positive(n)
        found = np.zeros(len(n))
        two, three = n > 2.0, n > 3.0
        first = 2.0 * (df * (n - 1.0) - df**2) * ((n - 1.0) * f - t**2)
        found[two] += (first / _positive((n - 1.0) ** 2 * (n + 1.0) * (n - 2.0)))[two]
        second = (n * (n + 1.0) * h - (n - 1.0) * (df**2 + 2.0 * df)) * (
            n * (n + 1.0) * q - (n - 1.0) * (t**2 + 2.0 * f)
        )
        below = (n + 1.0) * n * (n - 1.0) * (n - 2.0) * (n - 3.0)
        found[three] += (second / _positive(below))[three]
        return float(found.sum())


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
    found[order] = BINS * place // np.repeat(lengths, lengths)
    return found


def _positive(values: Array) -> Array:
    return np.maximum(values, 1.0)
