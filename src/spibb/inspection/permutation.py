"""Tests by permutation, which hold their level at any number of rows.

A p-value is the rank of what was observed among permuted data. Permuting stops early once ten
permutations have reached the observed statistic (Besag and Clifford 1991): for a sound log some
tens of them are enough, and the p-value stays valid.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.compiled.random_numbers import below, number

Codes = NDArray[np.int64]

# So many permutations at most, and so many as large as what was observed end it.
_MOST, _ENOUGH = 2_999, 10
# By which statistics are brought to one scale before the largest is taken.
_SCALED = 200
# Categories beyond the most frequent ones of a group are one: rare ones would be noise alone.
_CATEGORIES = 6


def rank_p_value(observed: float, drawn: Callable[[int], float]) -> float:
    """Return the p-value of a statistic, by permuting until it is known well enough.

    Args:
        observed: The statistic of the data.
        drawn: Returns that of the k-th permutation.
    """
    n_reached = 0
    for k in range(_MOST):
        # Sums of the same numbers in another order differ in the last digits.
        if drawn(k) >= observed - 1e-9 * abs(observed):
            n_reached += 1
            if n_reached == _ENOUGH:
                return _ENOUGH / (k + 1)
    return (n_reached + 1) / (_MOST + 1)


def independence_p_value(
    group: Codes, predictors: list[Codes], outcomes: list[Codes], seed: int
) -> float | None:
    """Test whether predictors tell anything of outcomes, within groups.

    The rows' outcomes, all together, are permuted within each group. The statistic is the largest,
    over pairs of a predictor and an outcome, of the sums over groups of Pearson's X^2, each brought
    to mean 0 and deviation 1 by permutations of its own.

    Args:
        group: Integers; rows of different groups are not compared.
        predictors: Integers for each row.
        outcomes: Likewise.
        seed: Source of randomness.

    Returns:
        The p-value; None where no group can tell anything.
    """
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(group[order]) != 0))
    starts = np.append(starts, len(group))
    u = np.stack([_few(starts, column[order]) for column in predictors])
    w = np.stack([_few(starts, column[order]) for column in outcomes])
    starts, u, w = _informative(starts, u, w)
    if len(starts) < 2:
        return None
    rows = np.arange(u.shape[1])

    def statistics(k: int) -> NDArray[np.float64]:
        _shuffle(rows, starts, np.uint64(seed), np.uint64(k))
        return np.asarray(_pearson(starts, u, w, rows))

    observed = np.asarray(_pearson(starts, u, w, rows))
    scale = np.stack([statistics(k) for k in range(_SCALED)])
    mean, deviation = scale.mean(axis=0), scale.std(axis=0)
    is_live = deviation > 1e-9 * (1.0 + np.abs(mean))
    if not is_live.any():
        return None

    def largest(values: NDArray[np.float64]) -> float:
        return float(((values - mean)[is_live] / deviation[is_live]).max())

    return rank_p_value(largest(observed), lambda k: largest(statistics(_SCALED + k)))


def _few(starts: Codes, values: Codes) -> Codes:
    """Number the categories of each group by how frequent they are; the rare ones are the last."""
    group = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    values = np.unique(values, return_inverse=True)[1].reshape(-1)
    key = group * (int(values.max()) + 1) + values
    known, place, n = np.unique(key, return_inverse=True, return_counts=True)
    of_group = known // (int(values.max()) + 1)
    order = np.lexsort((known, -n, of_group))
    rank = np.empty(len(known), dtype=np.int64)
    first = np.flatnonzero(np.append(True, np.diff(of_group[order]) != 0))
    lengths = np.diff(np.append(first, len(known)))
    rank[order] = np.arange(len(known)) - np.repeat(first, lengths)
    few: Codes = np.minimum(rank, _CATEGORIES)[place.reshape(-1)]
    return few


def _informative(starts: Codes, u: Codes, w: Codes) -> tuple[Codes, Codes, Codes]:
    """Keep groups in which a predictor and an outcome vary."""

    def varies(columns: Codes) -> NDArray[np.bool_]:
        return np.asarray((np.maximum.reduceat(columns, starts[:-1], axis=1) > 0).any(axis=0))

    kept = varies(u) & varies(w)
    lengths = np.diff(starts)
    rows = np.repeat(kept, lengths)
    ends = np.concatenate([[0], np.cumsum(lengths[kept])])
    return ends, np.ascontiguousarray(u[:, rows]), np.ascontiguousarray(w[:, rows])


@jit
def _shuffle(rows, starts, seed, k):  # type: ignore[no-untyped-def]
    """Permute rows within their groups, in place."""
    state = number(seed, k)
    for g in range(len(starts) - 1):
        for i in range(starts[g + 1] - 1, starts[g], -1):
            span = np.uint64(i - starts[g] + 1)
            j = starts[g] + np.int64(below(number(state, np.uint64(i)), span))
            kept = rows[i]
            rows[i] = rows[j]
            rows[j] = kept


@jit
def _pearson(starts, u, w, rows):  # type: ignore[no-untyped-def]
    """Return X^2 summed over groups for each predictor and outcome, outcomes taken in order."""
    found = np.zeros(len(u) * len(w))
    size = _CATEGORIES + 1
    table, n_u, n_w = np.zeros((size, size)), np.zeros(size), np.zeros(size)
    for p in range(len(u)):
        for o in range(len(w)):
            for g in range(len(starts) - 1):
                table[:] = 0.0
                n_u[:] = 0.0
                n_w[:] = 0.0
                for i in range(starts[g], starts[g + 1]):
                    a, b = u[p, i], w[o, rows[i]]
                    table[a, b] += 1.0
                    n_u[a] += 1.0
                    n_w[b] += 1.0
                total = 0.0
                for a in range(size):
                    if n_u[a] > 0.0:
                        for b in range(size):
                            if table[a, b] > 0.0:
                                total += table[a, b] * table[a, b] / (n_u[a] * n_w[b])
                found[p * len(w) + o] += (starts[g + 1] - starts[g]) * (total - 1.0)
    return found
