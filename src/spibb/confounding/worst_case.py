r"""The least value of a policy if an unrecorded cause changed odds by a factor of at most G.

The marginal sensitivity model (Tan, 2006): in a state x, a cause u that nothing records changes the
odds of each action from those of the state, p / (1 - p) with p = b(a | x), by a factor of at most G
up or down. The chance of u given x is that given x and a times

    v(u) = p / b(a | x, u) = p + (1 - p) r(u),     1 / G <= r(u) <= G,  mean of r given a: 1.

Outcomes y = r + gamma V(x') of a pair are therefore weighed by v, and in the worst case

    Q(x, a) = c mean(y) + (1 - c) tail(y),     c = p + (1 - p) / G,

tail(y) being the mean of the lowest share 1 / (1 + G) of y (Dorn and Guo, 2023), to which one row
is added, the lowest outcome of the state (see :mod:`spibb.confounding.tails`). An action without
data is unknown: it is worth that lowest outcome. If u is drawn anew in each step, given x, the
states are a Markov process under a policy of states, and V is the fixed point of
V(x) = sum of pi(a | x) Q(x, a), since u may be as adverse as it can in each pair by itself (Kallus
and Zhou, 2020; Bruns-Smith and Zhou, 2023). Howard's iteration, which is Newton's, finds it:
weights for values, values for weights. It finds G for a wanted value as well, since the slope is
known:

    dQ / d log G = (1 - p) ((tail - mean) / G - (G - 1) mean of (q - y)_+).

Standard errors are of first order. The threshold of a tail is where the tail is largest, so that
its error has no effect of first order; estimated shares p have one. D are discounted visits in the
worst case, and n the steps in a state:

    D(x) pi(a | x) / n(x, a) (c (y - mean) + (1 - c) (q - (q - y)_+ / share - tail))    of y,
    D(x) / n(x) (k(a) - sum of p k),  k(a) = pi(a | x) (1 - 1 / G) (mean - tail)(x, a)   of p.

A tail is too high on average, because its threshold is chosen by the same rows: limits are lower
by its difference from `honest_tails`.

A pair seen once shows no variance. The variance s of its outcomes is therefore taken as if it had
`_PSEUDO_ROWS` more, with the variance of its state; it is never lowered. The gain rests on pairs by
D(x) (pi(a | x) - p), so that this adds the square of it times (s - variance) / n(x, a).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from spibb.compiled.jit import jit
from spibb.confounding.chain import Chain, System
from spibb.confounding.groups import Groups
from spibb.confounding.tails import Tails, honest_tails, lower_tails, lowest_places, variances
from spibb.representation.refined_gain import LARGEST_DISCOUNT
from spibb.representation.steps import Array, Steps

# Rows of a state's variance that each of its pairs has beside its own.
_PSEUDO_ROWS = 40
# Odds ratios are searched up to here.
LARGEST_ODDS_RATIO = 100.0
# The iteration ends when values change by less, beside the largest of them. While G moves, they and
# log G may change by more: the next step of Newton's would square these.
_TOLERANCE, _NEAR, _PRECISION, _MOST_ITERATIONS = 1e-9, 1e-3, 5e-3, 100


@dataclass(frozen=True, eq=False)
class WorstCase:
    """The least value of a policy.

    Attributes:
        odds_ratio: G.
        value: The value.
        v: Value of each state.
    """

    odds_ratio: float
    value: float
    v: Array
    _last: _Linearised
    _adversary: Adversary

    @cached_property
    def visits(self) -> Array:
        """Discounted visits of each state."""
        start = self._adversary.chain.start
        return self._last.system.solve(start, transposed=True)

    @cached_property
    def influence(self) -> Array:
        """Influence of each block on the value, shape (n_blocks,)."""
        return self._adversary.influence(self)

    @cached_property
    def optimism(self) -> tuple[float, float]:
        """How much too high the value is in small groups, and the standard error of that."""
        return self._adversary.optimism(self)

    @cached_property
    def added_variance(self) -> float:
        """What the variance lacks where pairs are seen a few times."""
        return self._adversary.added_variance(self)


class _Linearised(NamedTuple):
    """Outcomes for values of states, their tails, and weights of copies, with their system."""

    odds_ratio: float
    y: Array
    lowest: Array
    tails: Tails
    weight: Array
    system: System


@dataclass(frozen=True, eq=False)
class Adversary:
    """A log and a policy, of which the least value is asked.

    Attributes:
        steps: Steps of the log.
        groups: The same in groups.
        chain: Where they lead.
        shape: Numbers of states and actions.
    """

    steps: Steps
    groups: Groups
    chain: Chain
    shape: tuple[int, int]

    @classmethod
    def of(cls, steps: Steps, table: Array, baseline: Array, gamma: float) -> Adversary:
        """Prepare the question for a policy and a baseline of shape (S, A)."""
        groups, (n_states, n_actions) = Groups.of(steps, table, baseline), table.shape
        chain = Chain.of(steps, groups, n_states, min(gamma, LARGEST_DISCOUNT))
        return cls(steps, groups, chain, (n_states, n_actions))

    def least(self, odds_ratio: float, near: WorstCase | None = None) -> WorstCase:
        """Return the least value at an odds ratio of at least 1; one near it makes it faster."""
        v = np.zeros(self.shape[0]) if near is None else near.v
        return self._found(math.log(odds_ratio), v, None)

    @property
    def opposite(self) -> Adversary:
        """The same with opposite rewards: its least value is minus the largest."""
        return replace(self, chain=replace(self.chain, reward=-self.chain.reward))

    @property
    def never_ends(self) -> bool:
        """Whether the policy can come to states from which it never ends."""
        zeros = np.zeros(self.shape[0])
        return self.chain.never_ends(self._linearised(zeros, 1.0).weight)

    @property
    def average(self) -> float:
        """The value without a cause, if actions without data do what their state does."""
        groups, n = self.groups, np.maximum(np.diff(self.groups.begin_state), 1)
        weight = groups.per_copy(groups.weight / groups.size)
        weight += (groups.unobserved / n)[self.chain.state]
        rewards = self.chain.rewards(weight)
        return self._start(self.chain.system(weight).solve(rewards))

    def reaching(self, value: float, near: WorstCase) -> WorstCase:
        """Return the worst case at the odds ratio where it has a value; 1 or 100 if beyond."""
        return self._found(math.log(near.odds_ratio), near.v, value)

    def _found(self, log_ratio: float, v: Array, wanted: float | None) -> WorstCase:
        """Iterate at one odds ratio, or towards a wanted value."""
        low, high = 0.0, math.log(LARGEST_ODDS_RATIO)
        for _ in range(_MOST_ITERATIONS):
            before, moved = v, 0.0
            last = self._linearised(v, math.exp(log_ratio))
            v = last.system.solve(self.chain.rewards(last.weight), before)
            if wanted is not None:
                slope = last.system.solve(self._slopes(last))
                missing = wanted - self._start(v)
                low, high = (low, log_ratio) if missing > 0.0 else (log_ratio, high)
                moved = _bounded_step(log_ratio, missing, self._start(slope), low, high)
                log_ratio += moved
                v = v + moved * slope
            change = np.abs(v - before).max() / max(np.abs(v).max(), 1e-300)
            # At an end of the range G moves no more, but values may.
            if change <= (_TOLERANCE if moved == 0.0 else _NEAR) and abs(moved) <= _PRECISION:
                break
        return WorstCase(math.exp(log_ratio), self._start(v), v, last, self)

    def _linearised(self, v: Array, odds_ratio: float) -> _Linearised:
        groups, y = self.groups, self.chain.outcomes(v)
        places = lowest_places(y, groups.begin_state)
        lowest = y[places][groups.state]
        tails = lower_tails(y, groups.begin, lowest, odds_ratio)
        kept = self._kept(odds_ratio)
        in_tail = groups.weight * (1.0 - kept)
        weight = groups.per_copy(groups.weight * kept / groups.size)
        weight += groups.per_copy(in_tail) * tails.factor
        # States without rows have a place that is not theirs, and nothing to add there.
        np.add.at(weight, places, groups.unobserved + groups.by_state(in_tail * tails.added))
        return _Linearised(odds_ratio, y, lowest, tails, weight, self.chain.system(weight))

    def _kept(self, odds_ratio: float) -> Array:
        """Return c of each group."""
        return np.asarray(self.groups.share + (1.0 - self.groups.share) / odds_ratio)

    def _slopes(self, last: _Linearised) -> Array:
        """Return what each state loses by log G, values of later states apart."""
        groups, tails, odds_ratio = self.groups, last.tails, last.odds_ratio
        missing = (tails.threshold - tails.tail) / (1.0 + odds_ratio)
        of_group = (tails.tail - tails.mean) / odds_ratio - (odds_ratio - 1.0) * missing
        return groups.by_state(of_group * groups.weight * (1.0 - groups.share))

    def influence(self, one: WorstCase) -> Array:
        """Return the influence of each block on a least value."""
        groups, last, visits = self.groups, one._last, one.visits
        found = np.zeros(self.steps.n_blocks)
        _add_outcomes(
            last.y, groups.begin, self.steps.block[groups.step], last.odds_ratio,
            self._kept(last.odds_ratio), visits[groups.state] * groups.weight / groups.size,
            last.tails.threshold, last.tails.mean, found,
        )  # fmt: skip
        found += self.steps.by_block(self._of_shares(last, visits))
        first = one.v[self.chain.first_state]
        return found + self.steps.by_first_block((first - first.mean()) / len(first))

    def optimism(self, one: WorstCase) -> tuple[float, float]:
        """Return what thresholds add to a least value that are chosen by their own rows."""
        groups, last = self.groups, one._last
        honest = honest_tails(last.y, groups.begin, last.lowest, last.odds_ratio)
        weight = one.visits[groups.state] * groups.weight * (1.0 - self._kept(last.odds_ratio))
        found = weight * (last.tails.tail - honest)
        # At most as if each tail were the lowest outcome of its state.
        largest = float((weight * (last.tails.tail - last.lowest)).sum())
        total = min(max(0.0, float(found.sum())), largest)
        return total, min(float(np.sqrt((found**2).sum())), largest)

    def added_variance(self, one: WorstCase) -> float:
        """Return what pseudo-rows add to the variance of a gain."""
        groups, y, n = self.groups, one._last.y, np.diff(self.groups.begin_state)
        of_state = variances(y, groups.begin_state) * n / np.maximum(n - 1, 1)
        missing = np.maximum(of_state[groups.state] - variances(y, groups.begin), 0.0)
        missing *= _PSEUDO_ROWS / (groups.size + _PSEUDO_ROWS)
        rests = one.visits[groups.state] * (groups.weight - groups.share)
        return float((rests**2 * missing / groups.size).sum())

    def low_count(self, one: WorstCase, n_rows: int) -> float:
        """Return which share of what the policy does more often has fewer rows."""
        groups, visits = self.groups, one.visits
        more = visits[groups.state] * np.maximum(groups.weight - groups.share, 0.0)
        unobserved = float(visits @ groups.unobserved)
        total = float(more.sum()) + unobserved
        return (float(more[groups.size < n_rows].sum()) + unobserved) / max(total, 1e-300)

    def unobserved(self, one: WorstCase) -> float:
        """Return which share of the policy's decisions have no data."""
        return float(one.visits @ self.groups.unobserved) / max(float(one.visits.sum()), 1e-300)

    def _of_shares(self, last: _Linearised, visits: Array) -> Array:
        """Return the influence of each step on the estimated shares of pairs."""
        groups, tails = self.groups, last.tails
        of_group = groups.weight * (1.0 - 1.0 / last.odds_ratio) * (tails.mean - tails.tail)
        of_group *= groups.is_open
        k = np.zeros(self.shape[0] * self.shape[1])
        k[groups.pair] = of_group
        k = k.reshape(self.shape) - groups.by_state(of_group * groups.share)[:, None]
        scale = visits / np.maximum(np.diff(groups.begin_state), 1)
        return np.asarray((scale[:, None] * k)[self.steps.state, self.steps.action])

    def _start(self, v: Array) -> float:
        return float(self.chain.start @ v)


def _bounded_step(at: float, missing: float, slope: float, low: float, high: float) -> float:
    """Return Newton's step of log G if it stays in the range, else half of the way to its end."""
    end = math.log(LARGEST_ODDS_RATIO)
    # The least value falls with G; where it does not, nothing that is wanted can be reached.
    step = missing / slope if slope < 0.0 else math.copysign(end, -missing)
    if low < at + step < high:
        return step
    # The ends of all of the range may be the answer.
    to = high if step > 0.0 else low
    return to - at if to in (0.0, end) and abs(to - at) <= 0.5 else (to - at) / 2.0


@jit
def _add_outcomes(y, begin, block, odds_ratio, kept, scale, threshold, mean, found):  # type: ignore[no-untyped-def]
    """Add the influence of outcomes to that of their blocks."""
    for g in range(len(begin) - 1):
        q, n, below = threshold[g], begin[g + 1] - begin[g], 0.0
        for i in range(begin[g], begin[g + 1]):
            below += max(q - y[i], 0.0) / n
        for i in range(begin[g], begin[g + 1]):
            of_tail = (below - max(q - y[i], 0.0)) * (1.0 + odds_ratio)
            found[block[i]] += scale[g] * (kept[g] * (y[i] - mean[g]) + (1.0 - kept[g]) * of_tail)
