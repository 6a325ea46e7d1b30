"""Is something in the log twice?

Episodes that happen to be alike are no duplicates: short ones of few states are alike all the time.
What chance cannot make is told by how often each different episode is there. If it is there
k times and k is Poisson of any mean, at least once,

* k is even with probability 1/2 at most, and a multiple of 3 with probability 1/3 at most: a file
  that was read twice or three times makes all of them so;
* with f_k the number of different episodes that are there k times, k! E[f_k] is log-convex in k,
  since it is a mixture of exp(-m) m^k: 4 E[f_2]^2 <= 6 E[f_1] E[f_3]. Episodes of which many are
  there twice and hardly any three times, copied from another part of the log, break that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, chdtrc

from spibb.data.content_hash import hash_log
from spibb.data.log import Log
from spibb.inspection.check import Check
from spibb.inspection.finding import Finding, TestResult

if TYPE_CHECKING:
    from spibb.inspection.evidence import Evidence

_FEWEST = 8
# Beyond this share of copies, how sure a log seems is how often it was copied.
_FEW_COPIES = 0.05


class Duplicates(Check):
    """Find episodes that occur several times, as after reading a file twice."""

    id = "duplicates"
    title = "Are there duplicate episodes?"
    level = 0.0005
    verdict_effect = "keep"

    def run(self, evidence: Evidence) -> Iterator[Finding | TestResult]:
        """Test how often each different episode occurs."""
        what = "rows" if evidence.log.episode is None else "episodes"
        times = evidence.multiplicities
        n = int(times.sum())
        if n < _FEWEST:
            yield self.not_run(f"{n} {what} are too few")
            return
        p_value = duplicates_p_value(times)
        result = self.result(p_value)
        yield result
        if not result.is_significant:
            return
        n_twice, n_too_many = int((times > 1).sum()), int((times - 1).sum())
        share = n_too_many / n
        yield Finding(
            check="duplicates",
            severity="biased" if share <= _FEW_COPIES else "void",
            found=f"{n_twice:,} of {len(times):,} different {what} are there more than once, "
            f"{n_too_many:,} {what} too many, and not by chance (p = {p_value:.2g}).",
            effect="Every count is larger than what was seen: intervals are too narrow, and "
            "guarantees claim more than the data hold.",
            advice="Check whether a file was read twice, and drop the copies.",
            share=share,
            p_value=p_value,
        )


def multiplicities(log: Log) -> NDArray[np.int64]:
    """Return how often each different episode occurs; each different row without episodes."""
    return np.unique(_piece_hashes(log), return_counts=True)[1]


def are_copied(times: NDArray[np.int64]) -> bool:
    """Return whether the test finds copies, by how often each different episode occurs."""
    return bool(times.sum() >= _FEWEST and duplicates_p_value(times) <= Duplicates.level)


def without_copies(log: Log) -> Log:
    """Return a log in which every different episode is there once."""
    _, first, place = np.unique(_piece_hashes(log), return_index=True, return_inverse=True)
    kept = np.zeros(len(place), dtype=np.bool_)
    kept[first] = True
    return log.take(kept[_pieces(log)])


def _pieces(log: Log) -> NDArray[np.int64]:
    """Return the number of the episode of each row; what follows an end is one of its own.

    A file that is read twice repeats the numbers of its episodes too, and without a column of steps
    each of them goes on after its end.
    """
    if log.episode is None:
        return np.arange(len(log))
    is_new = log.episode[1:] != log.episode[:-1]
    is_new |= log.terminated[:-1] | log.truncated[:-1]
    return np.cumsum(np.append(False, is_new))


def _piece_hashes(log: Log) -> NDArray[np.uint64]:
    if log.episode is None or not _goes_on_after_an_end(log):
        return log.hashes[1]
    return hash_log(replace(log, episode=_pieces(log)))[1]


def _goes_on_after_an_end(log: Log) -> bool:
    assert log.is_first is not None
    return bool(((log.terminated | log.truncated)[:-1] & ~log.is_first[1:]).any())


def duplicates_p_value(times: NDArray[np.int64]) -> float:
    """Return the p-value of how often each different thing is there.

    Example:
        >>> duplicates_p_value(np.array([1, 1, 2, 1, 3, 1, 1, 2, 1])) > 0.1
        True
        >>> duplicates_p_value(np.full(20, 2)) < 1e-5
        True
    """
    n = len(times)
    by_divisor = [
        _at_least(int((times % divisor == 0).sum()), n, 1.0 / divisor) for divisor in (2, 3)
    ]
    f = [int((times == k).sum()) for k in (1, 2, 3)]
    return min(1.0, 3.0 * min(*by_divisor, _pairs_p_value(*f)))


def _pairs_p_value(f_1: int, f_2: int, f_3: int) -> float:
    """Test 2 E[f_2]^2 <= 3 E[f_1] E[f_3] for independent Poisson numbers, by likelihood ratio."""
    if 2 * f_2 * f_2 <= 3 * f_1 * f_3:
        return 1.0
    # With multiplier t: means f_1 + t, f_2 - 2 t, f_3 + t meet the limit.
    b, c = 8.0 * f_2 + 3.0 * (f_1 + f_3), 2.0 * f_2**2 - 3.0 * f_1 * f_3
    t = 2.0 * c / (b + math.sqrt(b * b - 20.0 * c))
    means = (f_1 + t, f_2 - 2.0 * t, f_3 + t)
    seen = zip((f_1, f_2, f_3), means, strict=True)
    ratio = sum((k * math.log(k / mean) if k else 0.0) + mean - k for k, mean in seen)
    return float(chdtrc(1, 2.0 * ratio))


def _at_least(k: int, n: int, p: float) -> float:
    """Return with which probability at least k of n trials succeed."""
    return 1.0 if k == 0 else float(betainc(k, n - k + 1, p))
