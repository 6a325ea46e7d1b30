"""The range of returns between which exact bounds normalise, and estimates are kept."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spibb.data.direction import check_range
from spibb.errors import SettingsError
from spibb.ope.bounds import Ends
from spibb.ope.statistics import Array
from spibb.problem.ranges import ValueRange

if TYPE_CHECKING:
    from spibb.ope.estimators.base import Estimator
    from spibb.ope.trajectories import Trajectories

# Paid episodes without which nothing is known of when an episode pays.
_FEWEST_PAID = 5
# Rare payments are seldom two in an episode. That none are says something below this probability.
_MOST_CHANCE = 0.01
# Why an estimate is a probability, by whether costs are minimized.
_PAYS = {
    False: "pays 0 or 1, once, so this is a probability",
    True: "costs 0 or 1, once, so this is a probability with its sign turned",
}


@dataclass(frozen=True)
class Outcome:
    """The range of returns where each episode pays once at most: a discounted reward, or 0.

    Attributes:
        low: Smallest return.
        high: Largest return.
        is_probability: Whether each episode of the log pays 0 or 1, and no other range was given;
            costs it, where costs are minimized.
    """

    low: float
    high: float
    is_probability: bool

    @classmethod
    def of(cls, episodes: Trajectories, rewards: ValueRange) -> Outcome | None:
        """Return the range; None where the log does not show that an episode pays once at most.

        It does not where an episode pays twice, or was truncated and paid before: more may follow.
        Nor does it where that no episode pays twice may well be chance.
        """
        is_paid = episodes.reward != 0.0
        n_paid = int(is_paid.sum())
        if n_paid < _FEWEST_PAID:
            return None
        row = np.flatnonzero(is_paid)
        episode = np.searchsorted(episodes.start, row, "right") - 1
        if (np.diff(episode) == 0).any() or episodes.is_cut[episode].any():
            return None
        before = row - episodes.start[episode]
        after = episodes.start[episode + 1] - 1 - row
        if after.any() and _chance_of_once(episodes.lengths, before, after) > _MOST_CHANCE:
            return None
        low, high = min(0.0, rewards.low), max(0.0, rewards.high)
        one = -1.0 if rewards.minimize else 1.0
        is_one = (low, high) == (min(0.0, one), max(0.0, one))
        is_probability = is_one and bool((episodes.reward[is_paid] == one).all())
        return cls(low, high, is_probability)


@dataclass(frozen=True)
class ReturnRange:
    """Between which returns exact bounds normalise.

    Attributes:
        low: Smallest return.
        high: Largest return.
        rewards: The range of rewards.
        is_given: Whether the user gave the range of returns itself.
        outcome: The range of returns where each episode of the log pays once at most.
    """

    low: float
    high: float
    rewards: ValueRange
    is_given: bool
    outcome: Outcome | None = None

    @classmethod
    def of(
        cls,
        rewards: ValueRange,
        given: tuple[float, float] | None,
        gain: Array,
        outcome: Outcome | None = None,
    ) -> ReturnRange:
        """Take the given range, after checking it against the log, or what the rewards imply.

        Where each episode pays once at most and the range of rewards is that of the log, it is
        that of one payment.
        """
        if given is None and outcome is not None and rewards.is_observed:
            return cls(outcome.low, outcome.high, rewards, is_given=False, outcome=outcome)
        if given is None:
            hint = "give return_range, use gamma < 1, or another bound"
            streams = _streams(rewards, "a range of returns for an exact bound", hint)
            return cls(*streams, rewards, is_given=False, outcome=outcome)
        low, high = checked_range(given)
        seen = float(gain.min()), float(gain.max())
        check_range(
            (low, high), seen, name="return_range", what="returns", minimize=rewards.minimize
        )
        return cls(low, high, rewards, is_given=True)

    @property
    def _rests_on_outcome(self) -> bool:
        """Whether the range is that of what episodes of the log pay: rewards alone have none."""
        are_unbounded = self.rewards.is_observed or self.rewards.gamma >= 1.0
        return self.outcome is not None and not self.is_given and are_unbounded

    def is_known(self, *estimators: Estimator) -> bool:
        """Whether nothing of it was read off the log, as far as these estimators rest on it."""
        if self._rests_on_outcome:
            return False
        of_returns = all(one.is_of_returns for one in estimators)
        return not self.rewards.is_observed or (self.is_given and of_returns)

    def kept_inside(self, estimate: float, interval: Ends) -> tuple[float, Ends, tuple[str, ...]]:
        """Keep an estimate and its interval inside a range that is known, and say so.

        A range that was only observed is no reason to move them, but one to be told.
        """
        low, high = self.low, self.high
        found = np.array([estimate, *interval])
        if self.is_known():
            found = np.where(np.isfinite(found), np.clip(found, low, high), found)
        if self.outcome is not None and self.outcome.is_probability:
            low, high = self.outcome.low, self.outcome.high
            # An exact interval rests on the range that was given, not on what the log shows.
            moved = found[:1] if self.is_known() else found
            moved[:] = np.where(np.isfinite(moved), np.clip(moved, low, high), moved)
        inside, lower, upper = found.tolist()
        outside = math.isfinite(estimate) and not low <= estimate <= high
        return inside, (lower, upper), (self._outside(estimate, low, high),) if outside else ()

    def _outside(self, estimate: float, low: float, high: float) -> str:
        """Return in words that an estimate is outside of a range, and whose range it is."""
        told = f"[{low:g}, {high:g}]"
        if self.outcome is not None and self.outcome.is_probability:
            return (
                f"The estimate was {estimate:.4g}, outside of {told}: each episode of the log "
                f"{_PAYS[self.rewards.minimize]}."
            )
        if self.is_known():
            return f"The estimate was {estimate:.4g}, outside of the known range of returns {told}."
        return f"The estimate is outside of {told}, which the rewards of the log imply."

    def streams(self, estimator: str) -> tuple[float, float]:
        """Return the least and the largest reward for ever, or refuse that for gamma = 1."""
        expected = f"gamma < 1 for {estimator!r} with an exact bound"
        return _streams(self.rewards, expected, "use the estimator 'is' with return_range")

    def statement(self, *estimators: Estimator) -> str:
        """Return the assumption in words: per-decision terms rest on rewards, others on returns."""
        of_returns, texts = [self.is_given and one.is_of_returns for one in estimators], []
        if any(of_returns):
            texts.append(
                f"Returns, from any step on, lie in [{self.low:g}, {self.high:g}], as given."
            )
        if self._rests_on_outcome and any(one.is_of_returns for one in estimators):
            texts.append(
                f"Each episode pays once at most, so that returns lie in [{self.low:g}, "
                f"{self.high:g}], as observed in the log, not given."
            )
            of_returns = [one.is_of_returns for one in estimators]
        if not all(of_returns):
            origin = "as observed in the log, not given" if self.rewards.is_observed else "as given"
            texts.append(f"Rewards lie in [{self.rewards.low:g}, {self.rewards.high:g}], {origin}.")
        return " ".join(texts)


def _chance_of_once(
    lengths: NDArray[np.int64], before: NDArray[np.int64], after: NDArray[np.int64]
) -> float:
    """Return how likely payments look as if episodes paid once, if any row may pay.

    They look so where no two are in one episode, or where all have the same place in theirs.

    Args:
        lengths: Rows of each episode.
        before: Rows of the same episode before each payment.
        after: Rows after it.
    """
    n, n_rows = len(before), float(lengths.sum())
    pairs = float((lengths * (lengths - 1.0)).sum()) / (n_rows * (n_rows - 1.0))
    no_two = math.exp(-0.5 * n * (n - 1) * pairs)
    if (before != before[0]).any() and (after != after[0]).any():
        return no_two
    places = np.log(before + after + 1.0)
    return min(no_two, math.exp(float(places.max() - places.sum())))


def _streams(rewards: ValueRange, expected: str, hint: str) -> tuple[float, float]:
    """Return the returns of the least and of the largest reward for ever."""
    if rewards.gamma >= 1.0:
        reason = "gamma is 1, so that rewards alone do not bound returns"
        raise SettingsError(reason, expected=expected, hint=hint)
    low, high = (end / (1.0 - rewards.gamma) for end in rewards.ends)
    return low, high


def checked_range(given: tuple[float, float]) -> tuple[float, float]:
    """Return a range of returns as floats, or refuse it."""
    try:
        low, high = (float(end) for end in given)
    except (TypeError, ValueError):
        low, high = np.nan, np.nan
    if not -np.inf < low <= high < np.inf:
        raise SettingsError(f"return_range is {given}", expected="(low, high), finite")
    return low, high
