"""What an algorithm needs of a log: how often, with what reward, and where to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from spibb.data.estimate import Rows, Unseen, estimate_model
from spibb.data.log import Log
from spibb.errors import DataError
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy
from spibb.mdp.sampling import Sampler


@dataclass(frozen=True, eq=False)
class Counts:
    """Sufficient statistics of a log; ``a + b`` merges the counts of two logs.

    Attributes:
        n_sa: N(x, a), shape (S, A): rows of the log that count, known next state or not.
        n_sas: N(x, a, x'), sparse of shape (S * A, S); row x * A + a. Rows whose next state is
            unknown because the process ended there are in `n_sa` only.
        n_end: The part of `n_sas` that ended the process, same shape.
        reward_sum: Sum of rewards, shape (S, A).
        reward_range: Smallest and largest reward seen.
        n_initial: How many episodes begin in each state, shape (S,); zero without episodes.
        n_dropped: Rows left out because their next state is unknown although the process went on.
        n_gaps: How often steps of an episode are missing, in it or before its first row.
        state_labels: Names of the states.
        action_labels: Names of the actions.

    Example:
        >>> log = Log.from_arrays(state=[0, 0], action=[0, 0], reward=[1.0, 3.0],
        ...                       next_state=[0, 1], terminated=[False, True])
        >>> counts = Counts.from_log(log)
        >>> counts.n_sa.tolist(), (counts + counts).n_sa.tolist()
        ([[2], [0]], [[4], [0]])
        >>> counts.to_mdp(gamma=0.5).reward[0, 0], counts.terminal.tolist()
        (np.float64(2.0), [False, True])
    """

    n_sa: NDArray[np.int64]
    n_sas: sp.csr_array
    n_end: sp.csr_array
    reward_sum: NDArray[np.float64]
    reward_range: tuple[float, float]
    n_initial: NDArray[np.int64]
    n_dropped: int = 0
    n_gaps: int = 0
    state_labels: tuple[str, ...] | None = None
    action_labels: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return (
            f"<Counts: {int(self.n_sa.sum())} rows, {self.n_states} states, "
            f"{self.n_actions} actions>"
        )

    @classmethod
    def from_log(cls, log: Log) -> Counts:
        """Count a log."""
        shape = (log.n_states, log.n_actions)
        known = log.next_state >= 0
        kept = known | log.terminated
        if not kept.any():
            raise DataError(
                "no row of the log has a next state or ends the process",
                hint="give next_state, or mark the last row of each episode as terminated",
            )
        pair = log.state * log.n_actions + log.action
        reward = log.reward[kept]
        first = log.is_first
        starts = np.zeros(0, np.int64) if first is None else log.state[first]
        return cls(
            n_sa=np.bincount(pair[kept], minlength=shape[0] * shape[1]).reshape(shape),
            n_sas=_tally(pair[known], log.next_state[known], shape),
            n_end=_tally(
                pair[known & log.terminated], log.next_state[known & log.terminated], shape
            ),
            reward_sum=_sums(pair[kept], reward, shape),
            reward_range=(float(reward.min()), float(reward.max())),
            n_initial=np.bincount(starts, minlength=log.n_states),
            n_dropped=int(np.count_nonzero(~kept)),
            n_gaps=log.n_gaps,
            state_labels=log.state_labels,
            action_labels=log.action_labels,
        )

    @classmethod
    def sample(
        cls,
        mdp: TabularMDP,
        policy: TabularPolicy | ArrayLike,
        *,
        n_episodes: int,
        max_steps: int = 1_000,
        rng: np.random.Generator,
    ) -> Counts:
        """Count episodes of ``policy`` in ``mdp`` without writing them down.

        The result is that of ``Counts.from_log(Log.sample(...))`` with the same generator.
        """
        sampler = Sampler(mdp, policy)
        tally = sampler.tally(n_episodes=n_episodes, max_steps=max_steps, rng=rng)
        return cls.from_tally(mdp, *tally)

    @classmethod
    def from_tally(
        cls,
        mdp: TabularMDP,
        n_pairs: NDArray[np.int64],
        n_entries: NDArray[np.int64],
        starts: NDArray[np.int64],
    ) -> Counts:
        """Make counts of what `spibb.mdp.sampling.Sampler.tally` returns."""
        if not n_pairs.any():
            raise DataError("every sampled episode began in a terminal state")
        rows = mdp.rows
        # Copies: removing zeros works in place.
        n_sas = sp.csr_array(
            (n_entries.copy(), rows.indices.copy(), rows.indptr.copy()), rows.shape
        )
        n_end = sp.csr_array(
            (n_entries * mdp.terminal[rows.indices], rows.indices.copy(), rows.indptr.copy()),
            rows.shape,
        )
        for tally in (n_sas, n_end):
            tally.eliminate_zeros()
        n_sa = n_pairs.reshape(mdp.reward.shape)
        if mdp.entry_reward is None:
            reward_sum, paid = n_sa * mdp.reward, mdp.reward[n_sa > 0]
        else:
            reward_sum = np.asarray(n_sas @ mdp.entry_reward).reshape(n_sa.shape)
            paid = mdp.entry_reward[n_sas.indices]
            if n_sas.data.sum() < n_sa.sum():  # ends without a next state pay nothing
                paid = np.append(paid, 0.0)
        return cls(
            n_sa=n_sa,
            n_sas=n_sas,
            n_end=n_end,
            reward_sum=reward_sum,
            reward_range=(float(paid.min()), float(paid.max())),
            n_initial=np.bincount(starts, minlength=mdp.n_states),
        )

    def __add__(self, other: Counts) -> Counts:
        if not isinstance(other, Counts):
            return NotImplemented
        same_labels = (self.state_labels, self.action_labels) == (
            other.state_labels,
            other.action_labels,
        )
        if self.n_sa.shape != other.n_sa.shape or not same_labels:
            raise DataError(
                f"counts of {self.n_sa.shape} and {other.n_sa.shape} (states, actions), or with "
                "different labels, cannot be merged",
                expected="the same states and actions, in the same order",
                hint="give n_states and n_actions, or labels, when building the logs",
            )
        return Counts(
            n_sa=self.n_sa + other.n_sa,
            n_sas=sp.csr_array(self.n_sas + other.n_sas),
            n_end=sp.csr_array(self.n_end + other.n_end),
            reward_sum=self.reward_sum + other.reward_sum,
            reward_range=(
                min(self.reward_range[0], other.reward_range[0]),
                max(self.reward_range[1], other.reward_range[1]),
            ),
            n_initial=self.n_initial + other.n_initial,
            n_dropped=self.n_dropped + other.n_dropped,
            n_gaps=self.n_gaps + other.n_gaps,
            state_labels=self.state_labels,
            action_labels=self.action_labels,
        )

    @property
    def n_states(self) -> int:
        """Number of states, visited or not."""
        return int(self.n_sa.shape[0])

    @property
    def n_actions(self) -> int:
        """Number of actions, taken or not."""
        return int(self.n_sa.shape[1])

    @cached_property
    def terminal(self) -> NDArray[np.bool_]:
        """States that are only ever entered as the end of the process, and never acted in."""
        entered, ended = (
            np.bincount(tally.indices, tally.data, self.n_states)
            for tally in (self.n_sas, self.n_end)
        )
        return np.asarray((self.n_sa.sum(axis=1) == 0) & (ended > 0) & (ended == entered))

    @property
    def initial(self) -> NDArray[np.float64]:
        """Distribution of the first state: of episodes, else uniform over the states seen."""
        if self.n_initial.any():
            return np.asarray(self.n_initial / self.n_initial.sum())
        seen = self.n_sa.sum(axis=1) > 0
        return np.asarray(seen / seen.sum(), dtype=np.float64)

    @property
    def n_ended(self) -> int:
        """Rows that ended the process."""
        return int(self.n_end.sum()) + int(self.n_sa.sum()) - int(self.n_sas.sum())

    def to_mdp(
        self, gamma: float, unseen: Unseen = "average", initial: NDArray[np.float64] | None = None
    ) -> TabularMDP:
        """Return the maximum-likelihood model.

        Args:
            gamma: The discount.
            unseen: What a pair without data does: what was seen in its state on average, or
                ``terminal``, ``uniform``, ``self-loop``; see :mod:`spibb.data.estimate`.
            initial: Distribution of the first state; None: that of the log.
        """
        model = self.estimate(gamma, unseen, initial)
        return TabularMDP(
            model.rows, model.reward, gamma, model.initial, self.terminal, model.ending
        )

    def estimate(
        self, gamma: float, unseen: Unseen = "average", initial: NDArray[np.float64] | None = None
    ) -> Estimate:
        """Return the arrays of :meth:`to_mdp` without building and checking the model."""
        going_on = self._continuing()
        found = estimate_model(
            Rows(
                going_on.indptr.astype(np.int64),
                going_on.indices.astype(np.int32, copy=False),
                going_on.data.astype(np.float64),
            ),
            self.n_sa.astype(np.float64),
            self.reward_sum,
            self.n_ended,
            self.terminal,
            unseen,
        )
        indptr, indices, data = found.rows
        rows = sp.csr_array((data, indices, indptr), shape=going_on.shape)
        start = self.initial if initial is None else initial
        return Estimate(rows, found.reward, found.ending, start, gamma)

    def _continuing(self) -> sp.csr_array:
        """Return `n_sas` without ends inside a state where others go on.

        Such an end is no transition to that state, whose value it must not collect; an end in a
        terminal state is harmless, since nothing is earned there.
        """
        if self.n_end.nnz == 0 or self.terminal[self.n_end.indices].all():
            return self.n_sas
        live = sp.diags_array((~self.terminal).astype(np.int64), dtype=np.int64)
        go_on = sp.csr_array(self.n_sas - self.n_end @ live)
        go_on.eliminate_zeros()
        return go_on


class Estimate(NamedTuple):
    """The arrays of a maximum-likelihood model; see :class:`spibb.mdp.batch.ModelBatch`."""

    rows: sp.csr_array
    reward: NDArray[np.float64]
    ending: NDArray[np.float64]
    initial: NDArray[np.float64]
    gamma: float


def _sums(
    pair: NDArray[np.int64], values: NDArray[np.float64], shape: tuple[int, int]
) -> NDArray[np.float64]:
    sums = np.bincount(pair, values, shape[0] * shape[1]).astype(np.float64)
    return sums.reshape(shape)


def _tally(
    pair: NDArray[np.int64], next_state: NDArray[np.int64], shape: tuple[int, int]
) -> sp.csr_array:
    ones = np.ones(len(pair), dtype=np.int64)
    tally = sp.coo_array((ones, (pair, next_state)), shape=(shape[0] * shape[1], shape[0]))
    return sp.csr_array(tally)
