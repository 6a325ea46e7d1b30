"""Monte-Carlo returns of the policy that made the log."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from spibb.data.log import Log
from spibb.errors import DataError


@dataclass(frozen=True, eq=False)
class Returns:
    """First-visit returns of every pair; all shapes (S, A).

    One return for each episode that visits the pair, from its first visit on: given the visits,
    these are independent, which returns from every visit are not.

    Attributes:
        n: Number of returns.
        mean: Their mean, 0 where there is none.
        variance: Their sample variance (ddof 1), 0 where there are fewer than two.
        cut: Mean over the returns of gamma^h for those cut off after h steps by truncation, 0 for
            complete ones: the share of a full value that may be missing from the mean.
    """

    n: NDArray[np.int64]
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    cut: NDArray[np.float64]


def first_visit_returns(log: Log, gamma: float) -> Returns:
    """Compute the first-visit returns of a log with episodes."""
    if log.episode is None:
        raise DataError(
            "the log has no episodes",
            expected="an episode for each row: returns are sums along an episode",
            hint="give the column 'episode', or choose an error function that needs counts only",
        )
    shape = (log.n_states, log.n_actions)
    is_last = np.append(log.episode[1:] != log.episode[:-1], True)
    gain, cut = _discounted(log.reward, is_last, log.terminated, float(gamma))
    pair = log.state * log.n_actions + log.action
    # Episodes are numbered anew: their own numbers may be identifiers of any size.
    place = np.cumsum(np.append(False, is_last[:-1]))
    visit = place * (shape[0] * shape[1]) + pair
    first = np.unique(visit, return_index=True)[1]
    pair, gain, cut = pair[first], gain[first], cut[first]
    size = shape[0] * shape[1]
    n = np.bincount(pair, minlength=size)
    safe = np.maximum(n, 1)
    mean = np.bincount(pair, gain, size) / safe
    square = np.bincount(pair, (gain - mean[pair]) ** 2, size)
    return Returns(
        n=n.reshape(shape),
        mean=mean.reshape(shape),
        variance=(square / np.maximum(n - 1, 1)).reshape(shape),
        cut=(np.bincount(pair, cut, size) / safe).reshape(shape),
    )


@numba.njit(cache=True)
def _discounted(reward, is_last, terminated, gamma):  # type: ignore[no-untyped-def]
    """Return the discounted return from each row on, and gamma^h if it is cut off after h rows."""
    gain = np.empty(len(reward))
    cut = np.empty(len(reward))
    later = 0.0
    missing = 0.0
    for row in range(len(reward) - 1, -1, -1):
        if is_last[row]:
            later = 0.0
            missing = 1.0
        if terminated[row]:
            later = 0.0
            missing = 0.0
        later = reward[row] + gamma * later
        missing = gamma * missing
        gain[row] = later
        cut[row] = missing
    return gain, cut
