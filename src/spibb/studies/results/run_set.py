"""Which runs a result is made of: ranges of numbers that neither touch nor overlap."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class RunSet:
    """A set of runs.

    >>> first, second = RunSet.of([0, 1, 2, 7]), RunSet(((3, 7),))
    >>> first | second
    RunSet(ranges=((0, 8),))
    >>> first.first_common(RunSet(((2, 9),)))
    2

    Attributes:
        ranges: (first run, run after the last) in rising order, with a gap before the next.
    """

    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, runs: ArrayLike) -> RunSet:
        """Return the set of some runs."""
        numbers = np.unique(np.asarray(runs, dtype=np.int64))
        parts = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
        return cls(tuple((int(part[0]), int(part[-1]) + 1) for part in parts if len(part)))

    def __len__(self) -> int:
        return sum(last - first for first, last in self.ranges)

    def __or__(self, other: RunSet) -> RunSet:
        found: list[tuple[int, int]] = []
        for first, last in sorted((*self.ranges, *other.ranges)):
            if found and first <= found[-1][1]:
                found[-1] = found[-1][0], max(last, found[-1][1])
            else:
                found.append((first, last))
        return RunSet(tuple(found))

    def first_common(self, other: RunSet) -> int | None:
        """Return the first run that is in both sets; None if there is none."""
        pairs = product(self.ranges, other.ranges)
        common = (max(a, c) for (a, b), (c, d) in pairs if max(a, c) < min(b, d))
        return min(common, default=None)
