r"""Lower bounds on the gain rho(pi) - rho(pi_b) from episodes that chose neither policy.

Each held-out episode estimates both policies, and the difference of the two estimates has mean
rho(pi) - rho(pi_b). What the two have in common cancels, so that bounds on this *paired* difference
are far tighter than a lower bound on one against an upper bound on the other, and cost no second
share of delta:

* ``is``    (w_T - 1) (G - low)                           low the smallest return of the training
* ``pdis``  sum_t g^t w_t r_t - s low - (G - low)         split (spibb.ope.normalised says why)
* ``dr``    v_0(pi) - v_0(pi_b), with Q^, V^ of both policies in the model of the training split,
            so that terms are independent and alike, given that split
* ``wis``, ``cwpdis``  the estimate minus the mean return, jointly resampled

Betting needs terms >= 0, which a difference is not; but 1 + (w_T - 1)(G - low) / (high - low) is,
whatever w_T is, if returns lie in [low, high], and has mean 1 + gain / (high - low); likewise step
by step for ``pdis`` (spibb.ope.normalised). The concentration inequality takes a lower bound on
rho(pi) at delta / 2 against an upper bound on rho(pi_b) at delta / 2 instead.

Predictions are made on training episodes: the bound with their mean and spread, and the size of
the test. Betting also has its fraction chosen there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from spibb.ope.betting import betting, chosen_fractions, needed_terms, predicted_betting
from spibb.ope.bounds import bca, predicted_concentration, student_t
from spibb.ope.normalised import ReturnRange
from spibb.ope.statistics import Array, Difference, Mean, Statistic, StepwiseMean, WeightedMean
from spibb.ope.trajectories import Trajectories
from spibb.ope.weights import Walk, effective_sample_size


@dataclass(frozen=True, eq=False)
class Tried:
    """C policies on n episodes; column C of the walk is the baseline.

    Attributes:
        episodes: Episodes.
        chosen: Which of them the walk went along.
        found: The walk.
        running: w_t of every row for each policy, shape (rows, C), where the estimator needs it.
    """

    episodes: Trajectories
    chosen: NDArray[np.int64]
    found: Walk
    running: Array | None = None

    @property
    def n_policies(self) -> int:
        """C."""
        return int(self.found.weight.shape[1]) - 1

    def cut(self, gamma: float) -> Array:
        """Return gamma^T of the episodes that are cut off after T steps, 0 of others."""
        return self.episodes.cut(gamma)[self.chosen]


@dataclass(frozen=True)
class GainBound:
    """How gains are bounded.

    Attributes:
        estimator: Estimator of both policies.
        bound: "student-t", "bca", "betting" or "concentration".
        delta: The bound fails with this probability.
        gamma: The discount.
        low: Smallest return of the training split, which terms are put about.
        reach: Range of returns, for the exact bounds.
        fraction: What share of the wealth betting trusts most; None: the grid alone.
        hidden: What hidden extremes may take from the gain shown by n episodes, times n.
    """

    estimator: str
    bound: str
    delta: float
    gamma: float
    low: float = 0.0
    reach: ReturnRange | None = None
    fraction: float | None = None
    hidden: float = 0.0

    def predicted(self, tried: Tried, n_tested: int) -> Array:
        """Return the bounds that ``n_tested`` other episodes may be expected to give, shape (C,).

        BCa is predicted by Student's t, as in Thomas et al. (2015).
        """
        if self.bound == "betting":
            terms = self._bets(tried)
            found = [
                predicted_betting(terms[:, c], n_tested, self.delta)[0]
                for c in self._columns(tried)
            ]
            return np.array([self._gain(bound) for bound in found])
        if self.reach is not None:
            return np.array(
                [self._predicted_apart(tried, c, n_tested) for c in self._columns(tried)]
            )
        if self.estimator in ("wis", "cwpdis"):
            return np.array(
                [self._predicted_jointly(tried, c, n_tested) for c in self._columns(tried)]
            )
        terms = self._paired(tried)
        half = terms.std(axis=0, ddof=1) / math.sqrt(n_tested) * self._quantile(n_tested)
        return np.asarray(terms.mean(axis=0) - half)

    def with_fraction(self, tried: Tried, policy: int, n_tested: int) -> GainBound:
        """Return the bound with the fraction of betting that training episodes choose."""
        if self.bound != "betting":
            return self
        terms = self._bets(tried)[:, policy]
        return replace(self, fraction=predicted_betting(terms, n_tested, self.delta)[1])

    def tested(self, tried: Tried, rng: np.random.Generator) -> tuple[float, float]:
        """Return the lower bound on the gain of the only policy, and the estimated gain."""
        statistic = self._statistic(tried, 0)
        if self.bound == "betting":
            bets = chosen_fractions(self.fraction) if self.fraction is not None else (None, None)
            bound = betting(self._bets(tried)[:, 0], self.delta, *bets)
            return self._gain(bound), statistic.estimate
        if self.reach is not None:
            half = self.delta / 2.0
            cut = tried.cut(self.gamma)
            mine = self.reach.terms(self.estimator, tried.found, cut)
            theirs = self.reach.terms("is", tried.found, cut, policy=1)
            lower = mine.concentration(half, rng)[0]
            upper = theirs.concentration(half, rng)[1]
            return lower - upper, statistic.estimate
        if isinstance(statistic, Mean) and self.bound == "student-t":
            return student_t(statistic.values, self.delta)[0], statistic.estimate
        return bca(statistic, self.delta, rng)[0], statistic.estimate

    def sized(self, tried: Tried, power: float) -> tuple[Array | None, int]:
        """Return terms that say how many episodes a bound takes to be positive, and whose they are.

        Half of the episodes choose the policy that needs fewest, the others size it, and the other
        way round: a policy sized by what chose it would look better than it is. None for bounds
        that are not foreseen.
        """
        if self.bound not in ("betting", "student-t") or self.estimator in ("wis", "cwpdis"):
            return None, 0
        terms = self._bets(tried) if self.bound == "betting" else self._paired(tried)

        def best(part: Array) -> int:
            return int(np.argmin([self.needed(y, power) for y in part.T]))

        halves = (terms[::2], terms[1::2])
        crossed = [halves[0][:, best(halves[1])], halves[1][:, best(halves[0])]]
        return np.concatenate(crossed), best(terms)

    def needed(self, terms: Array, power: float) -> float:
        """Return how many terms like these make the bound positive, with a probability, the power.

        Infinite where no gain is estimated.
        """
        if self.bound == "betting":
            return needed_terms(terms, self.delta, power)
        mean, spread = float(terms.mean()), float(terms.std(ddof=1))
        z = self._quantile(max(len(terms), 30)) + float(ndtri(power))
        # The root of mean n - z spread sqrt(n) - hidden = 0 in sqrt(n).
        root = z * spread + math.sqrt((z * spread) ** 2 + 4.0 * max(mean, 0.0) * self.hidden)
        return math.ceil((root / (2.0 * mean)) ** 2) if mean > 0.0 else math.inf

    def _columns(self, tried: Tried) -> range:
        return range(tried.n_policies)

    def _bets(self, tried: Tried) -> Array:
        """Return the terms that are bet on, shape (n, C)."""
        assert self.reach is not None
        # Never negative but by rounding.
        terms = self.reach.gains(self.estimator, tried.found, tried.cut(self.gamma))
        return np.maximum(terms, 0.0)

    def _gain(self, mean: float) -> float:
        """Turn a bound on the mean of those terms into one on the gain."""
        assert self.reach is not None
        low, high = self.reach.ends_of(self.estimator)
        return (mean - 1.0) * (high - low)

    def _quantile(self, n_tested: int) -> float:
        return float(stdtrit(n_tested - 1, 1.0 - self.delta))

    def _paired(self, tried: Tried) -> Array:
        """Return the paired terms of means, shape (n, C)."""
        found, n_policies = tried.found, tried.n_policies
        above = found.gain[:, None] - self.low
        if self.estimator == "is":
            return np.asarray((found.weight[:, :n_policies] - 1.0) * above)
        if self.estimator == "pdis":
            spread = found.spread[:, :n_policies]
            return np.asarray(found.value[:, :n_policies] - spread * self.low - above)
        return np.asarray(found.value[:, :n_policies] - found.value[:, n_policies:])

    def _statistic(self, tried: Tried, policy: int) -> Statistic:
        returns = Mean(tried.found.gain)
        if self.estimator == "wis":
            return Difference(
                WeightedMean(tried.found.weight[:, policy], tried.found.gain), returns
            )
        if self.estimator == "cwpdis":
            assert tried.running is not None
            running = np.ascontiguousarray(tried.running[:, policy])
            return Difference(StepwiseMean(tried.episodes, running, self.gamma), returns)
        return Mean(np.ascontiguousarray(self._paired(tried)[:, policy]))

    def _predicted_jointly(self, tried: Tried, policy: int, n_tested: int) -> float:
        """Predict by the jackknife's standard error."""
        statistic = self._statistic(tried, policy)
        n = statistic.n
        if not math.isfinite(statistic.estimate):
            return -math.inf
        # The standard error of n_tested episodes, from that of n.
        variance = (n - 1) * float((statistic.jackknife() ** 2).sum())
        half = math.sqrt(variance / n_tested) * self._quantile(n_tested)
        found = statistic.estimate - half
        return found if math.isfinite(found) else -math.inf

    def _predicted_apart(self, tried: Tried, policy: int, n_tested: int) -> float:
        assert self.reach is not None
        half, cut = self.delta / 2.0, tried.cut(self.gamma)
        mine = self.reach.terms(self.estimator, tried.found, cut, policy)
        theirs = self.reach.terms("is", tried.found, cut, tried.n_policies)
        lower = mine.low + predicted_concentration(mine.below, n_tested, half)
        return lower - (theirs.high - predicted_concentration(theirs.above, n_tested, half))


def effective_episodes(estimator: str, found: Walk) -> Array:
    """Return the effective sample size for each policy of a walk."""
    whole = estimator in ("is", "wis")
    return effective_sample_size(found.weight if whole else found.spread)


def join_walks(walks: list[Walk]) -> Walk:
    """Put walks along different episodes one behind the other."""
    return Walk(
        value=np.concatenate([part.value for part in walks]),
        weight=np.concatenate([part.weight for part in walks]),
        spread=np.concatenate([part.spread for part in walks]),
        gain=np.concatenate([part.gain for part in walks]),
    )


@dataclass(frozen=True, eq=False)
class Split:
    """Episodes of a log, divided at random into folds to learn from and others to test on.

    Attributes:
        episodes: The episodes of the log.
        folds: Numbers of the training episodes, fold by fold.
        test: Numbers of the held-out episodes.
    """

    episodes: Trajectories
    folds: tuple[NDArray[np.int64], ...]
    test: NDArray[np.int64]

    @property
    def train(self) -> NDArray[np.int64]:
        """Numbers of all training episodes."""
        return np.concatenate(self.folds)

    @property
    def lessons(self) -> list[NDArray[np.int64]]:
        """What is learnt from: the training split without each fold in turn, then all of it."""
        folds = list(self.folds)
        without = [np.concatenate(folds[:k] + folds[k + 1 :]) for k in range(len(folds))]
        return [*without, self.train]

    @classmethod
    def of(
        cls, episodes: Trajectories, n_train: int, n_folds: int, rng: np.random.Generator
    ) -> Split:
        """Divide the episodes."""
        shuffled = rng.permutation(len(episodes))
        # In the order of the log, rows are read from memory in order.
        folds = tuple(np.sort(part) for part in np.array_split(shuffled[:n_train], n_folds))
        return cls(episodes, folds, np.sort(shuffled[n_train:]))
