"""Tests by permutation, which hold their level at any number of rows.

A p-value is the rank of what was observed among permuted data. Permuting stops early once ten
permutations have reached the observed statistic (Besag and Clifford 1991): for a sound log some
tens of them are enough, and the p-value stays valid.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.compiled.random_numbers import below, number
from spibb.compiled.threads import over_chunks

Codes = NDArray[np.int64]
# Codes of few categories: the less there is to be moved, the faster it is permuted.
Few = NDArray[np.uint8]

# So many permutations at most, and so many as large as what was observed end it.
_MOST, _ENOUGH = 2_999, 10
# By which statistics are brought to one scale before the largest is taken.
_SCALED = 200
# Categories beyond the most frequent ones of a group are one: rare ones would be noise alone.
_CATEGORIES = 6
# Of a code of that many categories; and all of them.
_BITS, _FIRST = np.uint8(3), np.uint8(7)
# Integers are counted where they are below so many times their number.
_SPARSE = 4
# Permutations that are made of a group before the next one's turn.
_TOGETHER = 10


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
        outcomes: Likewise, one or two.
        seed: Source of randomness.

    Returns:
        The p-value; None where no group can tell anything.
    """
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(group[order]) != 0))
    starts = np.append(starts, len(group))
    u = np.stack([_few(starts, column[order]) for column in predictors], axis=1)
    w = np.stack([_few(starts, column[order]) for column in outcomes], axis=1)
    starts, u, w = _informative(starts, u, w)
    if len(starts) < 2:
        return None
    # All outcomes of a row in one number, which moves as one.
    shift = _BITS * np.arange(w.shape[1], dtype=np.uint8)
    together = np.bitwise_or.reduce(w << shift, axis=1)
    given = starts, u, together, w.shape[1]
    observed, drawn = next(_statistics(*given)), _statistics(*given, np.uint64(seed))
    scale = np.stack([next(drawn) for _ in range(_SCALED)])
    mean, deviation = scale.mean(axis=0), scale.std(axis=0)
    is_live = deviation > 1e-9 * (1.0 + np.abs(mean))
    if not is_live.any():
        return None

    def largest(values: NDArray[np.float64]) -> float:
        return float(((values - mean)[is_live] / deviation[is_live]).max())

    return rank_p_value(largest(observed), lambda _: largest(next(drawn)))


def _statistics(
    starts: Codes, u: Few, w: Few, n_outcomes: int, seed: np.uint64 | None = None
) -> Iterator[NDArray[np.float64]]:
    """Yield the sums over groups, each time with outcomes permuted once more if there is a seed."""
    groups = np.arange(len(starts) - 1)
    found = np.empty((_TOGETHER, len(groups), u.shape[1] * n_outcomes))
    for first in itertools.count(0, _TOGETHER):
        numbered = np.arange(first, first + _TOGETHER).astype(np.uint64)
        # A group is permuted by itself, so that threads have groups of their own.
        given = starts, u, w, numbered, seed is not None, seed or np.uint64(0), found
        over_chunks(partial(_permute_groups, given), groups)
        # One after the other, whoever made them.
        yield from found.cumsum(axis=1)[:, -1]


def _permute_groups(given: tuple[Any, ...], groups: Codes) -> None:
    _permute(groups, *given)


def _few(starts: Codes, values: Codes) -> Few:
    """Number the categories of each group by how frequent they are; the rare ones are the last."""
    group = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    _, values, _ = distinct(values)
    known, place, n = distinct(group * (int(values.max()) + 1) + values)
    of_group = known // (int(values.max()) + 1)
    order = np.lexsort((known, -n, of_group))
    rank = np.empty(len(known), dtype=np.int64)
    first = np.flatnonzero(np.append(True, np.diff(of_group[order]) != 0))
    lengths = np.diff(np.append(first, len(known)))
    rank[order] = np.arange(len(known)) - np.repeat(first, lengths)
    few: Few = np.minimum(rank, _CATEGORIES).astype(np.uint8)[place]
    return few


def distinct(values: Codes) -> tuple[Codes, Codes, Codes]:
    """Return the different values, the place of each among them, and how often each is there."""
    if not _are_dense(values):
        found, place, n = np.unique(values, return_inverse=True, return_counts=True)
        return found, place.reshape(-1), n
    n = np.bincount(values)
    known = np.flatnonzero(n)
    return known, (np.cumsum(n > 0) - 1)[values], n[known]


def occurrences(values: Codes) -> Codes:
    """Return how often each of the different values is there, in their order."""
    if not _are_dense(values):
        return np.unique(values, return_counts=True)[1]
    n = np.bincount(values)
    return n[n > 0]


def _are_dense(values: Codes) -> bool:
    """Whether counting takes less than sorting."""
    return len(values) > 0 and values.min() >= 0 and values.max() < _SPARSE * len(values)


def _informative(starts: Codes, u: Few, w: Few) -> tuple[Codes, Few, Few]:
    """Keep groups in which a predictor and an outcome vary; rows are the first axis."""

    def varies(columns: Few) -> NDArray[np.bool_]:
        return np.asarray((np.maximum.reduceat(columns, starts[:-1], axis=0) > 0).any(axis=1))

    kept = varies(u) & varies(w)
    lengths = np.diff(starts)
    rows = np.repeat(kept, lengths)
    ends = np.concatenate([[0], np.cumsum(lengths[kept])])
    return ends, u[rows], w[rows]


@jit
def _permute(groups, starts, u, w, numbered, is_permuted, seed, found):  # type: ignore[no-untyped-def]
    """Write X^2 of some groups, (numbers, groups, pairs of columns), permuted on the way."""
    size = _CATEGORIES + 1
    tables, room = np.zeros((u.shape[1], 2, size, size), np.int64), np.empty(size)
    for g in groups:
        for k in range(len(numbered)):
            if is_permuted:
                _shuffle(w, starts[g], starts[g + 1], number(seed, numbered[k]))
            _pearson(starts[g], starts[g + 1], u, w, tables, room, found[k, g])


@jit
def _shuffle(w, start, stop, state):  # type: ignore[no-untyped-def]
    """Permute rows in place."""
    for i in range(stop - 1, start, -1):
        span = np.uint64(i - start + 1)
        j = start + np.int64(below(number(state, np.uint64(i)), span))
        w[i], w[j] = w[j], w[i]


@jit
def _pearson(start, stop, u, w, tables, room, found):  # type: ignore[no-untyped-def]
    """Write X^2 of some rows for each predictor and outcome; a second one is 0 where is none."""
    tables[:] = 0
    for i in range(start, stop):
        one, two = w[i] & _FIRST, w[i] >> _BITS
        for p in range(u.shape[1]):
            tables[p, 0, u[i, p], one] += 1
            tables[p, 1, u[i, p], two] += 1
    n_outcomes = len(found) // u.shape[1]
    for p in range(u.shape[1]):
        for o in range(n_outcomes):
            total = _phi_square(tables[p, o], room)
            found[p * n_outcomes + o] = (stop - start) * (total - 1.0)


@jit
def _phi_square(table, n_b):  # type: ignore[no-untyped-def]
    """Return the sum of n_ab^2 / (n_a n_b), which is 1 + X^2 / n; n_b is room for as many."""
    total, n_b[:] = 0.0, 0.0
    for a in range(len(table)):
        for b in range(len(table)):
            n_b[b] += table[a, b]
    for a in range(len(table)):
        n_a = float(table[a].sum())
        for b in range(len(table)):
            n = float(table[a, b])
            if n > 0.0:
                total += n * n / (n_a * n_b[b])
    return total
