"""The range of returns between which exact bounds normalise, and estimates are kept."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spibb.data.direction import check_range
from spibb.errors import SettingsError
from spibb.ope.bounds import Ends
from spibb.ope.statistics import Array
from spibb.problem.ranges import ValueRange

if TYPE_CHECKING:
    from spibb.ope.estimators.base import Estimator


@dataclass(frozen=True)
class ReturnRange:
    """Between which returns exact bounds normalise.

    Attributes:
        low: Smallest return.
        high: Largest return.
        rewards: The range of rewards.
        is_given: Whether the user gave the range of returns itself.
    """

    low: float
    high: float
    rewards: ValueRange
    is_given: bool

    @classmethod
    def of(cls, rewards: ValueRange, given: tuple[float, float] | None, gain: Array) -> ReturnRange:
        """Take the given range, after checking it against the log, or what the rewards imply."""
        if given is None:
            hint = "give return_range, use gamma < 1, or another bound"
            streams = _streams(rewards, "a range of returns for an exact bound", hint)
            return cls(*streams, rewards, is_given=False)
        low, high = checked_range(given)
        seen = float(gain.min()), float(gain.max())
        check_range(
            (low, high), seen, name="return_range", what="returns", minimize=rewards.minimize
        )
        return cls(low, high, rewards, is_given=True)

    def is_known(self, *estimators: Estimator) -> bool:
        """Whether nothing of it was read off the log, as far as these estimators rest on it."""
        of_returns = all(one.is_of_returns for one in estimators)
        return not self.rewards.is_observed or (self.is_given and of_returns)

    def kept_inside(self, estimate: float, interval: Ends) -> tuple[float, Ends, tuple[str, ...]]:
        """Keep an estimate and its interval inside a range that is known, and say so.

        A range that was only observed is no reason to move them, but one to be told.
        """
        outside = math.isfinite(estimate) and not self.low <= estimate <= self.high
        told, found = f"[{self.low:g}, {self.high:g}]", np.array([estimate, *interval])
        text = f"The estimate is outside of {told}, which the rewards of the log imply."
        if self.is_known():
            text = f"The estimate was {estimate:.4g}, outside of the known range of returns {told}."
            found = np.where(np.isfinite(found), np.clip(found, self.low, self.high), found)
        inside, lower, upper = found.tolist()
        return inside, (lower, upper), (text,) if outside else ()

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
        if not all(of_returns):
            origin = "as observed in the log, not given" if self.rewards.is_observed else "as given"
            texts.append(f"Rewards lie in [{self.rewards.low:g}, {self.rewards.high:g}], {origin}.")
        return " ".join(texts)


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
