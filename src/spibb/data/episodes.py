"""What the rows of an episode imply about each other: order, next states, how it ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.errors import DataError

_UNKNOWN = -1
_CONNECTING = {"episode", "step", "next_state", "terminated", "truncated"}
_FAR = np.iinfo(np.int64).max
# Steps that are places within episodes: one follows the other.
NOT_GIVEN = np.zeros(0, np.int64)


def complete_episodes(columns: dict[str, Any]) -> dict[str, Any]:
    """Sort the rows of each episode and fill in the columns that were not given.

    * rows are sorted by step, if there is one, within their episode; the same twice is refused;
    * without ``next_state``, it is the state of the following row, unknown on the last one and
      where steps are missing in between;
    * without ``terminated``, the last row of an episode ends it unless it is truncated;
    * without any of them each row is a decision of its own, an episode that ends with it.
    """
    if is_one_step(columns):
        columns = {**with_own_episodes(columns), "is_one_step": True}
    if "episode" in columns:
        columns = sorted_rows(columns)
    n_rows = len(columns["state"])
    is_last = _is_last(columns.get("episode"), n_rows)
    truncated = columns.get("truncated")
    if truncated is None:
        truncated = np.zeros(n_rows, dtype=np.bool_)
    terminated = columns.get("terminated")
    if terminated is None:
        if "episode" in columns and "truncated" not in columns:
            columns = {**columns, "are_ends_assumed": True}
        terminated = is_last & ~truncated if "episode" in columns else np.zeros(n_rows, np.bool_)
    if (terminated & truncated).any():
        # The process ended at the very step at which the record stops: the end is what counts.
        truncated = truncated & ~terminated
    next_state = columns.get("next_state")
    if next_state is None:
        if "episode" not in columns:
            raise DataError(
                "neither next_state nor episode is given",
                expected="one of them",
                hint="without episodes, every transition needs its next state; if each row is a "
                "decision of its own, leave out step, terminated and truncated",
            )
        step = columns.get("step", NOT_GIVEN)
        next_state, counters = _followers(columns["state"], step, is_last, terminated, truncated)
        check_times(*map(int, counters))
    filled = {"terminated": terminated, "truncated": truncated, "next_state": next_state}
    return {"episode": None, **columns, **filled}


def is_one_step(columns: Iterable[str]) -> bool:
    """Whether no column says what follows a row, or that anything does."""
    return not _CONNECTING & set(columns)


def with_own_episodes(columns: dict[str, Any], first: int = 0) -> dict[str, Any]:
    """Make each row an episode that ends with it, numbered from a first one on."""
    n = len(columns["state"])
    return {**columns, "episode": np.arange(first, first + n), "terminated": np.ones(n, np.bool_)}


def find_gaps(
    episode: NDArray[np.int64] | None,
    step: NDArray[np.int64] | None,
    state: NDArray[np.int64],
    next_state: NDArray[np.int64],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Mark the rows after which steps of their episode are missing.

    The episode goes on, but the number of the step jumps (unless steps are `NOT_GIVEN`), or the
    record is said to stop, or the state of the following row is not where the step led.
    """
    is_gap = np.zeros(len(state), dtype=np.bool_)
    if episode is not None and step is not None:
        _mark_gaps(episode, step, state, next_state, terminated, truncated, is_gap)
    return is_gap


def count_late_starts(is_first: NDArray[np.bool_], step: NDArray[np.int64]) -> int:
    """Count the episodes whose first steps are missing.

    Where half of the episodes or more begin with the same, lowest step, the others begin too late;
    where they do not, steps are numbered by a clock that knows nothing of episodes.
    """
    first = step[is_first]
    return n_late_starts(len(first), int(np.count_nonzero(first == first.min(initial=_FAR))))


def n_late_starts(n_episodes: int, n_at_first: int) -> int:
    """Return the same of the number of episodes, and of those that begin with the lowest step."""
    n_late = n_episodes - n_at_first
    return n_late if 2 * n_late <= n_episodes else 0


@jit
def _mark_gaps(episode, step, state, next_state, terminated, truncated, is_gap):  # type: ignore[no-untyped-def]
    for row in range(len(state) - 1):
        if episode[row] == episode[row + 1] and not terminated[row]:
            elsewhere = next_state[row] >= 0 and next_state[row] != state[row + 1]
            jumps = len(step) > 0 and step[row + 1] - step[row] != 1
            is_gap[row] = elsewhere or truncated[row] or jumps


@jit
def _followers(state, step, is_last, terminated, truncated):  # type: ignore[no-untyped-def]
    """Return the state that follows each row, and what `check_times` needs to know."""
    found = np.full(len(state), _UNKNOWN)
    n_followed, n_gaps, n_jumps, smallest = 0, 0, 0, _FAR
    for row in range(len(state) - 1):
        if is_last[row]:
            continue
        jump = step[row + 1] - step[row] if len(step) else 1
        n_followed += 1
        if jump != 1 or truncated[row]:
            n_gaps += 1
            n_jumps += jump != 1
            smallest = min(smallest, jump)
        elif not terminated[row]:
            found[row] = state[row + 1]
    return found, (n_followed, n_gaps, n_jumps, smallest)


def check_times(n_followed: int, n_gaps: int, n_jumps: int, smallest: int) -> None:
    """Refuse steps that never follow each other: times, or every second row of a log.

    Args:
        n_followed: Rows with others behind them in their episode.
        n_gaps: Of these, rows that are not followed by the next step.
        n_jumps: Of these, rows whose number says so.
        smallest: By how much, at least.
    """
    if not n_followed or n_gaps < n_followed or not n_jumps:
        return
    raise DataError(
        f"no step of any episode is followed by the next one: they are {smallest} apart, or more",
        expected="steps numbered 0, 1, 2, ... in each episode: a jump is a missing step",
        hint="number the steps, leave the column out if rows are in order and none is missing, "
        "or give next_state",
    )


def _is_last(episode: NDArray[np.int64] | None, n_rows: int) -> NDArray[np.bool_]:
    if episode is None:
        return np.zeros(n_rows, dtype=np.bool_)
    return np.append(episode[1:] != episode[:-1], True)


def sorted_rows(columns: dict[str, Any]) -> dict[str, Any]:
    """Sort rows by episode and, where it is given, step.

    Columns are replaced one by one, so that two copies of all of them are never there.
    """
    episode, step = columns["episode"], columns.get("step")
    if not _is_sorted(episode, episode[:0] if step is None else step):
        # Without steps, the order of the rows counts, even where episodes are interleaved.
        order = np.argsort(episode, kind="stable") if step is None else np.lexsort((step, episode))
        for name in columns:
            columns[name] = columns[name][order]
        if step is not None:
            _check_steps(columns, order)
    return columns


@jit
def _is_sorted(episode, step):  # type: ignore[no-untyped-def]
    """Whether episodes never fall, nor steps, if there are any, stay the same or fall in one."""
    for row in range(len(episode) - 1):
        if episode[row + 1] < episode[row]:
            return False
        if len(step) and episode[row + 1] == episode[row] and step[row + 1] <= step[row]:
            return False
    return True


@jit
def numbered(episode):  # type: ignore[no-untyped-def]
    """Number the rows of each episode from 0."""
    step = np.zeros(len(episode), np.int64)
    for row in range(1, len(episode)):
        if episode[row] == episode[row - 1]:
            step[row] = step[row - 1] + 1
    return step


def _check_steps(columns: dict[str, Any], order: NDArray[np.intp]) -> None:
    def again(name: str) -> Any:
        return columns[name][1:] == columns[name][:-1]

    twice = again("episode") & again("step")
    if twice.any():
        # Where a row stood is no part of what it says.
        said = [name for name in columns if name != "row" and columns[name].ndim == 1]
        is_copy = np.logical_and.reduce([again(name) for name in said])[twice]
        reason = (
            "a file may have been read twice"
            if is_copy.all()
            else "the episode column may be shuffled, or several processes share a number"
        )
        place = int(np.argmax(twice))
        rows = sorted((int(order[place]) + 1, int(order[place + 1]) + 1))
        raise DataError(
            f"the same step of an episode is there twice ({int(twice.sum())} rows too many in all)",
            where=f"rows {rows[0]} and {rows[1]}",
            expected="each step of an episode once",
            hint=f"drop the duplicates, or renumber the steps or episodes ({reason})",
        )
