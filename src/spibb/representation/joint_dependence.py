r"""How much of actions several columns explain together beyond labels.

Each column is replaced by its rank within the label, so that outliers count as little as in
quarters. Ranks X and targets Y are centred within labels. A regression of Y on X with the same
slopes in all labels explains SS = |P_X Y|^2. With Z an orthonormal basis of the columns of X, let
A_s = Z_s' Z_s and B_s = Y_s' Y_s in label s of n_s rows. If rows of X were permuted within labels,
SS would have exactly

    mean = sum over s of tr(A_s) tr(B_s) / (n_s - 1),
    variance = sum over s of V_s
               + 2 sum over s != t of <A_s, A_t> <B_s, B_t> / ((n_s - 1) (n_t - 1)),

since Z'Y is a sum over labels of independent terms of mean 0 and covariance A_s x B_s / (n_s - 1).
V_s is the variance of |Z_s' Y_s|^2 (Kazi-Aoual, Hitier, Sabatier and Lebreton 1995): with n rows,
t = tr(A), f = |A|^2, q = sum of |z_i|^4, and the same of B,

    2 ((n - 1) f_A - t_A^2) ((n - 1) f_B - t_B^2) / ((n - 1)^2 (n + 1) (n - 2))
    + (n (n + 1) q_A - (n - 1) (t_A^2 + 2 f_A)) (n (n + 1) q_B - (n - 1) (t_B^2 + 2 f_B))
      / ((n + 1) n (n - 1) (n - 2) (n - 3)).

A multiple of a chi-square variable with this mean and variance takes the place of the distribution
(Satterthwaite). The share beyond chance is (SS - mean) / |Y|^2.

One test of all columns has more power than the best of many tests
(:mod:`spibb.representation.dependence`) where each column holds a part: a controller leaves next to
no trace in a single column of the past, since each action takes back what the last one showed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from spibb.compiled.blas import one_blas_thread
from spibb.representation.steps import Array, Codes

# Directions with less of the variance of the largest are rounding.
_RANK_TOLERANCE = 1e-6
# Fewer rows for each direction of the columns are too few for the distribution by chance.
_LEAST_ROWS = 20
# Labels whose products are added up at once: memory stays small.
_CHUNK = 4_096


class JointDependence(NamedTuple):
    """What columns explain together.

    Attributes:
        share: Share of the variance, beyond chance.
        p_value: Probability of such a share where nothing depends on the columns.
    """

    share: float
    p_value: float


@one_blas_thread()
def joint_dependence(values: Array, label: Codes, targets: Array, block: Codes) -> JointDependence:
    """Return how much of some targets columns explain together within labels.

    Args:
        values: Columns, shape (n, K); missing values rank lowest.
        label: Labels, within which ranks are taken.
        targets: Shape (n, T), of equal scale.
        block: Rows that follow each other, such as an episode.
    """
    order = np.argsort(label, kind="stable")
    label = np.unique(label[order], return_inverse=True)[1]
    n = np.bincount(label)
    x = np.column_stack([ranks(label, column) for column in values[order].T])
    x = beyond_other_blocks(x, label, block[order])
    y = _centred(targets[order], label, n)
    total = float((y**2).sum())
    basis = orthonormal(x)
    if total <= 0.0 or basis.shape[1] == 0 or len(y) < _LEAST_ROWS * basis.shape[1]:
        return JointDependence(0.0, 1.0)
    explained = float(((basis.T @ y) ** 2).sum())
    mean, variance = permutation_moments(basis, y, n)
    if not variance > 1e-12 * mean**2:
        return JointDependence((explained - mean) / total, 1.0)
    scale = variance / (2.0 * mean)
    p_value = float(chi2.sf(explained / scale, mean / scale))
    return JointDependence((explained - mean) / total, p_value)


def permutation_moments(basis: Array, y: Array, n: Codes) -> tuple[float, float]:
    """Return mean and variance of what is explained if rows are permuted within labels.

    Args:
        basis: Orthonormal columns, centred within labels, shape (n, K).
        y: Targets, centred within labels, shape (n, T).
        n: Rows of each label; rows stand label by label.
    """
    ends = np.cumsum(n)
    mean = own = 0.0
    covariance = np.zeros((basis.shape[1] ** 2, y.shape[1] ** 2))
    several = np.flatnonzero(n > 1)
    for first in range(0, len(several), _CHUNK):
        chunk = several[first : first + _CHUNK]
        a = _Products.of(basis, ends[chunk] - n[chunk], n[chunk])
        b = _Products.of(y, ends[chunk] - n[chunk], n[chunk])
        left = n[chunk] - 1.0
        mean += float((a.trace * b.trace / left).sum())
        own += float((_own_variance(n[chunk], a, b) - 2.0 * a.squares * b.squares / left**2).sum())
        covariance += a.products.T @ (b.products / left[:, None])
    return mean, own + 2.0 * float((covariance**2).sum())


class _Products(NamedTuple):
    """Products of the rows of each label: vec(A), its trace t, its squares f, and q."""

    products: Array
    trace: Array
    squares: Array
    fourth: Array

    @classmethod
    def of(cls, rows: Array, start: Codes, n: Codes) -> _Products:
        width = rows.shape[1]
        products, fourth = np.empty((len(n), width, width)), np.empty(len(n))
        for k, (one, size) in enumerate(zip(start, n, strict=True)):
            part = rows[one : one + size]
            products[k] = part.T @ part
            fourth[k] = ((part**2).sum(axis=1) ** 2).sum()
        trace = np.trace(products, axis1=1, axis2=2)
        return cls(products.reshape(len(n), -1), trace, (products**2).sum(axis=(1, 2)), fourth)


def _own_variance(rows: Codes, a: _Products, b: _Products) -> Array:
    """Return V of each label; the second term needs four rows."""
    n = rows.astype(np.float64)
    two, three = np.maximum(n - 2.0, 1.0), np.maximum(n - 3.0, 1.0)
    spread = [(n - 1.0) * one.squares - one.trace**2 for one in (a, b)]
    peaks = [
        n * (n + 1.0) * one.fourth - (n - 1.0) * (one.trace**2 + 2.0 * one.squares)
        for one in (a, b)
    ]
    first = 2.0 * spread[0] * spread[1] / ((n - 1.0) ** 2 * (n + 1.0) * two)
    second = peaks[0] * peaks[1] / ((n + 1.0) * n * (n - 1.0) * two * three)
    return np.where(n > 2, first, 0.0) + np.where(n > 3, second, 0.0)


def beyond_other_blocks(values: Array, label: Codes, block: Codes) -> Array:
    """Return values beyond their mean in the label and the other blocks, times the share of these.

    They are (x - mean of the label) - w (x - mean of label and block), where w is the share of the
    label's rows that the block holds.
    """
    part = np.unique(label * (int(block.max()) + 1) + block, return_inverse=True)[1]
    n_part, n_label = np.bincount(part), np.bincount(label)
    weight = (n_part[part] / n_label[label])[:, None]
    return _centred(values, label, n_label) - weight * _centred(values, part, n_part)


def ranks(label: Codes, values: Array) -> Array:
    """Return the mean rank of each row within its label, over its rows; missing values lowest."""
    values = np.where(np.isnan(values), -np.inf, values)
    order = np.lexsort((values, label))
    is_first = np.append(True, label[order][1:] != label[order][:-1])
    is_new = is_first | np.append(True, values[order][1:] != values[order][:-1])
    group = np.cumsum(is_new) - 1
    first = np.flatnonzero(is_new)
    middle = (first + np.append(first[1:], len(label)) - 1) / 2.0
    start = np.maximum.accumulate(np.where(is_first, np.arange(len(label)), 0))
    found = np.empty(len(label))
    found[order] = (middle[group] - start) / np.bincount(label)[label[order]]
    return found


def _centred(values: Array, label: Codes, n: Codes) -> Array:
    sums = np.column_stack([np.bincount(label, column, len(n)) for column in values.T])
    return np.asarray(values - (sums / n[:, None])[label])


def orthonormal(x: Array) -> Array:
    """Return an orthonormal basis of the columns, of unit scale each."""
    scale = np.sqrt((x**2).sum(axis=0))
    x = x[:, scale > 1e-9] / scale[scale > 1e-9]
    if x.shape[1] == 0:
        return x
    sizes, directions = np.linalg.eigh(x.T @ x)
    kept = sizes > _RANK_TOLERANCE * sizes.max()
    return np.asarray(x @ (directions[:, kept] / np.sqrt(sizes[kept])))
