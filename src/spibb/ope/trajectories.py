"""The episodes of a log, one behind the other, each of its own length."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spibb.data.baseline import check_baseline
from spibb.data.behaviour_policy import BehaviourProbabilities
from spibb.data.log import Log
from spibb.errors import DataError
from spibb.mdp.policy import TabularPolicy

# Rows that are looked at together.
_ROWS = 1 << 18
# The arrays of Trajectories, as compiled kernels take them.
Columns = namedtuple("Columns", "start state action reward next_state ended")


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Ragged episodes: rows ``start[i]`` to ``start[i + 1]`` of the columns are episode i.

    Rows that follow the end of the process within an episode are left out: nothing is earned after
    an end.

    Attributes:
        start: Where each episode begins, and the number of rows, shape (n + 1,).
        state: State before each step.
        action: Action taken.
        reward: Reward received.
        next_state: State after the step, -1 where unknown.
        ended: The process ended with this step.
        n_states: Number of states.
        n_actions: Number of actions.
        n_after_end: Rows that were left out.
        logged: Probability of the action under the policy that acted, where the log records it.
        target: Probability of the action under a policy to be evaluated, where the log records it.

    Example:
        >>> log = Log.from_arrays(state=[0, 0, 1], action=[0, 1, 0], reward=[1.0, 2.0, 3.0],
        ...                       episode=[7, 7, 9])
        >>> episodes = Trajectories.from_log(log)
        >>> len(episodes), episodes.start.tolist(), episodes.returns(0.5).tolist()
        (2, [0, 2, 3], [2.0, 3.0])
    """

    start: NDArray[np.int64]
    state: NDArray[np.int64]
    action: NDArray[np.int64]
    reward: NDArray[np.float64]
    next_state: NDArray[np.int64]
    ended: NDArray[np.bool_]
    n_states: int
    n_actions: int
    n_after_end: int = 0
    logged: NDArray[np.float64] | None = None
    target: NDArray[np.float64] | None = None

    @classmethod
    def from_log(cls, log: Log | None) -> Trajectories:
        """Take the episodes of a log; refuse a log that has none."""
        if log is None or log.episode is None:
            given = "only counts were given" if log is None else "the log has no episodes"
            raise DataError(
                given,
                expected="a log with an episode for each row: weights are products along episodes",
                hint="give the log itself, with the column 'episode'",
            )
        later = np.flatnonzero(log.episode[1:] != log.episode[:-1]) + 1
        start = np.concatenate([[0], later, [len(log)]])
        columns = (log.state, log.action, log.reward, log.next_state, log.terminated)
        acted, n_after_end = log.acted or BehaviourProbabilities(), 0
        more: tuple[NDArray[np.float64] | None, ...] = acted.propensity, acted.target_probability
        n_ends, n_last = map(np.count_nonzero, (log.terminated, log.terminated[start[1:] - 1]))
        if n_ends > n_last:
            # Up to the first end of each episode.
            earlier: NDArray[np.int64] = np.cumsum(log.terminated) - log.terminated
            kept = earlier == np.repeat(earlier[start[:-1]], np.diff(start))
            n_after_end = int(len(kept) - np.count_nonzero(kept))
            columns = tuple(column[kept] for column in columns)
            more = tuple(None if column is None else column[kept] for column in more)
            start = np.append(0, np.cumsum(np.add.reduceat(kept, start[:-1], dtype=np.int64)))
        return cls(start, *columns, log.n_states, log.n_actions, n_after_end, *more)

    def __len__(self) -> int:
        return len(self.start) - 1

    @cached_property
    def columns(self) -> Columns:
        """The arrays, for compiled kernels."""
        return Columns(*(getattr(self, name) for name in Columns._fields))

    @property
    def everything(self) -> NDArray[np.int64]:
        """The numbers of all episodes."""
        return np.arange(len(self), dtype=np.int64)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Steps of each episode."""
        return np.diff(self.start)

    @cached_property
    def is_cut(self) -> NDArray[np.bool_]:
        """Which episodes stop before the process does: truncated, or simply not ended."""
        return ~self.ended[self.start[1:] - 1]

    def cut(self, gamma: float) -> NDArray[np.float64]:
        """Return gamma^T of the episodes that are cut off after T steps, 0 of others."""
        return np.where(self.is_cut, gamma**self.lengths, 0.0)

    def take(self, chosen: NDArray[np.int64]) -> Trajectories:
        """Return some of the episodes, in the order given."""
        if np.array_equal(chosen, self.everything):
            return self
        lengths = self.lengths[chosen]
        start = np.append(0, np.cumsum(lengths))
        rows = np.arange(start[-1]) + np.repeat(self.start[chosen] - start[:-1], lengths)
        columns = Columns(start, *(column[rows] for column in self.columns[1:]))
        more = (None if x is None else x[rows] for x in (self.logged, self.target))
        return Trajectories(*columns, self.n_states, self.n_actions, 0, *more)

    def by_row(self) -> Trajectories:
        """Return the episodes with the number of each row in the place of its state."""
        rows = np.arange(len(self.state))
        return replace(self, state=rows, action=np.zeros_like(rows))

    def returns(self, gamma: float) -> NDArray[np.float64]:
        """Return the discounted return of each episode, as far as it is recorded."""
        # Some episodes at a time: the powers of gamma take twice the memory of the rewards.
        found, n, first = np.empty(len(self)), len(self), 0
        while first < n:
            here = self.start[first]
            last = max(first + 1, int(np.searchsorted(self.start, here + _ROWS, "right")) - 1)
            start, lengths = self.start[first:last] - here, self.lengths[first:last]
            step = np.arange(lengths.sum()) - np.repeat(start, lengths)
            reward = self.reward[here : self.start[last]]
            found[first:last] = np.add.reduceat(gamma**step * reward, start)
            first = last
        return found

    def check_propensities(self, baseline: TabularPolicy) -> None:
        """Refuse a baseline that never takes an action which was taken."""
        if (baseline.probabilities > 0.0).all():
            return
        taken = np.bincount(
            self.state * self.n_actions + self.action, minlength=baseline.probabilities.size
        )
        check_baseline(taken.reshape(baseline.probabilities.shape), baseline)
