"""Means of the lowest outcomes of groups, and the weights that an adverse cause gives them.

An unrecorded cause that changes odds by a factor of at most G can weigh outcomes of a group by
factors between 1 / G and G whose mean is 1. Their mean is then least where the lowest share
1 / (1 + G) of the outcomes has weight G, and the others 1 / G.

The log may lack the lowest outcomes of a small group. One row is therefore added to each group, for
its tail only: the lowest outcome of its state. It is in the tail whatever G is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spibb.compiled.jit import jit
from spibb.representation.steps import Array, Codes


class Tails(NamedTuple):
    """What :func:`lower_tails` returns.

    Attributes:
        factor: Weight of each outcome in the tail of its group.
        added: Weight of the added row there.
        threshold: Quantile of each group, up to which outcomes are in the tail.
        mean: Mean of each group, without the added row.
        tail: Mean of the lowest outcomes of each group, with it.
    """

    factor: Array
    added: Array
    threshold: Array
    mean: Array
    tail: Array


def lower_tails(outcome: Array, begin: Codes, lowest: Array, odds_ratio: float) -> Tails:
    """Return the mean of the lowest share 1 / (1 + odds_ratio) of each group and its added row.

    Args:
        outcome: Outcomes, sorted by group.
        begin: Where each group begins, and the end of the last one.
        lowest: Outcome of the added row of each group; not above any of the group.
        odds_ratio: G, at least 1.
    """
    n_groups = len(begin) - 1
    found = Tails(np.empty(len(outcome)), *(np.empty(n_groups) for _ in range(4)))
    _fill(outcome, begin, lowest, float(odds_ratio), *found)
    return found


@jit
def _fill(outcome, begin, lowest, odds_ratio, factor, added, threshold, mean, tail):  # type: ignore[no-untyped-def]
    for g in range(len(begin) - 1):
        first, end, low = begin[g], begin[g + 1], lowest[g]
        n = end - first
        total = 0.0
        for i in range(first, end):
            total += outcome[i]
        mean[g] = total / n
        # Rows in the tail; the added one is the first of them.
        wanted = (n + 1.0) / (1.0 + odds_ratio)
        if wanted <= 1.0 + 1e-9:
            added[g], threshold[g], tail[g] = 1.0, low, low
            factor[first:end] = 0.0
            continue
        added[g] = 1.0 / wanted
        # The smallest outcome that so many are not above; rounding may not choose the next one.
        place = min(n - 1, max(0, int(np.ceil(wanted - 1.0 - 1e-9)) - 1))
        factor[first:end] = outcome[first:end]
        q = _select(factor[first:end], place)
        below, n_below, n_at = q - low, 1, 0
        for i in range(first, end):
            below += max(q - outcome[i], 0.0)
            n_below += outcome[i] < q
            n_at += outcome[i] == q
        threshold[g], tail[g] = q, q - below / wanted
        # Outcomes at the threshold share what is left.
        left = 1.0 - n_below / wanted
        for i in range(first, end):
            y = outcome[i]
            factor[i] = 1.0 / wanted if y < q else 0.0 if y > q else left / n_at


def honest_tails(outcome: Array, begin: Codes, lowest: Array, odds_ratio: float) -> Array:
    """Return tails in which no row takes part in choosing its own threshold.

    A tail is the largest mean of q - (q - y)_+ (1 + G) over q. With one q for all rows it is too
    high in small groups. Here each row has the threshold of the others, so that the expected value
    is at most the true tail. Single ones may be below all outcomes. A group of one row has
    `lowest`.
    """
    found = np.empty(len(begin) - 1)
    _fill_honest(outcome, begin, lowest, float(odds_ratio), np.empty(len(outcome)), found)
    return found


@jit
def _fill_honest(outcome, begin, lowest, odds_ratio, work, found):  # type: ignore[no-untyped-def]
    for g in range(len(begin) - 1):
        first, end = begin[g], begin[g + 1]
        n = end - first
        if n == 1:
            found[g] = lowest[g]
            continue
        # Of the n - 1 other rows so many are in the tail; between two places thresholds are mixed.
        wanted = max(1.0, (n - 1) / (1.0 + odds_ratio))
        k = int(np.ceil(wanted - 1e-9))
        work[first:end] = outcome[first:end]
        q = _select(work[first:end], k - 1)
        higher, lower = np.inf, -np.inf
        for i in range(first + k, end):
            higher = min(higher, work[i])
        found[g] = _honest_tail(work[first:end], q, higher, k, odds_ratio)
        if k > 1:
            for i in range(first, first + k - 1):
                lower = max(lower, work[i])
            other = _honest_tail(work[first:end], lower, q, k - 1, odds_ratio)
            found[g] += (k - wanted) * (other - found[g])


@jit
def _honest_tail(values, q, higher, k, odds_ratio):  # type: ignore[no-untyped-def]
    """Return the tail with the k-th lowest value as threshold."""
    below = 0.0
    for y in values:
        below += max(q - y, 0.0)
    # Without one of the k lowest rows the threshold is one place higher.
    return q - (below * (1.0 + odds_ratio) + (higher - q) * odds_ratio * k) / len(values)


def lowest_places(outcome: Array, begin: Codes) -> Codes:
    """Return the place of the lowest outcome of each group; 0 for a group without any."""
    found = np.zeros(len(begin) - 1, np.int64)
    _fill_lowest(outcome, begin, found)
    return found


@jit
def _fill_lowest(outcome, begin, found):  # type: ignore[no-untyped-def]
    for g in range(len(begin) - 1):
        for i in range(begin[g], begin[g + 1]):
            if i == begin[g] or outcome[i] < outcome[found[g]]:
                found[g] = i


def variances(outcome: Array, begin: Codes) -> Array:
    """Return the mean squared distance from the mean of each group; 0 for one without outcomes."""
    found = np.zeros(len(begin) - 1)
    _fill_variances(outcome, begin, found)
    return found


@jit
def _fill_variances(outcome, begin, found):  # type: ignore[no-untyped-def]
    for g in range(len(begin) - 1):
        first, end = begin[g], begin[g + 1]
        total = 0.0
        for i in range(first, end):
            total += outcome[i]
        mean = total / max(1, end - first)
        for i in range(first, end):
            found[g] += (outcome[i] - mean) ** 2 / (end - first)


@jit
def _select(values, place):  # type: ignore[no-untyped-def]
    """Return the value at a place if values were sorted (Hoare); they are moved."""
    low, high = 0, len(values) - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if place <= j:
            high = j
        elif place >= i:
            low = i
        else:
            break
    return values[place]
