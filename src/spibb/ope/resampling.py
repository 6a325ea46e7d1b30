"""Resamples of episodes, drawn with replacement, and a statistic's values on them.

Of many episodes, the numbers of each resample come from a counter (spibb.compiled.random_numbers),
so that threads draw and add up resamples of their own, and the result does not depend on how many
there are. Most statistics are functions of sums of a few numbers of each episode. For them episodes
are divided into slabs that fit into the fastest memory: how many of a resample are of which slab is
drawn first (a multinomial number), then which ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit, reassociating_jit
from spibb.compiled.random_numbers import RESAMPLES, below, number, stream_state
from spibb.compiled.threads import over_chunks
from spibb.ope.statistics import Array, Statistic

# Episodes that are drawn at a time.
_DRAWS = 1 << 21
# From so many episodes on, numbers are drawn by counter; below, as ever, by the generator itself.
MANY_EPISODES = 20_000
# Episodes of a slab, a power of two; resamples that follow each other through all slabs.
_BITS = 10
_SLAB, _TOGETHER = 1 << _BITS, 100
_TEN_BITS, _IN_A_NUMBER = np.uint64(_SLAB - 1), 64 // _BITS


def resample(
    statistics: Sequence[Statistic], n_resamples: int, rng: np.random.Generator
) -> list[Array]:
    """Return statistics of the same episodes on resamples of these, drawn with replacement.

    Resamples of many episodes are the same for all statistics that are functions of sums.
    """
    if not statistics or len(statistics[0]) < MANY_EPISODES:
        return [_resample_few(one, n_resamples, rng) for one in statistics]
    seed = np.uint64(rng.integers(2**63))
    columns = [one.columns for one in statistics]
    summed = [part for part in columns if part is not None]
    ends = np.cumsum([len(part) for part in summed])
    sums = resampled_sums(np.concatenate(summed), n_resamples, seed) if summed else np.empty((0, 0))
    parts = iter(np.split(sums, ends, axis=1))
    return [
        _resample_many(one, n_resamples, seed) if part is None else one.of_sums(next(parts))
        for one, part in zip(statistics, columns, strict=True)
    ]


def _resample_few(statistic: Statistic, n_resamples: int, rng: np.random.Generator) -> Array:
    n = len(statistic)
    rows = max(1, _DRAWS // n)
    sizes = [min(rows, n_resamples - done) for done in range(0, n_resamples, rows)]
    return np.concatenate(
        [statistic.resampled(rng.integers(0, n, (size, n), dtype=np.int64)) for size in sizes]
    )


def resampled_sums(columns: Array, n_resamples: int, seed: np.uint64) -> Array:
    """Return the sums of columns (m, n) over resamples of n episodes, shape (n_resamples, m)."""
    n = columns.shape[1]
    sums = np.zeros((n_resamples, len(columns)))
    sizes = np.diff(np.append(np.arange(0, n, _SLAB), n))

    def fill(parts: NDArray[np.int64]) -> None:
        for part in parts:
            some = np.arange(part * _TOGETHER, min((part + 1) * _TOGETHER, n_resamples))
            totals = np.random.default_rng([seed, part]).multinomial(n, sizes / n, len(some))
            _add_slabs(seed, some, totals, columns, sums)

    over_chunks(fill, np.arange(-(-n_resamples // _TOGETHER)), are_long=True)
    return sums


def _resample_many(statistic: Statistic, n_resamples: int, seed: np.uint64) -> Array:
    n, found = len(statistic), np.empty(n_resamples)
    rows = max(1, _DRAWS // n)

    def fill(chosen: NDArray[np.int64]) -> None:
        # One array for all: the system takes as long to find new memory as drawing takes.
        episodes = np.empty((min(rows, len(chosen)), n), np.int64)
        for first in range(0, len(chosen), rows):
            some = chosen[first : first + rows]
            draw(seed, some, episodes)
            found[some] = statistic.resampled(episodes[: len(some)])

    over_chunks(fill, np.arange(n_resamples))
    return found


@jit
def _add_slabs(seed, resamples, totals, columns, sums):  # type: ignore[no-untyped-def]
    """Add up what is drawn of each slab: two columns and four resamples at a time, none waits."""
    n_slabs, (n_columns, n) = totals.shape[1], columns.shape
    state, times = stream_state(seed, np.uint64(RESAMPLES)), np.empty((4, _SLAB))
    for slab in range(n_slabs):
        first, last = slab * _SLAB, min((slab + 1) * _SLAB, n)
        for k in range(0, len(resamples), 4):
            some = resamples[k : k + 4]
            times[:] = 0.0
            for j in range(len(some)):
                place = np.uint64(some[j] * n_slabs + slab)
                _draw_slab(number(state, place), totals[k + j, slab], times[j, : last - first])
            for column in range(0, n_columns, 2):
                other = min(column + 1, n_columns - 1)
                found = _products(times, columns[column, first:last], columns[other, first:last])
                for j in range(len(some)):
                    sums[some[j], column] += found[j]
                    if other > column:
                        sums[some[j], other] += found[4 + j]


@reassociating_jit
def _products(times, x, y):  # type: ignore[no-untyped-def]
    """Return the products of four rows with x, then with y."""
    a, b, c, d = times[0], times[1], times[2], times[3]
    ax, bx, cx, dx, ay, by, cy, dy = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(len(x)):
        ax += a[i] * x[i]
        bx += b[i] * x[i]
        cx += c[i] * x[i]
        dx += d[i] * x[i]
        ay += a[i] * y[i]
        by += b[i] * y[i]
        cy += c[i] * y[i]
        dy += d[i] * y[i]
    return ax, bx, cx, dx, ay, by, cy, dy


@jit
def _draw_slab(state, n_drawn, times):  # type: ignore[no-untyped-def]
    """Draw episodes of a slab, and count how often each is."""
    size = np.uint64(len(times))
    if size < _SLAB:
        for i in range(n_drawn):
            times[below(number(state, np.uint64(i)), size)] += 1.0
        return
    n_numbers = n_drawn // _IN_A_NUMBER
    for i in range(n_numbers):
        value = number(state, np.uint64(i))
        for _ in range(_IN_A_NUMBER):
            times[value & _TEN_BITS] += 1.0
            value >>= np.uint64(_BITS)
    value = number(state, np.uint64(n_numbers))
    for _ in range(n_drawn - n_numbers * _IN_A_NUMBER):
        times[value & _TEN_BITS] += 1.0
        value >>= np.uint64(_BITS)


@jit
def draw(seed, resamples, found):  # type: ignore[no-untyped-def]
    """Draw the episodes of resamples by their numbers, into one row of n for each.

    Every number of 64 bits draws two of them, by its halves.
    """
    n = found.shape[1]
    state, size = stream_state(seed, np.uint64(RESAMPLES)), np.uint64(n)
    half = (n + 1) // 2
    for k in range(len(resamples)):
        first = np.uint64(resamples[k]) * np.uint64(half)
        for i in range(n // 2):
            value = number(state, first + np.uint64(i))
            found[k, 2 * i] = np.int64(below(value, size))
            found[k, 2 * i + 1] = np.int64(below(value << np.uint64(32), size))
        if n % 2:
            found[k, n - 1] = np.int64(below(number(state, first + np.uint64(half - 1)), size))
