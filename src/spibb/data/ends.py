"""How the episodes of a log begin and end, which is what counts of the following days need of it.

The last row of an episode is counted as its last: without ``next_state`` it leads nowhere, without
``terminated`` it ends the process. Where the episode goes on in another log, this is taken back,
and the row is counted again as one that is followed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spibb.data.episodes import count_late_starts
from spibb.errors import DataError
from spibb.words import several

TERMINATED, TRUNCATED = 1, 2
Integers = NDArray[np.int64]


class Settled(NamedTuple):
    """How rows are counted.

    Attributes:
        successor: The state that is counted as the next one, -1 for none.
        terminated: Whether they end the process.
        is_gap: Whether steps are missing after them.
    """

    successor: Integers
    terminated: NDArray[np.bool_]
    is_gap: NDArray[np.bool_]

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Whether they count."""
        return (self.successor >= 0) | self.terminated


@dataclass(frozen=True, eq=False)
class Ends:
    """The first and the last row of each episode, sorted by episode.

    Attributes:
        episode: Numbers or names.
        first_state: State of the first row.
        first_step: Step of the first row.
        step: Step of the last row.
        state: State before the last step.
        action: Action of the last row.
        reward: Reward of the last row.
        next_state: Next state of the last row, -1 where unknown.
        flags: 1 where it is marked as terminated, 2 as truncated.
        has_steps: Whether the log says which step a row is.
        has_next: Whether it says next states.
        has_terminated: Whether it says what ends the process.
    """

    episode: NDArray[Any]
    first_state: Integers
    first_step: Integers
    step: Integers
    state: Integers
    action: Integers
    reward: NDArray[np.float64]
    next_state: Integers
    flags: Integers
    has_steps: bool
    has_next: bool
    has_terminated: bool

    def __len__(self) -> int:
        return len(self.episode)

    @property
    def n_late(self) -> int:
        """Episodes whose first steps are missing."""
        everything = np.ones(len(self), np.bool_)
        return count_late_starts(everything, self.first_step) if self.has_steps else 0

    def take(self, rows: NDArray[Any]) -> Ends:
        """Return some of the episodes."""
        return replace(self, **{name: getattr(self, name)[rows] for name in COLUMNS})

    def ordered(self) -> Ends:
        """Return the same, sorted by episode."""
        return self.take(np.argsort(self.episode, kind="stable"))

    def moved(self, to_state: Integers, to_action: Integers) -> Ends:
        """Return the same under other numbers of states and actions."""
        known = self.next_state >= 0
        return replace(
            self,
            first_state=to_state[self.first_state],
            state=to_state[self.state],
            action=to_action[self.action],
            next_state=np.where(known, to_state[np.where(known, self.next_state, 0)], -1),
        )

    def settled(self, followers: Ends | None = None) -> Settled:
        """Say how the last rows are counted: as last, or followed by the first of others."""
        truncated = self.flags & TRUNCATED != 0
        terminated = self.flags & TERMINATED != 0
        is_last = followers is None
        if not self.has_terminated:
            terminated = ~truncated if is_last else np.zeros(len(self), np.bool_)
        truncated &= ~terminated
        if followers is None:
            return Settled(self.next_state, terminated, np.zeros(len(self), np.bool_))
        is_gap = truncated | (followers.first_step - self.step != 1)
        successor = self.next_state
        if not self.has_next:
            successor = np.where(terminated | is_gap, -1, followers.first_state)
        elsewhere = (successor >= 0) & (successor != followers.first_state)
        return Settled(successor, terminated, ~terminated & (is_gap | elsewhere))


COLUMNS = tuple(field.name for field in fields(Ends) if not field.name.startswith("has_"))


def joined(one: Ends, other: Ends) -> tuple[Ends, Ends, Ends]:
    """Put the ends of two logs together.

    Returns:
        The ends of both; and of episodes that are in both, the earlier and the later part.
    """
    if _given(one) != _given(other):
        raise DataError(
            "counts of logs with and without next_state, terminated or step cannot be put together",
            expected="the same columns in each",
        )
    if one.episode.dtype.kind != other.episode.dtype.kind:
        one, other = (replace(part, episode=part.episode.astype(str)) for part in (one, other))
    _, here, there = np.intersect1d(one.episode, other.episode, return_indices=True)
    parts = one.take(here), other.take(there)
    is_before = parts[0].step < parts[1].first_step
    _check_order(*parts, is_before)
    earlier, later = (
        _mixed(*parts, is_before), _mixed(*parts, ~is_before),
    )  # fmt: skip
    whole = replace(
        later,
        first_state=earlier.first_state, first_step=earlier.first_step,
    )  # fmt: skip
    alone = one.take(~_marked(here, len(one))), other.take(~_marked(there, len(other)))
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in (*alone, whole)]) for name in COLUMNS
    }
    return replace(one, **columns).ordered(), earlier, later


def _given(ends: Ends) -> tuple[bool, ...]:
    return ends.has_steps, ends.has_next, ends.has_terminated


def _marked(places: NDArray[np.intp], size: int) -> NDArray[np.bool_]:
    marked = np.zeros(size, np.bool_)
    marked[places] = True
    return marked


def _mixed(one: Ends, other: Ends, is_first: NDArray[np.bool_]) -> Ends:
    return replace(
        one,
        **{name: np.where(is_first, getattr(one, name), getattr(other, name)) for name in COLUMNS},
    )


def _check_order(one: Ends, other: Ends, is_before: NDArray[np.bool_]) -> None:
    """Refuse episodes of which it is not known which part comes first, or whose parts overlap."""
    if not len(one):
        return
    if not (one.has_steps and other.has_steps):
        raise DataError(
            f"{several(len(one), 'episode is', 'episodes are')} in both logs",
            expected="each episode in one log, or a column 'step' that orders its rows",
            hint="number the episodes of all logs in one go, or give their steps",
            episode=one.episode[0],
        )
    is_mixed = ~is_before & ~(other.step < one.first_step)
    if is_mixed.any():
        place = int(np.argmax(is_mixed))
        raise DataError(
            f"an episode has steps {one.first_step[place]} to {one.step[place]} in one log and "
            f"{other.first_step[place]} to {other.step[place]} in the other",
            expected="steps of which all in one log come before those in the other",
            hint="count the files of both together",
            episode=one.episode[place],
        )
