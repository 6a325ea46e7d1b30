"""Means of the lowest outcomes of groups, and the weights that an adverse cause gives them.

An unrecorded cause that changes odds by a factor of at most G can weigh outcomes of a group by
factors between 1 / G and G whose mean is 1. Their mean is then least where the lowest share
1 / (1 + G) of the outcomes has weight G, and the others 1 / G.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spibb.compiled.jit import jit
from spibb.representation.steps import Array, Codes


class Tails(NamedTuple):
    """What :func:`lower_tails` returns.

    Attributes:
        factor: Weight of each outcome.
        threshold: Quantile of each group below which outcomes are weighed up.
        mean: Mean of each group.
        tail: Mean of the lowest outcomes of each group.
    """

    factor: Array
    threshold: Array
    mean: Array
    tail: Array


def lower_tails(outcome: Array, begin: Codes, odds_ratio: float) -> Tails:
    """Return the mean of the lowest share 1 / (1 + odds_ratio) of each group.

    Args:
        outcome: Outcomes, sorted by group.
        begin: Where each group begins, and the end of the last one.
        odds_ratio: G, at least 1.
    """
    n_groups = len(begin) - 1
    found = Tails(np.empty(len(outcome)), *(np.empty(n_groups) for _ in range(3)))
    _fill(outcome, begin, float(odds_ratio), *found)
    return found


@jit
def _fill(outcome, begin, odds_ratio, factor, threshold, mean, tail):  # type: ignore[no-untyped-def]
    for g in range(len(begin) - 1):
        first, end = begin[g], begin[g + 1]
        n = end - first
        wanted = n / (1.0 + odds_ratio)
        # The smallest outcome that so many are not above; rounding may not choose the next one.
        place = min(n - 1, max(0, int(np.ceil(wanted - 1e-9)) - 1))
        factor[first:end] = outcome[first:end]
        q = _select(factor[first:end], place)
        total, below, n_below, n_at = 0.0, 0.0, 0, 0
        for i in range(first, end):
            total += outcome[i]
            below += max(q - outcome[i], 0.0)
            n_below += outcome[i] < q
            n_at += outcome[i] == q
        threshold[g], mean[g], tail[g] = q, total / n, q - below / wanted
        # Outcomes at the threshold share what is left of the mean weight of 1.
        left = n - n_below * odds_ratio - (n - n_below - n_at) / odds_ratio
        for i in range(first, end):
            y = outcome[i]
            factor[i] = odds_ratio if y < q else 1.0 / odds_ratio if y > q else left / n_at


def honest_tails(outcome: Array, begin: Codes, odds_ratio: float) -> Array:
    """Return tails in which no row takes part in choosing its own threshold.

    A tail is the largest mean of q - (q - y)_+ (1 + G) over q. With one q for all rows it is too
    high in small groups. Here each row has the threshold of the others, so that the expected value
    is at most the true tail. A group of one row has the mean.
    """
    found = np.empty(len(begin) - 1)
    _fill_honest(outcome, begin, float(odds_ratio), np.empty(len(outcome)), found)
    return found


@jit
def _fill_honest(outcome, begin, odds_ratio, work, found):  # type: ignore[no-untyped-def]
    for g in range(len(begin) - 1):
        first, end = begin[g], begin[g + 1]
        n = end - first
        if n == 1:
            found[g] = outcome[first]
            continue
        # Without one of the k lowest rows the threshold is one place higher.
        k = max(1, int(np.ceil((n - 1) / (1.0 + odds_ratio) - 1e-9)))
        work[first:end] = outcome[first:end]
        q = _select(work[first:end], k - 1)
        higher = np.inf
        for i in range(first + k, end):
            higher = min(higher, work[i])
        below = 0.0
        for i in range(first, end):
            below += max(q - work[i], 0.0)
        found[g] = q - (below * (1.0 + odds_ratio) + (higher - q) * odds_ratio * k) / n


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
