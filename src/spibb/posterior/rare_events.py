"""Rare events: rows whose outcome lies far from that of their state, and how often they happen.

A row is an event if y = r + gamma V(x') is far from the mean of its state, up or down. The other
rows are the bulk. Each pair of state and action is a mixture of both. The rate of events of a pair
has a beta prior around the sum of a rate of its state and one of its action, and its pseudo-count
has a mixture prior as in `spibb.posterior.pseudo_counts`. What an event is worth is shrunk towards
the events that its state explains and those that its action explains, and these towards all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaln

from spibb.compiled.jit import jit
from spibb.posterior.pseudo_counts import PSEUDO_COUNTS, mix_groups, prior_of_pseudo_counts
from spibb.posterior.settings import ModelSettings
from spibb.posterior.steps import PairSums, Steps

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

# More rows than this share are no rare events.
_LARGEST_SHARE = 0.1
# The rows whose spread is the robust standard deviation.
_INNER = 0.95
_N_ROUNDS = 2
# Classes of events by their size.
_N_SIZES = 3
_N_STEPS = 200
# Pseudo-counts of rows of the rate of a state, and how often the likeliest is looked for.
_PRIOR_ROWS = 4.0 ** np.arange(9)
_WEIGH_EVERY = 20
_LEAST, _MOST = 1e-9, 0.9


def far_steps(steps: Steps, v: Array, gamma: float, threshold: float) -> tuple[Flags, Flags, Array]:
    """Return which steps are rare events, upwards and downwards, and how far steps lie off.

    Args:
        steps: The steps of a log.
        v: Values, shape (S,).
        gamma: The discount.
        threshold: Robust standard deviations from the mean of the state.
    """
    x, n_states, w = steps.state, steps.shape[0], steps.weight
    y = steps.reward + gamma * np.append(v, 0.0)[steps.outcome]
    rows = np.bincount(x, w, n_states)
    centre = np.bincount(x, w * y, n_states) / np.maximum(rows, 1.0)
    for _ in range(_N_ROUNDS):
        off = y - centre[x]
        inner = np.abs(off) <= _weighted_quantile(np.abs(off), w, _INNER) + 1e-15
        spread = np.sqrt((w[inner] * off[inner] ** 2).sum() / w[inner].sum())
        is_near = np.abs(off) <= max(threshold * spread, 1e-12)
        kept = np.bincount(x[is_near], w[is_near], n_states)
        means = np.bincount(x[is_near], (w * y)[is_near], n_states) / np.maximum(kept, 1e-300)
        centre = np.where(kept > 0.0, means, centre)
    far = max(threshold * spread, 1e-9 * max(float(np.abs(y).max()), 1e-12))
    has_bulk = (kept > 0.0)[x]
    total = w.sum()
    found = []
    for is_far in (y - centre[x] > far, y - centre[x] < -far):
        is_rare = float(w[is_far].sum()) <= _LARGEST_SHARE * total
        found.append(is_far & has_bulk & is_rare)
    return found[0], found[1], np.asarray(np.abs(y - centre[x]))


def sizes(off: Array, threshold: float) -> list[Flags]:
    """Return classes of events: those of one class differ by at most a factor.

    Small events and great ones have different causes. The first class holds the largest events.

    Args:
        off: How far each step lies off, 0 where it is no event.
        threshold: The factor.
    """
    found, rest, largest = [], off > 0.0, float(off.max(initial=0.0))
    for _ in range(_N_SIZES - 1):
        largest /= max(threshold, 1.0)
        found.append(rest & (off > largest))
        rest = rest & (off <= largest)
    return [*found, rest]


def reward_steps(steps: Steps, v: Array, gamma: float) -> Flags:
    """Return which steps are far from their state by their reward more than by what follows.

    The expected reward of a step is additive in its state and its next state. So a goal that pays
    whoever enters it is told by the next state, and a jackpot by the reward.

    Args:
        steps: The steps of a log.
        v: Values, shape (S,).
        gamma: The discount.
    """
    n_states, w, paid = steps.shape[0], steps.weight, steps.weight * steps.reward
    mean = paid.sum() / w.sum()
    ahead = gamma * np.append(v, 0.0)[steps.outcome]
    expected = np.full(len(w), mean)
    for of, size in ((steps.state, n_states), (steps.outcome, n_states + 1)):
        rows = np.maximum(np.bincount(of, w, size), 1e-300)
        expected += (np.bincount(of, paid, size) / rows)[of] - mean
    rows = np.maximum(np.bincount(steps.state, w, n_states), 1e-300)
    centre = np.bincount(steps.state, paid + w * ahead, n_states) / rows
    of_reward = np.abs(steps.reward - expected)
    return np.asarray(of_reward > np.abs(expected + ahead - centre[steps.state]))


def likeness(steps: Steps, v: Array, gamma: float, events: Flags) -> float:
    """Return how well events of other pairs tell what an event is worth, from 0 to 1.

    Falls into one trap are worth the same from everywhere. A rare step to the next place of a long
    road is worth what the place is: then an event elsewhere says nothing, and the outcome that the
    own state has else is nearer. The share is that of two squared distances of an event: to what
    its state has else, and to the other events.

    Args:
        steps: The steps of a log.
        v: Values, shape (S,).
        gamma: The discount.
        events: Which of the steps are events.
    """
    y = steps.reward + gamma * np.append(v, 0.0)[steps.outcome]
    x, w = steps.state, steps.weight
    rest = np.where(events, 0.0, w)
    rows = np.maximum(np.bincount(x, rest, steps.shape[0]), 1e-300)
    centre = np.bincount(x, rest * y, steps.shape[0]) / rows
    y, x, w = y[events], x[events], w[events]
    if w.sum() <= 1.0:
        return 1.0
    to_state = float(w @ (y - centre[x]) ** 2) / float(w.sum())
    to_others = float(w @ (y - (w @ y) / w.sum()) ** 2) / (float(w.sum()) - 1.0)
    return to_state / max(to_state + to_others, 1e-300)


def _weighted_quantile(values: Array, weights: Array, share: float) -> float:
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(total, share * total[-1])]])


@dataclass(frozen=True, eq=False)
class RareEvents:
    """Rare events of one class: of one sign, and due to rewards or to what follows.

    Attributes:
        sums: Their sums by pair.
        is_loss: Whether they are downwards.
        rate: Posterior mean of their rate, shape (S, A).
        variance: Posterior variance of that rate.
        data_share: How much of the rate is the pair's own data.
        base: Prior mean of the rate.
        state_variance: Variance of the rate of a state, shape (S,).
        action_variance: Variance of the rate of an action, shape (A,).
        of_actions: Events that actions explain, shape (A,).
        state_share: Probability that an event of a pair is due to its state, not to its action.
        alike: How well events of other pairs tell what one is worth, from 0 to 1 (`likeness`).
    """

    sums: PairSums
    is_loss: bool
    rate: Array
    variance: Array
    data_share: Array
    base: Array
    state_variance: Array
    action_variance: Array
    of_actions: Array
    state_share: Array
    alike: float

    @classmethod
    def of(
        cls,
        sums: PairSums,
        n: Array,
        settings: ModelSettings,
        *,
        is_loss: bool,
        alike: float = 1.0,
    ) -> RareEvents:
        """Estimate rates.

        Args:
            sums: Sums of the events.
            n: All rows, shape (S, A).
            settings: The settings of the model.
            is_loss: Whether the events are downwards.
            alike: How well events of other pairs tell what one is worth.
        """
        k, prior = sums.n, prior_of_pseudo_counts(settings.equal_actions)
        rates = _Rates.of(k, n, settings.event_prior)
        m = PSEUDO_COUNTS[:, None, None]
        for _ in range(_N_ROUNDS):
            q = _groups(_rate_likelihood(k, n, rates.of_others), prior)
            data_share = (q * n / (n + m)).sum(axis=0)
            # A pair with many rows is one pair among others where pairs differ.
            rates = _Rates.of(k * (1.0 - data_share), n * (1.0 - data_share), settings.event_prior)
        each = (k + m * rates.base) / (n + m)
        rate = (q * each).sum(axis=0)
        square = (q * (each * (1.0 - each) / (n + m + 1.0) + each**2)).sum(axis=0)
        return cls(
            sums,
            is_loss,
            rate,
            np.maximum(square - rate**2, 0.0),
            data_share,
            rates.base,
            rates.state_variance,
            rates.action_variance,
            (k * (1.0 - rates.state_share)).sum(axis=0),
            rates.state_share,
            alike,
        )

    @cached_property
    def known(self) -> Array:
        """Share of the events of a pair of which is known what they are worth, shape (S, A)."""
        k = self.sums.n
        return np.asarray((k + self.alike) / (k + 1.0))

    @cached_property
    def _explained(self) -> tuple[Array, Array]:
        """Events that each state explains, and each action."""
        k, w = self.sums.n, self.state_share
        return (w * k).sum(axis=1), ((1.0 - w) * k).sum(axis=0)

    def worth(self, v: Array, gamma: float) -> Array:
        """Return the expected r + gamma V(x') of an event of each pair.

        Args:
            v: Values, shape (S,) or (K, S); the result has the shape (S, A) or (K, S, A).
            gamma: The discount.
        """
        return self.shrunk(self.sums.sums(v, gamma))

    def shrunk(self, own: Array) -> Array:
        """Return means of what events have, from sums over the events of each pair.

        Args:
            own: The sums, shape (..., S, A).
        """
        w, (k_x, k_a) = self.state_share, self._explained
        of_all = own.sum(axis=(-2, -1))[..., None] / self.sums.n.sum()
        of_x = ((w * own).sum(axis=-1) + of_all) / (k_x + 1.0)
        of_a = (((1.0 - w) * own).sum(axis=-2) + of_all) / (k_a + 1.0)
        base = w * of_x[..., :, None] + (1.0 - w) * of_a[..., None, :]
        k = self.sums.n
        return np.asarray((own + self.alike * base) / np.maximum(k + self.alike, _LEAST))

    def successors(self, weights: Array) -> sp.csr_array:
        """Return next states of events, summed over actions with weights, of shape (S, S).

        Args:
            weights: Of each pair, shape (S, A).
        """
        (k_x, k_a), w = self._explained, self.state_share
        sums, (n_states, n_actions) = self.sums, self.sums.n.shape
        share = weights / np.maximum(sums.n + self.alike, _LEAST)
        of_others = self.alike * share
        # Of the pair itself, of its state, of its action, of all.
        of_x = (w * of_others).sum(axis=1) / (k_x + 1.0)
        by_pair = share + w * of_x[:, None]
        scaled = sums.count.data * np.repeat(by_pair.ravel(), np.diff(sums.count.indptr))
        own = sp.csr_array(
            (scaled, sums.count.indices, sums.count.indptr[::n_actions]), (n_states, n_states)
        )
        of_a = (1.0 - w) * of_others / (k_a + 1.0)
        everywhere = sums.by_action().sum(axis=0) / sums.n.sum()
        of_all = of_x + of_a.sum(axis=1)
        dense = sp.csr_array(of_a) @ sp.csr_array(sums.by_action(1.0 - w))
        dense = dense + sp.csr_array(of_all[:, None]) @ sp.csr_array(everywhere[None])
        return sp.csr_array(own + dense)


def _prior_rows(k: Array, n: Array) -> float:
    """Return the likeliest pseudo-count of rows of the rate of a state, by gamma-Poisson counts.

    Args:
        k: Events that each state explains.
        n: Rows of each state.
    """
    if k.sum() <= 0.0:
        return float(_PRIOR_ROWS[0])
    w = _PRIOR_ROWS[:, None]
    a = np.maximum(w * k.sum() / n.sum(), 1e-12)
    # k | rate ~ Poisson(n rate), rate ~ Gamma(w mean, w): a negative binomial distribution.
    each = gammaln(a + k) - gammaln(a) + a * np.log(w / (w + n)) - k * np.log(w + n)
    return float(_PRIOR_ROWS[int(each.sum(axis=1).argmax())])


class _Rates(NamedTuple):
    """Rates of states and actions, whose sums are the prior means of pairs.

    Attributes:
        base: The sums, shape (S, A).
        of_others: The same without the rows of the pair itself.
        state_share: Probability that an event of a pair is due to its state.
        state_variance: Variance of the rate of a state, shape (S,).
        action_variance: Variance of the rate of an action, shape (A,).
    """

    base: Array
    of_others: Array
    state_share: Array
    state_variance: Array
    action_variance: Array

    @classmethod
    def of(cls, k: Array, n: Array, prior: float) -> _Rates:
        """Tell rates of states and of actions apart, by EM.

        Args:
            k: Events of each pair, shape (S, A).
            n: Its rows.
            prior: Pseudo-count of events of an action.
        """
        anywhere = (k.sum() + 0.5) / (n.sum() + 1.0)
        n_x, n_a = np.maximum(n.sum(axis=1), 1e-9), np.maximum(n.sum(axis=0), 1e-9)
        of_x, of_a = (k.sum(axis=1) + anywhere) / (n_x + 1.0), np.full(len(n_a), anywhere)
        by_x = np.empty(k.shape)
        for _ in range(_N_STEPS // _WEIGH_EVERY):
            k_x = (k * of_x[:, None] / (of_x[:, None] + of_a)).sum(axis=1)
            weight = _prior_rows(k_x, n_x)
            rows = _attribute(k, n_x, n_a, weight, prior, anywhere, of_x, of_a, by_x)
        k_x, k_a = (k * by_x).sum(axis=1), (k * (1.0 - by_x)).sum(axis=0)
        mean = (k_x.sum() + anywhere) / (n_x.sum() + 1.0)
        others_x = np.maximum(k_x[:, None] - k * by_x, 0.0) + weight * mean
        others_x = others_x / (np.maximum(n_x[:, None] - n, 0.0) + weight)
        others_a = np.maximum(k_a - k * (1.0 - by_x), 0.0) + prior
        others_a = others_a / np.maximum(np.maximum(n_a - n, 0.0) + rows, 1e-300)
        return cls(
            np.clip(of_x[:, None] + of_a, _LEAST, _MOST),
            np.clip(others_x + others_a, _LEAST, _MOST),
            by_x,
            (k_x + weight * mean) / (n_x + weight) ** 2,
            (k_a + prior) / (n_a + rows) ** 2,
        )


def _groups(likelihood: Array, prior: Array) -> Array:
    """Return the posterior of the pseudo-count by pair, shape (M, S, A).

    Either there are two groups of states or two groups of actions, which are equally likely
    beforehand: whether a drug ruins hardly depends on the state, and some states are deadly
    whatever is done.

    Args:
        likelihood: Log likelihoods by pair.
        prior: Prior of the pseudo-count of a group.
    """
    of_states = mix_groups(likelihood.sum(axis=2), prior)
    of_actions = mix_groups(likelihood.sum(axis=1), prior)
    by_action = 1.0 / (1.0 + math.exp(min(of_states.evidence - of_actions.evidence, 700.0)))
    found = (1.0 - by_action) * of_states.mean[:, :, None]
    return np.asarray(found + by_action * of_actions.mean[:, None, :])


@jit
def _attribute(k, n_x, n_a, weight, prior, anywhere, of_x, of_a, by_x):  # type: ignore[no-untyped-def]
    """Take some steps of EM, in place, and return the prior rows of an action."""
    n_states, n_actions = k.shape
    k_x, k_a, rows = np.empty(n_states), np.empty(n_actions), 0.0
    for _ in range(_WEIGH_EVERY):
        k_a[:] = 0.0
        for x in range(n_states):
            k_x[x] = 0.0
            for a in range(n_actions):
                by_x[x, a] = of_x[x] / (of_x[x] + of_a[a])
                k_x[x] += k[x, a] * by_x[x, a]
                k_a[a] += k[x, a] * (1.0 - by_x[x, a])
        mean = (k_x.sum() + anywhere) / (n_x.sum() + 1.0)
        rows = prior / ((k_a.sum() + 1e-3) / n_a.sum())
        for x in range(n_states):
            of_x[x] = (k_x[x] + weight * mean) / (n_x[x] + weight)
        for a in range(n_actions):
            of_a[a] = (k_a[a] + prior) / (n_a[a] + rows)
    return rows


def _rate_likelihood(k: Array, n: Array, p: Array) -> Array:
    """Return beta-binomial log likelihoods of the pseudo-count by pair, shape (M, S, A)."""
    found = []
    for m in PSEUDO_COUNTS:
        a, b = m * p, m * (1.0 - p)
        one = gammaln(a + k) - gammaln(a) + gammaln(b + n - k) - gammaln(b)
        found.append((one + gammaln(m) - gammaln(m + n)) * (n > 0))
    return np.array(found)
