"""The steps of a log as weighted cells, and their sums by pair of state and action."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spibb.data.counts import Counts
from spibb.data.log import Log
from spibb.problem import Problem

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

# Of a squared reward: what rounding may make of a sum of squares, by row.
_ROUNDING = 1e-12


class Steps(NamedTuple):
    """Rows of a log; rows that do not differ are one cell.

    Attributes:
        state: State of each cell.
        action: Its action.
        outcome: Next state; the number of states where the process ended.
        reward: Mean reward.
        weight: Number of rows.
        squares: Sum of squared rewards.
        shape: Numbers of states and actions.
    """

    state: Integers
    action: Integers
    outcome: Integers
    reward: Array
    weight: Array
    squares: Array
    shape: tuple[int, int]

    @classmethod
    def of(cls, problem: Problem) -> Steps:
        """Return the steps of a problem: of its log, or of its counts where that is all it has.

        Counts keep the mean reward of each transition and the variance of each pair. Rewards that
        differ though the transition is the same are therefore averaged. Where several
        policies made the log, the rows of all of them count: what follows an action does not depend
        on the behaviour policy.
        """
        if problem.whole is None:
            return cls.of_counts(problem.counts)
        return cls.of_log(problem.whole)

    @classmethod
    def of_log(cls, log: Log) -> Steps:
        """Return the rows of a log whose outcome is known."""
        kept = (log.next_state >= 0) | log.terminated
        outcome = np.where(log.terminated, log.n_states, log.next_state)[kept]
        pair = log.state[kept] * log.n_actions + log.action[kept]
        key, reward = pair * (log.n_states + 1) + outcome, log.reward[kept] + 0.0
        order = np.lexsort((reward, key))
        key, reward = key[order], reward[order]
        is_new = np.ones(len(key), dtype=bool)
        is_new[1:] = (key[1:] != key[:-1]) | (reward[1:] != reward[:-1])
        first = np.flatnonzero(is_new)
        weight = np.diff(np.append(first, len(key))).astype(np.float64)
        return cls._unpacked(key[first], reward[first], weight, log.n_states, log.n_actions)

    @classmethod
    def of_counts(cls, counts: Counts) -> Steps:
        """Return the transitions of counts, each with its mean reward."""
        (n_states, n_actions), n_pair = counts.n_sa.shape, counts.n_sa.ravel()
        known, paid = counts.n_sas.tocoo(), counts.paid
        n_ended = _values_at(counts.n_end, known)
        mean = (counts.reward_sum.ravel() / np.maximum(n_pair, 1))[known.row]
        if paid is not None:
            mean = _values_at(paid.by_successor, known) / known.data
        # Rows whose next state is unknown ended the process, too; they have what is left.
        left = n_pair - np.bincount(known.row, known.data, len(n_pair))
        rest = np.flatnonzero(left > 0)
        told = np.bincount(known.row, mean * known.data, len(n_pair))
        rest_mean = (counts.reward_sum.ravel() - told)[rest] / left[rest]
        end = n_states
        pair = np.concatenate([known.row, known.row, rest]).astype(np.int64)
        outcome = np.concatenate([known.col, np.full(len(known.col) + len(rest), end)])
        reward = np.concatenate([mean, mean, rest_mean])
        weight = np.concatenate([known.data - n_ended, n_ended, left[rest]]).astype(np.float64)
        order = np.lexsort((outcome, pair))
        order = order[weight[order] > 0.0]
        pair, reward, weight = pair[order], reward[order], weight[order]
        key = pair * (n_states + 1) + outcome[order]
        found = cls._unpacked(key, reward, weight, n_states, n_actions)
        return found._replace(squares=found.squares + weight * _within(counts, found)[pair])

    @classmethod
    def _unpacked(
        cls, key: Integers, reward: Array, weight: Array, n_states: int, n_actions: int
    ) -> Steps:
        pair, outcome = key // (n_states + 1), key % (n_states + 1)
        of_pair = pair // n_actions, pair % n_actions
        shape = n_states, n_actions
        return cls(*of_pair, outcome, reward, weight, weight * reward**2, shape)


def _values_at(table: sp.csr_array, places: sp.coo_array) -> Array:
    """Return the entries of a sparse table at the places of another."""
    if not len(places.row):  # of no places SciPy returns a sparse table
        return np.zeros(0)
    return np.asarray(table[places.row, places.col], dtype=np.float64).ravel()


def _within(counts: Counts, cells: Steps) -> Array:
    """Return by how much rewards of one transition vary, by pair: a variance, shape (S * A,)."""
    n_pair = np.maximum(counts.n_sa.ravel(), 1)
    if counts.paid is None:
        low, high = counts.reward_range
        return np.full(len(n_pair), ((high - low) / 2.0) ** 2)
    pair = cells.state * cells.shape[1] + cells.action
    mean = counts.reward_sum.ravel() / n_pair
    between = np.bincount(pair, cells.weight * (cells.reward - mean[pair]) ** 2, len(n_pair))
    within = counts.paid.spread.ravel() - between
    rounding = _ROUNDING * n_pair * max(map(abs, counts.reward_range)) ** 2
    return np.where(within > rounding, within, 0.0) / n_pair


@dataclass(frozen=True, eq=False)
class PairSums:
    """Sums of some steps by pair of state and action.

    Attributes:
        n: Rows, shape (S, A).
        reward: Sum of rewards.
        ends: Rows that ended the process.
        count: Rows by next state, sparse of shape (S * A, S).
        paid: Sums of rewards by next state, likewise.
        level: Mean reward of all rows.
        centred: Sum of squared deviations of rewards from it. Sums of squares alone would lose
            what varies beside a large level.
        at_ends: Sum of these deviations over rows that ended the process.
    """

    n: Array
    reward: Array
    ends: Array
    count: sp.csr_array
    paid: sp.csr_array
    level: float
    centred: Array
    at_ends: Array

    @classmethod
    def of(cls, steps: Steps, kept: Flags | None = None) -> PairSums:
        """Add up steps, or some of them.

        Args:
            steps: The steps.
            kept: Which of them; None: all.
        """
        (n_states, n_actions), of = steps.shape, slice(None) if kept is None else kept
        state, action, outcome = steps.state[of], steps.action[of], steps.outcome[of]
        pair, weight, reward = state * n_actions + action, steps.weight[of], steps.reward[of]
        goes_on, size = outcome < n_states, n_states * n_actions

        def total(values: Array) -> Array:
            return np.bincount(pair, values, size).astype(np.float64).reshape(steps.shape)

        # Cells are in the order of their pair and outcome: rows are made without sorting.
        at, into = pair[goes_on], outcome[goes_on].astype(np.int32)
        indptr = np.searchsorted(at, np.arange(size + 1)).astype(np.int64)
        shape = size, n_states
        count, paid = weight[goes_on], weight[goes_on] * reward[goes_on]
        squares = steps.squares[of]
        level = float(weight @ reward) / max(float(weight.sum()), 1.0)
        within = np.maximum(squares - weight * reward**2, 0.0)
        return cls(
            total(weight),
            total(weight * reward),
            total(weight * ~goes_on),
            sp.csr_array((count, into, indptr), shape),
            sp.csr_array((paid, into, indptr), shape),
            level,
            total(weight * (reward - level) ** 2 + within),
            total(weight * (reward - level) * ~goes_on),
        )

    @cached_property
    def of_state(self) -> Array:
        """Rows of each state."""
        return np.asarray(self.n.sum(axis=1))

    def sums(self, v: Array, gamma: float) -> Array:
        """Return sums of r + gamma V(x') by pair.

        Args:
            v: Values, shape (S,) or (K, S); the result has the shape (S, A) or (K, S, A).
            gamma: The discount.
        """
        ahead = np.asarray(self.count @ v.T).T
        return np.asarray(self.reward + gamma * ahead.reshape(*v.shape[:-1], *self.n.shape))

    def mean(self, v: Array, gamma: float) -> Array:
        """Return means of r + gamma V(x') by pair, 0 where there are no rows."""
        return np.asarray(self.sums(v, gamma) / np.maximum(self.n, 1.0))

    def scatter(self, v: Array, w: Array, gamma: float) -> Array:
        """Return sums of products of deviations of r + gamma V and r + gamma W from their means.

        Args:
            v: Values V, shape (K, S).
            w: Values W, shape (K, S) or (1, S).
            gamma: The discount.
        """
        shape = (len(v), *self.n.shape)
        # Around the mean reward and mean values; an end is worth 0, which is less by the mean.
        v_mean, w_mean = v.mean(axis=1)[:, None, None], w.mean(axis=1)[:, None, None]
        off_v, off_w = v - v_mean[:, :, 0], w - w_mean[:, :, 0]
        both = (off_v + off_w).T
        by_reward = np.asarray(self.paid @ both - self.level * (self.count @ both)).T.reshape(shape)
        by_reward = by_reward - self.at_ends * (v_mean + w_mean)
        by_value = np.asarray(self.count @ (off_v * off_w).T).T.reshape(shape)
        by_value = by_value + self.ends * v_mean * w_mean
        products = self.centred + gamma * by_reward + gamma**2 * by_value
        of_v = self.sums(v, gamma) - self.n * (self.level + gamma * v_mean)
        of_w = self.sums(w, gamma) - self.n * (self.level + gamma * w_mean)
        return np.asarray(products - of_v * of_w / np.maximum(self.n, 1.0))

    def by_action(self, share: Array | None = None) -> Array:
        """Return rows by next state of each action, shape (A, S).

        Args:
            share: How much of the rows of each pair counts, shape (S, A); None: all.
        """
        (n_states, n_actions), count = self.n.shape, self.count
        action = np.repeat(np.arange(n_states * n_actions) % n_actions, np.diff(count.indptr))
        places = action * n_states + count.indices
        counted = count.data
        if share is not None:
            counted = counted * np.repeat(share.ravel(), np.diff(count.indptr))
        found = np.bincount(places, counted, n_actions * n_states).astype(np.float64)
        return found.reshape(n_actions, n_states)
