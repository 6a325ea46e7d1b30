"""Rows of a log, counted as they come: one pass, compiled.

A row can be counted when it is known what follows it in its episode, so the last row of an episode
waits. Where rows of other episodes may come in between, every episode has a place of its own where
its last row waits; else one place is enough.

What rows imply about each other is what spibb.data.episodes says of a log that is in memory; tests
hold the two to each other.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import inlined_jit, jit
from spibb.data.transition_table import (
    EMPTY,
    add_transitions,
    empty_entries,
    hashed,
    packed,
    with_room,
)

# Rows that are counted, and read, at a time: so many that calls cost nothing.
CHUNK = 1 << 17
# Rows for which there must be room in the table of transitions: the less, the smaller it may be.
_TOGETHER = 1 << 14
# What a pass over rows ends with: everything is counted, or why not.
DONE, UNSORTED, DISORDERED, SHARED = range(4)


class RowChunk(NamedTuple):
    """Some rows of a log; a column that the log does not have is empty.

    Attributes:
        state: Integers from 0.
        action: Integers from 0.
        reward: Finite numbers.
        next_state: Integers from 0, -1 where unknown.
        terminated: Booleans.
        truncated: Booleans.
        episode: Any integers.
        step: Any integers.
    """

    state: NDArray[np.int64]
    action: NDArray[np.int64]
    reward: NDArray[np.float64]
    next_state: NDArray[np.int64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    episode: NDArray[np.int64]
    step: NDArray[np.int64]


def row_chunks(columns: Mapping[str, NDArray[Any]]) -> Iterator[RowChunk]:
    """Return the rows of columns, some at a time."""
    for first in range(0, len(columns["state"]), CHUNK):
        here = slice(first, first + CHUNK)
        yield row_chunk(**{name: values[here] for name, values in columns.items()})


def row_chunk(**columns: NDArray[Any]) -> RowChunk:
    """Return rows with the columns that are there."""
    return RowChunk(**{**_LACKING, **columns})


_LACKING: dict[str, Any] = {
    "next_state": np.zeros(0, np.int64), "terminated": np.zeros(0, np.bool_),
    "truncated": np.zeros(0, np.bool_), "episode": np.zeros(0, np.int64),
    "step": np.zeros(0, np.int64),
}  # fmt: skip


# Columns of the rows that wait; flags are 1 for terminated and 2 for truncated.
EPISODE, FIRST_STATE, FIRST_STEP, STEP, STATE, ACTION, NEXT_STATE, FLAGS, FILE = range(9)
# By place in the order of appearance: columns and reward; and where the place of an episode is.
Waiting = namedtuple("Waiting", "row reward place")
# Rows that are ready to be counted.
Settled = namedtuple("Settled", "key reward is_end")
# Counters of a pass.
N_EPISODES, N_DROPPED, N_GAPS, N_FOLLOWED, N_GAPS_TO_FOLLOWER, N_JUMPS, SMALLEST_JUMP = range(7)
CURRENT, FIRST_OF_ALL, N_AT_FIRST, N_SETTLED = range(7, 11)
_FAR = np.iinfo(np.int64).max


class StreamingCounts:
    """What was counted so far.

    Attributes:
        keeps_ends: Whether every episode has its place.
        entries: The transitions, with their rewards (spibb.data.transition_table).
        n_entries: How many there are.
        n_initial: How many episodes began in each state.
        counters: How many episodes there are, rows left out, and so on.
        reward_range: Smallest and largest reward.
        waiting: Episodes whose last row waits.
        has_next: Whether next states are given; likewise other columns.
    """

    def __init__(self, *, keeps_ends: bool) -> None:
        self.keeps_ends = keeps_ends
        self.entries = empty_entries()
        self.n_entries = 0
        self.n_initial = np.zeros(1, np.int64)
        self.counters = np.zeros(11, np.int64)
        self.counters[[SMALLEST_JUMP, FIRST_OF_ALL]], self.counters[CURRENT] = _FAR, EMPTY
        self.reward_range = np.array([np.inf, -np.inf])
        self.waiting: Waiting = _waiting(1)
        self.has_next = self.has_terminated = self.has_steps = self.has_episodes = False

    @property
    def n_waiting(self) -> int:
        """Rows that wait."""
        n = int(self.counters[N_EPISODES])
        return n if self.keeps_ends else min(n, 1)

    @property
    def n_dropped(self) -> int:
        """Rows left out: their next state is unknown, although the process went on."""
        return int(self.counters[N_DROPPED])

    @property
    def rewards(self) -> tuple[float, float]:
        """The smallest and the largest reward."""
        return float(self.reward_range[0]), float(self.reward_range[1])

    def add(self, rows: RowChunk, file: int = 0) -> int:
        """Count some rows, which follow those before.

        Args:
            rows: The rows.
            file: Number of the file they are in: without steps, no two files share an episode.

        Returns:
            DONE; or UNSORTED where rows of an episode follow those of a larger one, so that ends
            must be kept, DISORDERED where steps go back, SHARED where files share an episode.
        """
        n = len(rows.state)
        if n == 0:
            return DONE
        self.has_next, self.has_terminated = len(rows.next_state) > 0, len(rows.terminated) > 0
        self.has_episodes = len(rows.episode) > 0
        self.has_steps = self.has_episodes and len(rows.step) > 0
        largest = int(rows.state.max())
        if largest >= len(self.n_initial):
            more = np.zeros(max(largest + 1, 2 * len(self.n_initial)), np.int64)
            more[: len(self.n_initial)] = self.n_initial
            self.n_initial = more
        if self.keeps_ends and self.has_episodes:
            self.waiting = _with_room(self.waiting, self.n_waiting, n)
        done = Settled(np.empty(n + 1, np.int64), np.empty(n + 1), np.empty(n + 1, np.bool_))
        outcome = _settle_rows(rows, file, done, self.n_initial, self.counters, self.reward_range,
                               self.waiting, self.keeps_ends)  # fmt: skip
        self._add(done)
        return int(outcome)

    def _add(self, done: Settled) -> None:
        n = int(self.counters[N_SETTLED])
        for first in range(0, n, _TOGETHER):
            some = Settled(*(column[first : first + _TOGETHER] for column in done))
            n_some = min(n - first, _TOGETHER)
            self.entries = with_room(self.entries, self.n_entries, n_some)
            self.n_entries += add_transitions(*some, n_some, self.entries)
        self.counters[N_SETTLED] = 0

    def finish(self) -> None:
        """Count the rows that wait, which nothing follows; nothing is to be added afterwards."""
        n = self.n_waiting
        done = Settled(np.empty(n, np.int64), np.empty(n), np.empty(n, np.bool_))
        given = self.has_next, self.has_terminated
        _settle_waiting(n, self.waiting, done, self.counters, *given)
        self._add(done)


def _waiting(n_places: int) -> Waiting:
    return Waiting(
        np.zeros((n_places, 9), np.int64), np.zeros(n_places), np.zeros(2 * n_places, np.int64)
    )


def _with_room(waiting: Waiting, n_taken: int, n_more: int) -> Waiting:
    n_places = len(waiting.reward)
    if n_taken + n_more <= n_places:
        return waiting
    while n_places < n_taken + n_more:
        n_places *= 2
    larger = _waiting(n_places)
    larger.row[:n_taken], larger.reward[:n_taken] = waiting.row[:n_taken], waiting.reward[:n_taken]
    _find_again(n_taken, larger)
    return larger


@inlined_jit
def _place_of(episode, waiting):  # type: ignore[no-untyped-def]
    """Return where the place of an episode stands, or shall stand; places are numbered from 1."""
    mask = len(waiting.place) - 1
    found = hashed(episode) & mask
    while waiting.place[found] != 0 and waiting.row[waiting.place[found] - 1, EPISODE] != episode:
        found = (found + 1) & mask
    return found


@jit
def _find_again(n_taken, waiting):  # type: ignore[no-untyped-def]
    for k in range(n_taken):
        waiting.place[_place_of(waiting.row[k, EPISODE], waiting)] = k + 1


@inlined_jit
def _keep(done, counters, x, a, successor, reward, is_end):  # type: ignore[no-untyped-def]
    n = counters[N_SETTLED]
    done.key[n], done.reward[n], done.is_end[n] = packed(x, a, successor), reward, is_end
    counters[N_SETTLED] += 1


@inlined_jit
def _settle(row, k, reward, done, counters, has_next, has_terminated, is_followed, state, step):  # type: ignore[no-untyped-def]
    """Count the row that waits in place k; state and step are of the row that follows, if any."""
    truncated = row[k, FLAGS] & 2 != 0
    terminated = row[k, FLAGS] & 1 != 0 if has_terminated else not (is_followed or truncated)
    truncated = truncated and not terminated
    successor = row[k, NEXT_STATE]
    if is_followed:
        jump = step - row[k, STEP]
        if not has_next:
            is_gap = jump != 1 or truncated
            successor = -1 if terminated or is_gap else state
            counters[N_FOLLOWED] += 1
            if is_gap:
                counters[N_GAPS_TO_FOLLOWER] += 1
                counters[N_JUMPS] += jump != 1
                counters[SMALLEST_JUMP] = min(counters[SMALLEST_JUMP], jump)
        elsewhere = successor >= 0 and successor != state
        if not terminated and (elsewhere or truncated or jump != 1):
            counters[N_GAPS] += 1
    elif not has_next:
        successor = -1
    if successor >= 0 or terminated:
        _keep(done, counters, row[k, STATE], row[k, ACTION], successor, reward[k], terminated)
    else:
        counters[N_DROPPED] += 1


@jit
def _settle_waiting(n_waiting, waiting, done, counters, has_next, has_terminated):  # type: ignore[no-untyped-def]
    for k in range(n_waiting):
        _settle(waiting.row, k, waiting.reward, done, counters, has_next, has_terminated,
                False, 0, 0)  # fmt: skip


@jit
def _settle_rows(rows, file, done, n_initial, counters, reward_range, waiting, keeps_ends):  # type: ignore[no-untyped-def]
    has_next, has_terminated = len(rows.next_state) > 0, len(rows.terminated) > 0
    has_truncated, has_steps = len(rows.truncated) > 0, len(rows.step) > 0
    row, reward = waiting.row, waiting.reward
    has_episodes = len(rows.episode) > 0
    for i in range(len(rows.state)):
        x, a, r = rows.state[i], rows.action[i], rows.reward[i]
        reward_range[0], reward_range[1] = min(reward_range[0], r), max(reward_range[1], r)
        terminated = has_terminated and rows.terminated[i]
        if not has_episodes:
            if rows.next_state[i] >= 0 or terminated:
                _keep(done, counters, x, a, rows.next_state[i], r, terminated)
            else:
                counters[N_DROPPED] += 1
            continue
        episode, k, is_new = rows.episode[i], counters[CURRENT], False
        if k < 0 or row[k, EPISODE] != episode:
            is_new = True
            if keeps_ends:
                found = _place_of(episode, waiting)
                is_new = waiting.place[found] == 0
                if is_new:
                    waiting.place[found] = counters[N_EPISODES] + 1
                k = waiting.place[found] - 1
            elif k >= 0:
                if episode < row[k, EPISODE]:
                    return UNSORTED
                _settle(row, k, reward, done, counters, has_next, has_terminated, False, 0, 0)
            else:
                k = 0
            counters[CURRENT] = k
        if is_new:
            step = rows.step[i] if has_steps else 0
            counters[N_EPISODES] += 1
            n_initial[x] += 1
            if step < counters[FIRST_OF_ALL]:
                counters[FIRST_OF_ALL], counters[N_AT_FIRST] = step, 0
            counters[N_AT_FIRST] += step == counters[FIRST_OF_ALL]
            row[k, EPISODE], row[k, FIRST_STATE], row[k, FIRST_STEP] = episode, x, step
        else:
            step = rows.step[i] if has_steps else row[k, STEP] + 1
            if not has_steps and row[k, FILE] != file:
                return SHARED
            if step <= row[k, STEP]:
                return DISORDERED
            _settle(row, k, reward, done, counters, has_next, has_terminated, True, x, step)
        row[k, STEP], row[k, STATE], row[k, ACTION], row[k, FILE] = step, x, a, file
        row[k, NEXT_STATE] = rows.next_state[i] if has_next else -1
        row[k, FLAGS] = terminated + 2 * (has_truncated and rows.truncated[i])
        reward[k] = r
    return DONE
