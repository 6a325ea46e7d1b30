r"""The least value of a policy if an unrecorded cause changed odds by a factor of at most G.

The marginal sensitivity model (Tan, 2006): in a state x, a cause u that nothing records changes the
odds of each action from those of the state, p / (1 - p) with p = b(a | x), by a factor of at most G
up or down. The chance of u given x is that given x and a times

    v(u) = p / b(a | x, u) = p + (1 - p) r(u),     1 / G <= r(u) <= G,  mean of r given a: 1.

Outcomes y = r + gamma V(x') of a pair are therefore weighed by v, and in the worst case

    Q(x, a) = c mean(y) + (1 - c) tail(y),     c = p + (1 - p) / G,

tail(y) being the mean of the lowest share 1 / (1 + G) of y (Dorn and Guo, 2023). If u is drawn
anew in each step, given x, the states are a Markov process under a policy of states, and V is the
fixed point of V(x) = sum of pi(a | x) Q(x, a), since u may be as adverse as it can in each pair by
itself (Kallus and Zhou, 2020; Bruns-Smith and Zhou, 2023). Howard's iteration, which is Newton's,
finds it: weights for values, values for weights. It finds G for a wanted value as well, since the
slope is known:

    dQ / d log G = (1 - p) ((tail - mean) / G - (G - 1) mean of (q - y)_+).

Standard errors are of first order. The threshold of a tail is where the tail is largest, so that
its error has no effect of first order; estimated shares p have one. D are discounted visits in the
worst case, and n the steps in a state:

    D(x) pi(a | x) / n(x, a) (c (y - mean) + (1 - c) (q - (q - y)_+ / share - tail))    of y,
    D(x) / n(x) (k(a) - sum of p k),  k(a) = pi(a | x) (1 - 1 / G) (mean - tail)(x, a)   of p.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from spibb.compiled.jit import jit
from spibb.confounding.chain import Chain, System
from spibb.confounding.groups import Groups
from spibb.confounding.tails import Tails, honest_tails, lower_tails
from spibb.representation.refined_gain import LARGEST_DISCOUNT
from spibb.representation.steps import Array, Steps

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
        optimism: How much too high the value is in small groups, see `honest_tails`.
        optimism_error: Standard error of that, at most: it comes and goes with single rows.
        influence: Of each block on the value, shape (n_blocks,).
    """

    odds_ratio: float
    value: float
    v: Array
    optimism: float
    optimism_error: float
    influence: Array


class Line(NamedTuple):
    """Values that are wanted, a line over log G.

    Attributes:
        value: Value at `near`.
        near: A place, log G.
        slope: Slope.
    """

    value: float
    near: float = 0.0
    slope: float = 0.0

    def at(self, log_ratio: float) -> float:
        """Return the value that is wanted at log G."""
        return self.value + self.slope * (log_ratio - self.near)

    def steeper(self, slope: float) -> float:
        """Return how much steeper a falling value is; at least half as steep as it was."""
        return min(slope - self.slope, slope / 2.0)


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

    def least(self, odds_ratio: float) -> WorstCase:
        """Return the least value at an odds ratio of at least 1."""
        return self._found(math.log(odds_ratio), np.zeros(self.shape[0]), None)

    def most(self, odds_ratio: float) -> WorstCase:
        """Return the largest value: the least one of the opposite rewards."""
        chain = replace(self.chain, reward=-self.chain.reward)
        found = replace(self, chain=chain).least(odds_ratio)
        return replace(
            found, value=-found.value, v=-found.v, optimism=-found.optimism,
            influence=-found.influence,
        )  # fmt: skip

    def reaching(self, wanted: Line, near: WorstCase) -> WorstCase:
        """Return the worst case at the odds ratio where values meet a line; 1 or 100 if beyond."""
        return self._found(math.log(near.odds_ratio), near.v, wanted)

    def _found(self, log_ratio: float, v: Array, wanted: Line | None) -> WorstCase:
        """Iterate at one odds ratio, or towards a wanted value."""
        for _ in range(_MOST_ITERATIONS):
            ratio, before, moved = math.exp(log_ratio), v, 0.0
            tails, weight, system = self._linearised(v, ratio)
            v = system.solve(self.chain.rewards(weight), before)
            if wanted is not None:
                slope = system.solve(self._slopes(tails, ratio))
                missing = wanted.at(log_ratio) - self._start(v)
                moved = _bounded_step(log_ratio, missing, wanted.steeper(self._start(slope)))
                log_ratio += moved
                v = v + moved * slope
            change = np.abs(v - before).max() / max(np.abs(v).max(), 1e-300)
            # At an end of the range G moves no more, but values may.
            if change <= (_TOLERANCE if moved == 0.0 else _NEAR) and abs(moved) <= _PRECISION:
                break
        errors = self._errors(tails, system, before, ratio)
        return WorstCase(math.exp(log_ratio), self._start(v), v, *errors)

    def _linearised(self, v: Array, odds_ratio: float) -> tuple[Tails, Array, System]:
        """Return the tails of outcomes, weights of copies, and the system that these make."""
        groups = self.groups
        tails = lower_tails(self.chain.outcomes(v), groups.begin, odds_ratio)
        share, entered = groups.per_copy(groups.share), groups.per_copy(groups.weight / groups.size)
        weight = entered * (share + (1.0 - share) * tails.factor)
        return tails, weight, self.chain.system(weight)

    def _slopes(self, tails: Tails, odds_ratio: float) -> Array:
        """Return what each state loses by log G, values of later states apart."""
        groups = self.groups
        missing = (tails.threshold - tails.tail) / (1.0 + odds_ratio)
        of_group = (tails.tail - tails.mean) / odds_ratio - (odds_ratio - 1.0) * missing
        of_group *= groups.weight * (1.0 - groups.share)
        return np.asarray(np.bincount(groups.state, of_group, self.shape[0]), np.float64)

    def _errors(
        self, tails: Tails, system: System, v: Array, odds_ratio: float
    ) -> tuple[float, float, Array]:
        """Return how much too high the value is, with its error, and the influence of blocks."""
        visits = system.solve(self.chain.start, transposed=True)
        groups, y = self.groups, self.chain.outcomes(v)
        kept = groups.share + (1.0 - groups.share) / odds_ratio
        weight = visits[groups.state] * groups.weight
        honest = honest_tails(y, groups.begin, odds_ratio)
        optimism = weight * (1.0 - kept) * (tails.tail - honest)
        found = np.zeros(self.steps.n_blocks)
        _add_outcomes(
            y, groups.begin, self.steps.block[groups.step], odds_ratio, kept,
            weight / groups.size, tails.threshold, tails.mean, tails.tail, found,
        )  # fmt: skip
        found += self.steps.by_block(self._of_shares(tails, odds_ratio, visits))
        first = v[self.chain.first_state]
        found += self.steps.by_first_block((first - first.mean()) / len(first))
        return float(optimism.sum()), float(np.sqrt((optimism**2).sum())), found

    def _of_shares(self, tails: Tails, odds_ratio: float, visits: Array) -> Array:
        """Return the influence of each step on the estimated shares of pairs."""
        groups, (n_states, n_actions) = self.groups, self.shape
        is_pair = groups.pair >= 0
        of_group = groups.weight * (1.0 - 1.0 / odds_ratio) * (tails.mean - tails.tail)
        k = np.zeros(n_states * n_actions)
        k[groups.pair[is_pair]] = of_group[is_pair]
        mean = np.bincount(groups.state[is_pair], (of_group * groups.share)[is_pair], n_states)
        n = np.maximum(np.bincount(self.steps.state, minlength=n_states), 1)
        x = self.steps.state
        scale = visits / n
        return (scale[:, None] * (k.reshape(self.shape) - mean[:, None]))[x, self.steps.action]

    def _start(self, v: Array) -> float:
        return float(self.chain.start @ v)


def _bounded_step(log_ratio: float, missing: float, slope: float) -> float:
    """Return Newton's step of log G, kept in the range."""
    largest = math.log(LARGEST_ODDS_RATIO)
    # The least value falls with G; where it does not, nothing that is wanted can be reached.
    wanted = missing / slope if slope < 0.0 else largest
    return min(max(log_ratio + wanted, 0.0), largest) - log_ratio


@jit
def _add_outcomes(y, begin, block, odds_ratio, kept, scale, threshold, mean, tail, found):  # type: ignore[no-untyped-def]
    """Add the influence of outcomes to that of their blocks."""
    for g in range(len(begin) - 1):
        q = threshold[g]
        for i in range(begin[g], begin[g + 1]):
            below = q - max(q - y[i], 0.0) * (1.0 + odds_ratio) - tail[g]
            found[block[i]] += scale[g] * (kept[g] * (y[i] - mean[g]) + (1.0 - kept[g]) * below)
