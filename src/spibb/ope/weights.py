r"""Importance weights: how much likelier each episode is under another policy.

    w_t = prod_{k <= t} pi(a_k | x_k) / pi_b(a_k | x_k)

One compiled walk along each episode yields all that the estimators need of it, for many policies at
once. With rho_t the ratio of step t, w_{-1} = 1, T the last step and g the discount:

* the weight w_T;
* the value sum_t g^t w_{t-1} (u(x_t, a_t) + rho_t r_t) with u = V^ - rho Q^: the recursion
  v_t = V^(x_t) + rho_t (r_t + g v_{t+1} - Q^(x_t, a_t)), v_{T+1} = 0, of the doubly robust
  estimator (Jiang and Li 2016), unrolled; per-decision importance sampling where Q^ = V^ = 0;
* the spread weight (1 - g) sum_t g^t w_t + g^{T+1} w_T: the discounted mean of the weights, the
  last one kept for ever after the end.

Letters: q and v tables of values, rho ratios.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.errors import PolicyError
from spibb.ope.trajectories import Trajectories

Array = NDArray[np.float64]


class Tables(NamedTuple):
    """What a walk looks up, for C policies.

    Attributes:
        ratio: rho = pi / pi_b, 0 where pi_b is 0, shape (..., S, A, C).
        offset: u = V^ - rho Q^ with V^ = sum_a pi Q^, same shape.
    """

    ratio: Array
    offset: Array

    @classmethod
    def of(cls, policies: Array, baseline: Array, q: Array | None = None) -> Tables:
        """Compute them for policies (..., C, S, A), a baseline (..., S, A) and Q^ like policies.

        V^ is made of Q^, whatever that is, since this is what keeps doubly robust terms unbiased.
        Without Q^, both are 0.
        """
        b, offset = baseline[..., None, :, :], np.zeros(policies.shape)
        ratio = np.divide(policies, b, out=np.zeros(policies.shape), where=b > 0.0)
        if q is not None:
            v = sum(policies[..., a] * q[..., a] for a in range(policies.shape[-1]))
            offset = np.asarray(v)[..., None] - ratio * q
        # Policies last: a walk goes along all of them at once.
        return cls(*(np.ascontiguousarray(np.moveaxis(x, -3, -1)) for x in (ratio, offset)))

    def at(self, place: int) -> Tables:
        """Return the tables of one place of the batch."""
        return Tables(self.ratio[place], self.offset[place])


# Some episodes of a log, by number, and what a walk along them looks up.
Part = tuple[NDArray[np.int64], Tables]


@dataclass(frozen=True, eq=False)
class ImportanceWeights:
    """What a walk along n episodes found for each of C policies.

    Attributes:
        episodes: The episodes of a log.
        parts: Which of them, part by part, and the tables that each part was walked with.
        gamma: The discount.
        value: Doubly robust or, without Q and V, per-decision estimate, shape (n, C).
        weight: w_T, shape (n, C).
        spread: The spread weight, shape (n, C); its mean is 1 in expectation, like w_T's.
        gain: Discounted return, shape (n,).
    """

    episodes: Trajectories
    parts: Sequence[Part]
    gamma: float
    value: Array
    weight: Array
    spread: Array
    gain: Array

    @cached_property
    def chosen(self) -> NDArray[np.int64]:
        """Which episodes it went along."""
        return np.concatenate([chosen for chosen, _ in self.parts])

    @cached_property
    def cut(self) -> Array:
        """gamma^T of the episodes that are cut off after T steps, 0 of others."""
        return self.episodes.cut(self.gamma)[self.chosen]

    @cached_property
    def taken(self) -> Trajectories:
        """Those episodes alone."""
        return self.episodes.take(self.chosen)

    @cached_property
    def running(self) -> Array:
        """w_t of every row for each policy, shape (rows, C), episode by episode."""
        lengths = self.episodes.lengths[self.chosen]
        found, first = np.empty((int(lengths.sum()), self.weight.shape[1])), 0
        for chosen, tables in self.parts:
            first = _run(self.episodes.columns, chosen, tables.ratio, found, first)
        _check_overflow(found)
        return found

    def __neg__(self) -> ImportanceWeights:
        """Return the walk with every reward turned into a cost."""
        return replace(self, value=-self.value, gain=-self.gain)

    def least(self, low: float) -> ImportanceWeights:
        """Return the walk with the least that cut episodes may have come to beyond their record.

        What follows a cut lies above ``low``, as all returns do; nothing is paid on for ever after
        it (spibb.ope.estimators.base).
        """
        cut = self.cut
        gain = np.maximum(self.gain + cut * low, low)
        return replace(self, gain=gain, spread=self.spread - cut[:, None] * self.weight)


def walk(episodes: Trajectories, parts: Sequence[Part], gamma: float) -> ImportanceWeights:
    """Walk along chosen episodes.

    Args:
        episodes: The episodes of a log.
        parts: Which of them, and ratios and offsets of C policies for these.
        gamma: The discount.
    """
    n, n_policies = sum(len(chosen) for chosen, _ in parts), parts[0][1].ratio.shape[2]
    value, weight, spread = (np.empty((n, n_policies)) for _ in range(3))
    gain, first = np.empty(n), 0
    for chosen, tables in parts:
        here = slice(first, first + len(chosen))
        _walk(episodes.columns, chosen, *tables, float(gamma), value[here], weight[here],
              spread[here], gain[here])  # fmt: skip
        first = here.stop
    _check_overflow(weight)
    return ImportanceWeights(episodes, parts, gamma, value, weight, spread, gain)


@jit
def _walk(columns, chosen, ratio, offset, gamma, value, weight, spread, gain):  # type: ignore[no-untyped-def]
    start = columns.start
    n_policies = ratio.shape[2]
    v, w, s = np.empty(n_policies), np.empty(n_policies), np.empty(n_policies)
    for place in range(len(chosen)):
        episode = chosen[place]
        for c in range(n_policies):
            v[c], w[c], s[c] = 0.0, 1.0, 0.0
        total = 0.0
        discount = 1.0
        for row in range(start[episode], start[episode + 1]):
            x, a, r = columns.state[row], columns.action[row], columns.reward[row]
            total += discount * r
            rest = discount * (1.0 - gamma)
            for c in range(n_policies):
                rho = ratio[x, a, c]
                v[c] += discount * w[c] * (offset[x, a, c] + rho * r)
                w[c] *= rho
                s[c] += rest * w[c]
            discount *= gamma
        for c in range(n_policies):
            value[place, c], weight[place, c] = v[c], w[c]
            spread[place, c] = s[c] + discount * w[c]
        gain[place] = total


@jit
def _run(columns, chosen, ratio, found, place):  # type: ignore[no-untyped-def]
    """Write running products of ratios, episode by episode, from a place on; return the next."""
    for episode in chosen:
        first = columns.start[episode]
        for row in range(first, columns.start[episode + 1]):
            x, a = columns.state[row], columns.action[row]
            for c in range(found.shape[1]):
                before = found[place - 1, c] if row > first else 1.0
                found[place, c] = ratio[x, a, c] * before
            place += 1
    return place


def _check_overflow(weight: Array) -> None:
    # Under the baseline weights have mean 1: Markov's inequality rules such a weight out.
    if not np.isfinite(weight).all():
        raise PolicyError(
            "the weight of an episode is beyond all numbers",
            expected="a log made by the baseline, under which that has probability below 1e-300",
            hint="check that the baseline belongs to this log",
        )


def effective_sample_size(weight: Array) -> Array:
    """Return (sum w)^2 / sum w^2 along the first axis; 0 where all weights are 0.

    Example:
        >>> float(effective_sample_size(np.array([1.0, 1.0, 1.0, 1.0])))
        4.0
        >>> float(effective_sample_size(np.array([0.0, 0.0, 0.0, 9.0])))
        1.0
    """
    # Divided by the largest, squares of weights neither overflow nor vanish.
    largest = weight.max(axis=0)
    share = weight / np.where(largest > 0.0, largest, 1.0)
    # Added up one by one: the same for a policy alone and beside others.
    total, square = share.cumsum(axis=0)[-1], (share * share).cumsum(axis=0)[-1]
    return np.asarray(total * total / np.where(square > 0.0, square, 1.0))


def largest_share(weight: Array) -> float:
    """Return the largest weight as a share of all; 0 where all weights are 0.

    Example:
        >>> largest_share(np.array([1.0, 3.0]))
        0.75
    """
    total = float(weight.sum())
    return float(weight.max()) / total if total > 0.0 else 0.0
