r"""Weighted terms about one end of the returns, so that their long tail lies on the safe side.

For any constants low and high that do not depend on the sample, weights of mean 1 give

    rho = low  + E[w (G - low)]                = high - E[w (high - G)]                   (is)
    rho = low  + E[sum_t g^t w_t r_t - s low]  = high - E[s high - sum_t g^t w_t r_t]     (pdis)

with s the spread weight (spibb.ope.weights). If returns lie in [low, high], the terms of ``is`` are
never negative: their tail, which large weights make, lies above, and

* betting and the concentration inequality, which need terms >= 0, apply to both ends;
* Student t and BCa err on the safe side where plain terms w G would fail several times as often as
  they should: a lower bound with negative returns, an upper bound with positive ones, since the
  large weights that a sample lacks are just those that would tell (docs/evaluation.md has figures).

Where the policy leaves the baseline's support, weights have mean below 1, E[w (G - low)] is at most
rho - low, and the ends by ``is`` stay valid. A return G that was cut off after T steps lies between
G + g^T low and G + g^T high, since what follows lies in the range too: the end on the safe side
stands for it. For ``pdis`` with low = L / (1 - g) and high =
H / (1 - g), [L, H] the range of rewards with 0 in it, the terms are the estimates for rewards
r_t - L >= 0 and H - r_t >= 0 that are paid on for ever after the end: never negative either. An
episode that is cut off after T steps has no such end: what would be paid on, -low g^T w_T and
high g^T w_T, is left out of its terms, which keeps them >= 0 and both ends valid for the whole
return. (The concentration inequality takes ``pdis`` only where no reward is negative.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from spibb.errors import SettingsError
from spibb.ope.betting import betting
from spibb.ope.bounds import Ends, bca, concentration, student_t
from spibb.ope.statistics import Array, Mean
from spibb.ope.weights import Walk
from spibb.problem.ranges import ValueRange

# Estimators whose terms can be put about an end.
ONE_SIDED = ("is", "pdis")


@dataclass(frozen=True, eq=False)
class OneSided:
    """Terms for both ends: lower = low + L(below), upper = high - L(above), L a lower bound.

    Attributes:
        low: What was subtracted for the lower end.
        below: Terms for the lower end, shape (n,).
        high: What was subtracted from for the upper end.
        above: Terms for the upper end, shape (n,).
    """

    low: float
    below: Array
    high: float
    above: Array

    @classmethod
    def of(
        cls,
        estimator: str,
        found: Walk,
        low: float,
        high: float,
        policy: int = 0,
        cut: Array | None = None,
    ) -> OneSided:
        """Put the terms of "is" or "pdis" about both ends.

        Args:
            estimator: Which of the two.
            found: The walk along the episodes.
            low: The lower end.
            high: The upper end.
            policy: Which of the walk's policies.
            cut: g^T of episodes that were cut off after T steps, 0 of others; None: returns are
                taken as they are recorded.
        """
        weight = found.weight[:, policy]
        missing = np.zeros(len(weight)) if cut is None else cut
        if estimator == "is":
            least, most = _whole(found.gain, missing, low, high)
            return cls(low, weight * (least - low), high, weight * (high - most))
        spread, value = found.spread[:, policy] - missing * weight, found.value[:, policy]
        return cls(low, value - spread * low, high, spread * high - value)

    def student_t(self, delta: float) -> Ends:
        """Return both ends by Student's t, each at level delta."""
        lower = self.low + student_t(self.below, delta)[0]
        return lower, self.high - student_t(self.above, delta)[0]

    def bca(self, delta: float, rng: np.random.Generator) -> Ends:
        """Return both ends by BCa, each at level delta."""
        lower = self.low + bca(Mean(self.below), delta, rng)[0]
        return lower, self.high - bca(Mean(self.above), delta, rng)[0]

    def betting(self, delta: float) -> Ends:
        """Return both ends by betting, each at level delta."""
        # Never negative but by rounding.
        below, above = np.maximum(self.below, 0.0), np.maximum(self.above, 0.0)
        return self.low + betting(below, delta), self.high - betting(above, delta)

    def concentration(self, delta: float, rng: np.random.Generator) -> Ends:
        """Return both ends by the concentration inequality, each at level delta."""
        # Never negative but by rounding.
        below, above = np.maximum(self.below, 0.0), np.maximum(self.above, 0.0)
        lower = self.low + concentration(below, delta, rng)
        return lower, self.high - concentration(above, delta, rng)


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
            if rewards.gamma >= 1.0:
                raise SettingsError(
                    "gamma is 1, so that rewards alone do not bound returns",
                    expected="a range of returns for an exact bound",
                    hint="give return_range, use gamma < 1, or another bound",
                )
            low, high = (end / (1.0 - rewards.gamma) for end in rewards.ends)
            return cls(low, high, rewards, is_given=False)
        low, high = checked_range(given)
        if gain.min() < low or gain.max() > high:
            raise SettingsError(
                f"the log holds returns from {gain.min():g} to {gain.max():g}",
                expected=f"returns inside return_range = {(low, high)}",
                hint="widen return_range: it must hold every possible return",
            )
        return cls(low, high, rewards, is_given=True)

    def is_known(self, *estimators: str) -> bool:
        """Whether nothing of it was read off the log, as far as these estimators rest on it."""
        return not self.rewards.is_observed or (self.is_given and set(estimators) <= {"is"})

    def kept_inside(self, estimate: float, interval: Ends) -> tuple[float, Ends, tuple[str, ...]]:
        """Keep an estimate and its interval inside a range that is known, and say so.

        A range that was only observed is no reason to move them, but one to be told.
        """
        outside = math.isfinite(estimate) and not self.low <= estimate <= self.high
        told = f"[{self.low:g}, {self.high:g}]"
        if not self.is_known("is"):
            text = f"The estimate is outside of {told}, which the rewards of the log imply."
            return estimate, interval, (text,) if outside else ()
        inside, lower, upper = (
            min(max(x, self.low), self.high) if math.isfinite(x) else x
            for x in (estimate, *interval)
        )
        text = f"The estimate was {estimate:.4g}, outside of the known range of returns {told}."
        return inside, (lower, upper), (text,) if outside else ()

    def ends_of(self, estimator: str) -> tuple[float, float]:
        """Return the ends about which an estimator's terms are never negative."""
        if estimator == "is":
            return self.low, self.high
        if self.rewards.gamma >= 1.0:
            raise SettingsError(
                "gamma is 1, so that no reward stream is bounded",
                expected="gamma < 1 for 'pdis' with an exact bound",
                hint="use the estimator 'is' with return_range",
            )
        low, high = (end / (1.0 - self.rewards.gamma) for end in self.rewards.ends)
        return low, high

    def terms(self, estimator: str, found: Walk, cut: Array, policy: int = 0) -> OneSided:
        """Return terms that are never negative; `cut` as in :meth:`OneSided.of`."""
        return OneSided.of(estimator, found, *self.ends_of(estimator), policy, cut)

    def gains(self, estimator: str, found: Walk, cut: Array) -> Array:
        """Return paired terms Y >= 0 of mean 1 + gain / (high - low), shape (n, C).

        The baseline is the walk's last policy, and the ends are those of :meth:`ends_of`.
        """
        low, high = self.ends_of(estimator)
        width = high - low if high > low else 1.0
        weight = found.weight[:, :-1]
        if estimator == "is":
            least, most = _whole(found.gain, cut, low, high)
            earned = weight * ((least - low) / width)[:, None]
            return np.asarray(1.0 + earned - ((most - low) / width)[:, None])
        spread = found.spread[:, :-1] - cut[:, None] * weight
        paid = found.value[:, :-1] - found.gain[:, None]
        rest = 1.0 - cut[:, None]
        return np.asarray(rest + (paid - low * (spread - rest)) / width)

    def statement(self, *estimators: str) -> str:
        """Return the assumption in words: per-decision terms rest on rewards, others on returns."""
        texts = []
        if self.is_given and "is" in estimators:
            texts.append(
                f"Returns, from any step on, lie in [{self.low:g}, {self.high:g}], as given."
            )
        if not self.is_given or set(estimators) != {"is"}:
            origin = "as observed in the log, not given" if self.rewards.is_observed else "as given"
            texts.append(f"Rewards lie in [{self.rewards.low:g}, {self.rewards.high:g}], {origin}.")
        return " ".join(texts)


def _whole(gain: Array, cut: Array, low: float, high: float) -> tuple[Array, Array]:
    """Return the least and the most that returns may have come to beyond their record."""
    return np.maximum(gain + cut * low, low), np.minimum(gain + cut * high, high)


def checked_range(given: tuple[float, float]) -> tuple[float, float]:
    """Return a range of returns as floats, or refuse it."""
    try:
        low, high = (float(end) for end in given)
    except (TypeError, ValueError):
        low, high = np.nan, np.nan
    if not -np.inf < low <= high < np.inf:
        raise SettingsError(f"return_range is {given}", expected="(low, high), finite")
    return low, high


def refuse_negative(estimator: str, bound: str, rewards: ValueRange | None = None) -> None:
    """Refuse estimators whose terms may be negative, for an exact bound."""
    if estimator not in ONE_SIDED:
        raise SettingsError(
            f"the bound {bound!r} does not hold for {estimator!r}",
            expected="terms that are never negative: 'is' or 'pdis'",
            hint="use the bound 'student-t' or 'bca', or the estimator 'pdis'",
        )
    if bound == "betting":
        return
    if estimator == "pdis" and rewards is not None and rewards.low < 0.0:
        raise SettingsError(
            f"rewards go down to {rewards.low:g}, so that 'pdis' has negative terms",
            expected="rewards >= 0 for the concentration inequality",
            hint="use the bound 'betting', or the estimator 'is', which is shifted by the range of "
            "returns",
        )
