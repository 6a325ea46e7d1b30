r"""Confidence bounds as objects: which estimators they hold for, intervals, and tests of gains.

**Gains.** Each held-out episode estimates both policies, and the difference of the two estimates
has mean rho(pi) - rho(pi_b). What the two have in common cancels, so that bounds on this *paired*
difference are far tighter than a lower bound on one against an upper bound on the other, and cost
no second share of delta:

* ``is``    (w_T - 1) (G - low)                           low the smallest return of the training
* ``pdis``  sum_t g^t w_t r_t - s low - (G - low)         split (spibb.ope.estimators.base says why)
* ``dr``    v_0(pi) - v_0(pi_b), with Q^, V^ of both policies in the model of the training split,
            so that terms are independent and alike, given that split
* ``wis``, ``cwpdis``  the estimate minus the mean return, jointly resampled

Betting needs terms >= 0, which a difference is not; but 1 + (w_T - 1)(G - low) / (high - low) is,
whatever w_T is, if returns lie in [low, high], and has mean 1 + gain / (high - low); likewise step
by step for ``pdis``. The concentration inequality takes a lower bound on rho(pi) at delta / 2
against an upper bound on rho(pi_b) at delta / 2 instead.

Predictions are made on training episodes: the bound with their mean and spread, and the size of
the test. Betting also has its fraction chosen there.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from scipy.special import ndtri, stdtrit

from spibb.errors import SettingsError
from spibb.ope import bounds
from spibb.ope.betting import betting, chosen_fractions, needed_terms, predicted_betting
from spibb.ope.bounds import Ends
from spibb.ope.estimators import ESTIMATORS
from spibb.ope.estimators.base import (
    Estimator,
    MeanEstimator,
    OneSidedEstimator,
    WeightedEstimator,
)
from spibb.ope.estimators.importance import ImportanceSampling
from spibb.ope.rare_rewards import CAPPED_SHARE, RareTerms
from spibb.ope.return_range import ReturnRange
from spibb.ope.statistics import Array, Mean, Statistic
from spibb.ope.weights import ImportanceWeights
from spibb.problem.ranges import ValueRange

Rng = np.random.Generator
Objection = SettingsError | None
# Terms of the policies of a walk about an end.
Terms = Callable[[ImportanceWeights, float], Array]


@dataclass(frozen=True)
class Bound(ABC):
    """A bound on what an estimator estimates.

    Attributes:
        estimator: The estimator.
        delta: The bound fails with this probability.
        known: Range of returns, which exact bounds need.
        low: Smallest return of the training split, which terms of gains are put about.
        hidden: What hidden extremes may take from the gain shown by n episodes, times n.
        fraction: What share of the wealth betting trusts most; None: the grid alone.
        largest: The largest weight an episode can have, where that is known (one-step logs).
    """

    estimator: Estimator
    delta: float
    known: ReturnRange | None
    low: float = 0.0
    hidden: float = 0.0
    fraction: float | None = None
    largest: float = math.inf

    id: ClassVar[str]
    # Whether it holds for every distribution and every number of episodes.
    is_exact: ClassVar[bool] = False
    # What it holds for.
    needs: ClassVar[type[Estimator]] = Estimator  # type: ignore[type-abstract]
    # How it is approximate, in words.
    approximation: ClassVar[str] = ""
    fewest_episodes: ClassVar[int] = 2
    # By which HCPI tests, unless it is told.
    default_estimator: ClassVar[str] = "dr"

    @classmethod
    def objection(cls, estimator: Estimator, rewards: ValueRange | None = None) -> Objection:
        """Return why it does not hold for an estimator, where it does not."""
        if isinstance(estimator, cls.needs):
            return None
        able = [one.id for one in ESTIMATORS.values() if isinstance(one, cls.needs)]
        name, kind = estimator.id, cls.needs.kind
        return SettingsError(
            f"the bound {cls.id!r} does not hold for {name!r}, which is no {kind}",
            expected=f"one of {', '.join(able)}",
            hint="use the bound 'bca', which takes any of them",
        )

    @classmethod
    def check(cls, estimator: Estimator, rewards: ValueRange | None = None) -> None:
        """Refuse an estimator that the bound does not hold for."""
        if (objection := cls.objection(estimator, rewards)) is not None:
            raise objection

    @classmethod
    def check_level(cls, delta: float) -> None:
        """Refuse a level of one end that is out of range, or too small."""
        bounds.checked_level(delta)

    @abstractmethod
    def lower(self, statistic: Statistic, rng: Rng) -> float:
        """Return the lower bound on what a statistic estimates."""

    @abstractmethod
    def interval(
        self, statistic: Statistic, walk: ImportanceWeights, rng: Rng, policy: int = 0
    ) -> Ends:
        """Return both ends for the estimate of a policy, each at level delta."""

    @abstractmethod
    def predicted(self, walk: ImportanceWeights, n_tested: int) -> Array:
        """Return the bounds on gains that ``n_tested`` other episodes may be expected to give.

        For each policy of a walk, of which the last is the baseline, shape (C - 1,).
        """

    def spread_of(
        self, statistic: Statistic, walk: ImportanceWeights, policy: int = 0
    ) -> Sequence[Array]:
        """Return the terms whose spread makes the width of an interval; none of exact bounds."""
        return ()

    def tested(self, gain: Statistic, walk: ImportanceWeights, rng: Rng) -> float:
        """Return the lower bound on the gain of the only policy beside the baseline."""
        return self.lower(gain, rng)

    def fitted(self, walk: ImportanceWeights, policy: int, n_tested: int) -> Self:
        """Return the bound as training episodes prepare it for a test of one policy."""
        return self

    def terms(self, walk: ImportanceWeights) -> Array | None:
        """Return the terms of gains by which tests are sized, shape (n, C - 1).

        None for bounds that are not foreseen.
        """
        return None

    def needed(self, terms: Array, power: float) -> float:
        """Return how many terms like these make the bound positive, with a probability, the power.

        Infinite where no gain is estimated.
        """
        raise NotImplementedError(f"{self.id} is not foreseen")

    def sized(self, walk: ImportanceWeights, power: float) -> tuple[Array | None, int]:
        """Return terms that say how many episodes a bound takes to be positive, and whose they are.

        Half of the episodes choose the policy that needs fewest, the others size it, and the other
        way round: a policy sized by what chose it would look better than it is.
        """
        terms = self.terms(walk)
        if terms is None:
            return None, 0

        def best(part: Array) -> int:
            return int(np.argmin([self.needed(y, power) for y in part.T]))

        halves = (terms[::2], terms[1::2])
        crossed = [halves[0][:, best(halves[1])], halves[1][:, best(halves[0])]]
        return np.concatenate(crossed), best(terms)

    def _about(
        self, terms: Terms, walk: ImportanceWeights, ends: Ends, rng: Rng, policy: int
    ) -> Ends:
        """Bound terms about both ends: the upper one is the lower one of the costs."""
        sides = (walk, ends[0]), (-walk, -ends[1])
        means = [Mean(terms(side, end)[:, policy]) for side, end in sides]
        lower, upper = self.lowers(means, rng)
        return ends[0] + lower, -(upper - ends[1])

    def lowers(self, means: Sequence[Mean], rng: Rng) -> list[float]:
        """Return the lower bounds on several means of the same episodes."""
        return [self.lower(one, rng) for one in means]


class ApproximateBound(Bound):
    """A bound that takes the sample to show what can happen."""

    @abstractmethod
    def ends(self, statistic: Statistic, rng: Rng) -> Ends:
        """Return both ends for a statistic, each at level delta."""

    def lower(self, statistic: Statistic, rng: Rng) -> float:
        """Return the lower of both ends."""
        return self.ends(statistic, rng)[0]

    def interval(
        self, statistic: Statistic, walk: ImportanceWeights, rng: Rng, policy: int = 0
    ) -> Ends:
        """Return both ends; of terms about the smallest and the largest return, where they can be.

        The ends may then miss the plain estimate where weights are far from their mean; to include
        it costs nothing but width.
        """
        if not isinstance(self.estimator, OneSidedEstimator):
            return self.ends(statistic, rng)
        extremes, rare = _extremes(walk), self.rare(walk, policy)
        lower, upper = (
            self._about(self.estimator.about, walk, extremes, rng, policy)
            if rare is None
            else rare.ends(self.delta)
        )
        return min(lower, statistic.estimate), max(upper, statistic.estimate)

    def spread_of(
        self, statistic: Statistic, walk: ImportanceWeights, policy: int = 0
    ) -> Sequence[Array]:
        """Return the terms about both ends, or what each episode does to the estimate."""
        if isinstance(self.estimator, OneSidedEstimator):
            if self.rare(walk, policy) is not None:
                return ()  # their ends allow for one more term, the largest there may be
            low, high = _extremes(walk)
            about = self.estimator.about
            return about(walk, low)[:, policy], about(-walk, -high)[:, policy]
        able = statistic.is_resampled and math.isfinite(statistic.estimate)
        return (statistic.jackknife(),) if able else ()

    def rare(self, walk: ImportanceWeights, policy: int = 0) -> RareTerms | None:
        """Return the terms where rewards, or the lack of them, are rare; None where they are not.

        Of one-step logs alone: of longer episodes no largest weight is known.
        """
        if not self.estimator.has_safe_tails or math.isinf(self.largest):
            return None
        # A return of one step is a reward, whatever the discount.
        low, high = (0.0, 0.0) if self.known is None else self.known.rewards.ends
        if not low < high:
            return None
        # Whoever weights otherwise, as by clipped weights, whose mean is less than 1, estimates the
        # same value.
        above, below = (
            _RETURNS.above(side, end)[:, policy] for side, end in ((walk, low), (-walk, -high))
        )
        return RareTerms.of(above, below, (low, high), self.largest * (high - low))

    def predicted(self, walk: ImportanceWeights, n_tested: int) -> Array:
        """Predict by Student's t, as in Thomas et al. (2015), BCa too."""
        root, quantile = math.sqrt(n_tested), self._quantile(n_tested)
        if isinstance(self.estimator, MeanEstimator):
            terms = self.estimator.paired(walk, self.low)
            return np.asarray(terms.mean(axis=0) - terms.std(axis=0, ddof=1) / root * quantile)
        assert isinstance(self.estimator, WeightedEstimator)  # HCPI takes no others
        n_candidates = walk.weight.shape[1] - 1
        gains = [self.estimator.gain(walk, c, self.low) for c in range(n_candidates)]
        found = [one.estimate - one.standard_deviation / root * quantile for one in gains]
        return np.where(np.isfinite(found), found, -math.inf)

    def _quantile(self, n: int) -> float:
        return float(stdtrit(n - 1, 1.0 - self.delta))


class StudentT(ApproximateBound):
    """Student's t, for means."""

    estimator: MeanEstimator
    needs = MeanEstimator
    id = "student-t"
    approximation = "Student's t is approximate: it takes the mean of the terms to be normal."

    def ends(self, statistic: Statistic, rng: Rng) -> Ends:
        """Return both ends for a mean."""
        return bounds.student_t(statistic.terms, self.delta)

    def terms(self, walk: ImportanceWeights) -> Array | None:
        """Return the paired terms of means."""
        return self.estimator.paired(walk, self.low)

    def needed(self, terms: Array, power: float) -> float:
        """Take the mean of the terms to be normal."""
        mean, spread = float(terms.mean()), float(terms.std(ddof=1))
        z = self._quantile(max(len(terms), 30)) + float(ndtri(power))
        # The root of mean n - z spread sqrt(n) - hidden = 0 in sqrt(n).
        root = z * spread + math.sqrt((z * spread) ** 2 + 4.0 * max(mean, 0.0) * self.hidden)
        return math.ceil((root / (2.0 * mean)) ** 2) if mean > 0.0 else math.inf


class BCa(ApproximateBound):
    """The BCa bootstrap, for all estimators."""

    id = "bca"
    approximation = (
        "The BCa bootstrap is approximate: it takes the sample to show what the terms can be."
    )

    @classmethod
    def check_level(cls, delta: float) -> None:
        """Refuse a level that takes more resamples than can be drawn."""
        bounds.check_resampling(delta)

    def ends(self, statistic: Statistic, rng: Rng) -> Ends:
        """Return both ends."""
        return bounds.bca(statistic, self.delta, rng)

    def lowers(self, means: Sequence[Mean], rng: Rng) -> list[float]:
        """Return the lower ends, by the same resamples where episodes are many."""
        return [low for low, _ in bounds.bca_all(means, self.delta, rng)]


class ExactBound(Bound):
    """A bound that holds for every distribution of terms >= 0, at every number of episodes."""

    estimator: OneSidedEstimator
    known: ReturnRange
    needs = OneSidedEstimator
    is_exact = True

    def interval(
        self, statistic: Statistic, walk: ImportanceWeights, rng: Rng, policy: int = 0
    ) -> Ends:
        """Return both ends of the whole return, whatever follows a cut."""
        ends = self.estimator.ends(self.known)
        if not 1.0 < self.largest < math.inf:
            return self._about(self.estimator.above, walk, ends, rng, policy)
        # Both kinds of terms of spibb.ope.rare_rewards, each with its share of delta.
        plain = replace(self, delta=(1.0 - CAPPED_SHARE) * self.delta)
        lower, upper = plain._about(self.estimator.above, walk, ends, rng, policy)
        capped = replace(self, delta=CAPPED_SHARE * self.delta)
        return (
            max(lower, -capped._below(-walk, -ends[1], ends[1] - ends[0], rng, policy)),
            min(upper, capped._below(walk, ends[0], ends[1] - ends[0], rng, policy)),
        )

    def _below(
        self, walk: ImportanceWeights, end: float, width: float, rng: Rng, policy: int
    ) -> float:
        """Bound a value from above by terms that are known to be at most the largest."""
        most = self.largest * width
        terms = np.maximum(most - _RETURNS.above(walk, end)[:, policy], 0.0)
        return end + most - self.lower(Mean(terms), rng)


class Betting(ExactBound):
    """Bets on the terms: spibb.ope.betting."""

    id = "betting"
    default_estimator = "pdis"

    def lower(self, statistic: Statistic, rng: Rng) -> float:
        """Return the lower bound on a mean of terms >= 0."""
        bets = (None, None) if self.fraction is None else chosen_fractions(self.fraction)
        return betting(statistic.terms, self.delta, *bets)

    def predicted(self, walk: ImportanceWeights, n_tested: int) -> Array:
        """Predict with the wealth that the walk's terms would grow to."""
        terms = self.terms(walk).T
        return np.array([self._gain(predicted_betting(y, n_tested, self.delta)[0]) for y in terms])

    def tested(self, gain: Statistic, walk: ImportanceWeights, rng: Rng) -> float:
        """Bet on paired terms."""
        return self._gain(self.lower(Mean(self.terms(walk)[:, 0]), rng))

    def fitted(self, walk: ImportanceWeights, policy: int, n_tested: int) -> Self:
        """Return the bound with the fraction that training episodes choose."""
        terms = self.terms(walk)[:, policy]
        return replace(self, fraction=predicted_betting(terms, n_tested, self.delta)[1])

    def terms(self, walk: ImportanceWeights) -> Array:
        """Return the terms that are bet on."""
        return self.estimator.bets(walk, self.known)

    def needed(self, terms: Array, power: float) -> float:
        """Wait until the wealth is enough."""
        return needed_terms(terms, self.delta, power)

    def _gain(self, mean: float) -> float:
        """Turn a bound on the mean of those terms into one on the gain."""
        low, high = self.estimator.ends(self.known)
        return (mean - 1.0) * (high - low)


class Concentration(ExactBound):
    """The concentration inequality of Thomas et al. (2015)."""

    id = "concentration"
    fewest_episodes = 3
    default_estimator = "is"

    @classmethod
    def objection(cls, estimator: Estimator, rewards: ValueRange | None = None) -> Objection:
        """Return an objection to single rewards that may be negative, too."""
        if estimator.is_of_returns or rewards is None or rewards.low >= 0.0:
            return super().objection(estimator)
        return super().objection(estimator) or SettingsError(
            f"rewards go down to {rewards.low:g}, so that {estimator.id!r} has negative terms",
            expected="rewards >= 0 for the concentration inequality",
            hint="use the bound 'betting', or the estimator 'is', which is shifted by the range of "
            "returns",
        )

    def lower(self, statistic: Statistic, rng: Rng) -> float:
        """Return the lower bound on a mean of terms >= 0."""
        return bounds.concentration(statistic.terms, self.delta, rng)

    def predicted(self, walk: ImportanceWeights, n_tested: int) -> Array:
        """Predict both bounds, each at half of delta."""

        def half(estimator: OneSidedEstimator, side: ImportanceWeights, end: float) -> Array:
            predicted, level = bounds.predicted_concentration, self.delta / 2.0
            found = [predicted(x, n_tested, level) for x in estimator.above(side, end).T]
            return end + np.array(found)

        mine = half(self.estimator, walk, self.estimator.ends(self.known)[0])[:-1]
        return np.asarray(mine + half(_RETURNS, -walk, -_RETURNS.ends(self.known)[1])[-1])

    def tested(self, gain: Statistic, walk: ImportanceWeights, rng: Rng) -> float:
        """Bound the policy from below and the baseline from above, each at half of delta."""
        mine = replace(self, delta=self.delta / 2.0)
        theirs = replace(mine, estimator=_RETURNS)
        lower = mine.interval(gain, walk, rng)[0]
        return lower - theirs.interval(gain, walk, rng, policy=1)[1]


def _extremes(walk: ImportanceWeights) -> Ends:
    """Return the smallest and the largest return."""
    return float(walk.gain.min()), float(walk.gain.max())


# The baseline's own returns have weights 1.
_RETURNS = ImportanceSampling()
BOUNDS: dict[str, type[Bound]] = {one.id: one for one in (BCa, StudentT, Betting, Concentration)}
