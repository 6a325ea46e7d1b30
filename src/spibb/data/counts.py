"""What an algorithm needs of a log: how often, with what reward, and where to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from spibb.data.count_tables import tables_of
from spibb.data.ends import Ends
from spibb.data.estimate import Unseen, estimate_model
from spibb.data.log import Log, moved
from spibb.data.merged_counts import check_ends, with_ends_joined
from spibb.data.return_sums import ReturnSums
from spibb.data.reward_moments import RewardMoments as RewardMoments
from spibb.data.streaming_counts import StreamingCounts
from spibb.errors import DataError
from spibb.mdp.batch import ModelArrays, Rows
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy
from spibb.mdp.sampling import Sampler
from spibb.names import Named, Names


@dataclass(frozen=True, eq=False)
class Counts(Named):
    """Sufficient statistics of a log; ``a + b`` merges the counts of two logs.

    Attributes:
        n_sa: N(x, a), shape (S, A): rows of the log that count, known next state or not.
        n_sas: N(x, a, x'), sparse of shape (S * A, S); row x * A + a. Rows whose next state is
            unknown because the process ended there are in `n_sa` only.
        n_end: The part of `n_sas` that ended the process, same shape.
        reward_sum: Sum of rewards, shape (S, A).
        reward_range: Smallest and largest reward seen, in rows that do not count too.
        n_initial: How many episodes begin in each state, shape (S,); zero without episodes.
        paid: How rewards spread; None where that was not counted.
        ends: How episodes begin and end, where that was kept.
        returns: First-visit returns at a discount, where they were counted too.
        n_dropped: Rows left out because their next state is unknown although the process went on.
        n_gaps: How often steps of an episode are missing, in it or before its first row.
        state_labels: Names of the states.
        action_labels: Names of the actions.
        minimize: Whether the rewards are costs with their sign turned; see :class:`Log`.

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
    paid: RewardMoments | None = None
    state_labels: tuple[str, ...] | None = None
    action_labels: tuple[str, ...] | None = None
    ends: Ends | None = None
    returns: ReturnSums | None = None
    minimize: bool = False

    def __repr__(self) -> str:
        return (
            f"<Counts: {int(self.n_sa.sum()):,} rows, {self.n_states:,} states, "
            f"{self.n_actions:,} actions>"
        )

    @classmethod
    def from_log(cls, log: Log, *, spread: bool = True) -> Counts:
        """Count a log.

        Args:
            log: The log.
            spread: Whether to count how rewards spread, too.
        """
        tally, names = (
            StreamingCounts(keeps_ends=False),
            ("state", "action", "reward", "next_state"),
        )
        for chunk in log.chunks((*names, "terminated")):
            tally.add(chunk)
        if not tally.n_entries:
            refuse_without_transitions()
        shape = log.n_states, log.n_actions
        tables = tables_of(tally, np.arange(shape[0]), np.arange(shape[1]), shape)
        return cls(
            **(tables if spread else {**tables, "paid": None}),
            reward_range=tally.rewards,
            n_initial=np.bincount(log.first_states, minlength=log.n_states),
            n_dropped=tally.n_dropped,
            n_gaps=log.n_gaps,
            state_labels=log.state_labels,
            action_labels=log.action_labels,
            minimize=log.minimize,
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

        def tally(kept: NDArray[np.bool_]) -> sp.csr_array:
            places = np.flatnonzero(kept)
            indptr = np.searchsorted(places, rows.indptr).astype(rows.indptr.dtype)
            return sp.csr_array((n_entries[places], rows.indices[places], indptr), rows.shape)

        n_sas = tally(n_entries > 0)
        n_end = tally((n_entries > 0) & mdp.terminal[rows.indices])
        shape = mdp.reward.shape
        n_sa = n_pairs.reshape(shape)
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
            paid=RewardMoments.on_pairs(n_sas, mdp.reward)
            if mdp.entry_reward is None
            else RewardMoments.on_entry(n_sas, mdp.entry_reward, shape),
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
        if self.minimize != other.minimize:
            raise DataError(
                "counts of costs and counts of rewards cannot be merged",
                expected="both counted with minimize, or both without",
            )
        both = Counts(
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
            paid=self._paid_with(other),
            returns=self._returns_with(other),
            minimize=self.minimize,
            state_labels=self.state_labels,
            action_labels=self.action_labels,
        )
        return with_ends_joined(self, other, both)

    def update(self, path: Any, columns: Mapping[str, str] | None = None) -> Counts:
        """Return these counts with those of further log files, which may hold new names.

        An episode that goes on there is gone on with: the result is what counting all files at once
        gives.

        Args:
            path: Log files, as for :func:`spibb.count_log`; or their counts.
            columns: Where to find a column that is called differently.
        """
        from spibb.data.counting import count_log

        gamma = None if self.returns is None else self.returns.gamma
        more = (
            path
            if isinstance(path, Counts)
            else count_log(path, columns, keep_ends=True, gamma=gamma, minimize=self.minimize)
        )
        check_ends(self, more)
        names = self.states.union(more.states), self.actions.union(more.actions)
        return self.renamed(*names) + more.renamed(*names)

    def save(self, path: Any) -> None:
        """Write the counts to a file, whole or not at all; see docs/files.md."""
        from spibb.data.counts_file import save_counts

        save_counts(self, path)

    @classmethod
    def load(cls, path: Any) -> Counts:
        """Read the counts that :meth:`save` wrote."""
        from spibb.data.counts_file import load_counts

        return load_counts(path)

    def _returns_with(self, other: Counts) -> ReturnSums | None:
        one, more = self.returns, other.returns
        return None if one is None or more is None or one.gamma != more.gamma else one + more

    def _paid_with(self, other: Counts) -> RewardMoments | None:
        """Return how the rewards of both spread: within each, and between their means."""
        if self.paid is None or other.paid is None:
            return None
        n, m = self.n_sa, other.n_sa
        means = self.reward_sum / np.maximum(n, 1) - other.reward_sum / np.maximum(m, 1)
        between = n * m / np.maximum(n + m, 1) * means**2
        both = sp.csr_array(self.paid.by_successor + other.paid.by_successor)
        return RewardMoments(both, self.paid.spread + other.paid.spread + between)

    @property
    def n_states(self) -> int:
        """Number of states, visited or not."""
        return int(self.n_sa.shape[0])

    @property
    def n_actions(self) -> int:
        """Number of actions, taken or not."""
        return int(self.n_sa.shape[1])

    @cached_property
    def _ended(self) -> NDArray[Any]:
        """How often each state was entered as the end of the process."""
        return np.bincount(self.n_end.indices, self.n_end.data, self.n_states)

    @cached_property
    def is_met(self) -> NDArray[np.bool_]:
        """States in which something was done, or might have been: entered to go on."""
        entered = np.bincount(self.n_sas.indices, self.n_sas.data, self.n_states)
        return np.asarray((self.n_sa.sum(axis=1) > 0) | (entered > self._ended))

    @cached_property
    def terminal(self) -> NDArray[np.bool_]:
        """States that are only ever entered as the end of the process, and never acted in."""
        return np.asarray(~self.is_met & (self._ended > 0))

    @cached_property
    def initial(self) -> NDArray[np.float64]:
        """Distribution of the first state: of episodes, else uniform over the states seen."""
        weight = self.n_initial if self.n_initial.any() else self.n_sa.sum(axis=1) > 0
        start = np.asarray(weight / weight.sum(), dtype=np.float64)
        start.setflags(write=False)
        return start

    @cached_property
    def n_ended(self) -> int:
        """Rows that ended the process."""
        return int(self.n_end.data.sum() + self.n_sa.sum() - self.n_sas.data.sum())

    @property
    def is_one_step(self) -> bool:
        """Whether every row ended the process, so that no discount matters."""
        return self.n_dropped == 0 and self.n_ended == int(self.n_sa.sum())

    def renamed(self, states: Names, actions: Names) -> Counts:
        """Return the same counts under larger or reordered lists of names."""
        if (states, actions) == (self.states, self.actions):
            return self
        rows, columns = moved(self.states, states), moved(self.actions, actions)
        pairs = (rows[:, None] * actions.size + columns).ravel()
        shape = (states.size, actions.size)

        def table(old: NDArray[Any]) -> NDArray[Any]:
            new = np.zeros(shape, dtype=old.dtype)
            new[np.ix_(rows, columns)] = old
            return new

        def tally(old: sp.csr_array) -> sp.csr_array:
            found = old.tocoo()
            places = (pairs[found.row], rows[found.col])
            return sp.csr_array(
                sp.coo_array((found.data, places), shape=(states.size * actions.size, states.size))
            )

        n_initial = np.zeros(states.size, dtype=np.int64)
        n_initial[rows] = self.n_initial
        return replace(
            self,
            n_sa=table(self.n_sa),
            n_sas=tally(self.n_sas),
            n_end=tally(self.n_end),
            reward_sum=table(self.reward_sum),
            n_initial=n_initial,
            paid=None
            if self.paid is None
            else RewardMoments(tally(self.paid.by_successor), table(self.paid.spread)),
            state_labels=states.labels,
            action_labels=actions.labels,
            ends=None if self.ends is None else self.ends.moved(rows, columns),
            returns=None if self.returns is None else self.returns.placed(rows, columns, shape),
        )

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
        return TabularMDP.of_arrays(self.estimate(gamma, unseen, initial), self.terminal)

    def estimate(
        self, gamma: float, unseen: Unseen = "average", initial: NDArray[np.float64] | None = None
    ) -> ModelArrays:
        """Return the arrays of :meth:`to_mdp` without building and checking the model."""
        going_on = self.going_on()
        return estimate_model(
            Rows(
                going_on.indptr.astype(np.int64),
                going_on.indices.astype(np.int32, copy=False),
                going_on.data.astype(np.float64),
            ),
            self.n_sa.astype(np.float64),
            self.reward_sum,
            self.n_ended,
            self.terminal,
            initial=self.initial if initial is None else initial,
            gamma=gamma,
            unseen=unseen,
        )

    def going_on(self) -> sp.csr_array:
        """Return `n_sas` without ends inside a state where others go on.

        Such an end is no transition to that state, whose value it must not collect; an end in a
        terminal state is harmless, since nothing is earned there.
        """
        if self.terminal[self.n_end.indices].all():
            return self.n_sas
        live = sp.diags_array((~self.terminal).astype(np.int64), dtype=np.int64)
        go_on = sp.csr_array(self.n_sas - self.n_end @ live)
        go_on.eliminate_zeros()
        return go_on


def refuse_without_transitions() -> NoReturn:
    """Say that a log leads nowhere."""
    raise DataError(
        "no row of the log has a next state or ends the process",
        hint="give next_state, or mark the last row of each episode as terminated",
    )
