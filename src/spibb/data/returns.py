"""Monte-Carlo returns of the policy that made the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.data.estimate import average_value
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
        cut: Mean over the returns of gamma^h for those cut off after h steps, 0 for complete ones:
            the share of a full value that is not known.
        cut_square: Likewise the mean of gamma^(2 h).
        completion: What stands in the mean for a value that was cut off: that of a state which
            does what the log does on average (:mod:`spibb.data.estimate`).
    """

    n: NDArray[np.int64]
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    cut: NDArray[np.float64]
    cut_square: NDArray[np.float64]
    completion: float


class FirstVisits(NamedTuple):
    """The first visit of each episode to each pair.

    Attributes:
        row: Where in the log.
        episode: Which episode, counted from 0.
        pair: x * A + a.
        gain: The return from there on, as far as it was recorded.
        cut: gamma^h where the record stops after h steps, 0 where the return is complete.
    """

    row: NDArray[np.int64]
    episode: NDArray[np.int64]
    pair: NDArray[np.int64]
    gain: NDArray[np.float64]
    cut: NDArray[np.float64]


def first_visits(log: Log, gamma: float) -> FirstVisits:
    """Return the first visits of a log with episodes.

    A return is cut off where the record stops before the process does, or lacks steps; of an
    episode that lacks steps, what comes after is left out.
    """
    if log.episode is None:
        raise DataError(
            "the log has no episodes",
            expected="an episode for each row: returns are sums along an episode",
            hint="give the column 'episode', or choose an error function that needs counts only",
        )
    is_last = np.append(log.episode[1:] != log.episode[:-1], True)
    gain, cut = _discounted(log.reward, is_last | log.is_gap, log.terminated, float(gamma))
    pair = log.state * log.n_actions + log.action
    # Episodes are numbered anew: their own numbers may be identifiers of any size.
    place = np.cumsum(np.append(False, is_last[:-1]))
    usable = np.flatnonzero(~_after_gap(log.is_gap, is_last))
    visit = place[usable] * (log.n_states * log.n_actions) + pair[usable]
    first = usable[np.unique(visit, return_index=True)[1]]
    return FirstVisits(first, place[first], pair[first], gain[first], cut[first])


def first_visit_returns(log: Log, gamma: float) -> Returns:
    """Compute the first-visit returns of a log with episodes; see :func:`first_visits`."""
    shape = (log.n_states, log.n_actions)
    size = shape[0] * shape[1]
    completion = _completion(log, float(gamma))
    _, _, pair, gain, cut = first_visits(log, gamma)
    gain = gain + completion * cut
    n = np.bincount(pair, minlength=size)
    safe = np.maximum(n, 1)
    mean = np.bincount(pair, gain, size) / safe
    square = np.bincount(pair, (gain - mean[pair]) ** 2, size)
    return Returns(
        n=n.reshape(shape),
        mean=mean.reshape(shape),
        variance=(square / np.maximum(n - 1, 1)).reshape(shape),
        cut=(np.bincount(pair, cut, size) / safe).reshape(shape),
        cut_square=(np.bincount(pair, cut**2, size) / safe).reshape(shape),
        completion=completion,
    )


def _completion(log: Log, gamma: float) -> float:
    n_ended = int(np.count_nonzero(log.terminated))
    return average_value(len(log), float(log.reward.sum()), n_ended, gamma)


def _after_gap(is_gap: NDArray[np.bool_], is_last: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mark the rows of each episode that follow its first gap."""
    earlier: NDArray[np.int64] = np.cumsum(is_gap) - is_gap
    first = np.flatnonzero(np.append(True, is_last[:-1]))
    lengths = np.diff(np.append(first, len(is_gap)))
    return np.asarray(earlier > np.repeat(earlier[first], lengths))


@jit
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
