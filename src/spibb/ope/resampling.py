"""Resamples of episodes, drawn with replacement, and a statistic's values on them.

Of many episodes, millions of numbers are drawn: there, the numbers of each resample come from a
counter (spibb.compiled.random_numbers), so that threads draw and add up resamples of their own, and
the result does not depend on how many there are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.compiled.random_numbers import RESAMPLES, below, number, stream_state
from spibb.compiled.threads import over_chunks
from spibb.ope.statistics import Array, Statistic

# Episodes that are drawn at a time.
_DRAWS = 1 << 21
# From so many episodes on, numbers are drawn by counter; below, as ever, by the generator itself.
MANY_EPISODES = 20_000


def resample(statistic: Statistic, n_resamples: int, rng: np.random.Generator) -> Array:
    """Return the statistic on resamples of its episodes, drawn with replacement."""
    n = len(statistic)
    if n >= MANY_EPISODES:
        return _resample_many(statistic, n_resamples, np.uint64(rng.integers(2**63)))
    rows = max(1, _DRAWS // n)
    sizes = [min(rows, n_resamples - done) for done in range(0, n_resamples, rows)]
    return np.concatenate(
        [statistic.resampled(rng.integers(0, n, (size, n), dtype=np.int64)) for size in sizes]
    )


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
