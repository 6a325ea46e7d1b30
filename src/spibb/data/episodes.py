"""What the rows of an episode imply about each other: order, next states, how it ends."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from spibb.errors import DataError

_UNKNOWN = -1


def complete_episodes(columns: dict[str, Any]) -> dict[str, Any]:
    """Sort the rows of each episode and fill in the columns that were not given.

    * rows are sorted by step within their episode; the same step twice is refused;
    * without ``next_state``, it is the state of the following row, unknown on the last one and
      where steps are missing in between;
    * without ``terminated``, the last row of an episode ends it unless it is truncated.
    """
    if "episode" in columns:
        columns = _sorted(columns)
    n_rows = len(columns["state"])
    is_last = _is_last(columns.get("episode"), n_rows)
    truncated = columns.get("truncated")
    if truncated is None:
        truncated = np.zeros(n_rows, dtype=np.bool_)
    terminated = columns.get("terminated")
    if terminated is None:
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
                hint="without episodes, every transition needs its next state",
            )
        following = np.append(columns["state"][1:], _UNKNOWN)
        is_gap = ~is_last & (_jumps(columns["step"]) | truncated)
        _check_times(columns["step"], ~is_last, is_gap)
        next_state = np.where(is_last | terminated | is_gap, _UNKNOWN, following)
    filled = {"terminated": terminated, "truncated": truncated, "next_state": next_state}
    return {"episode": None, "step": None, **columns, **filled}


def find_gaps(
    episode: NDArray[np.int64] | None,
    step: NDArray[np.int64] | None,
    state: NDArray[np.int64],
    next_state: NDArray[np.int64],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Mark the rows after which steps of their episode are missing.

    The episode goes on, but the number of the step jumps, or the record is said to stop, or the
    state of the following row is not where the step led.
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
    late = first > first.min()
    return int(late.sum()) if 2 * late.sum() <= len(first) else 0


@numba.njit(cache=True)
def _mark_gaps(episode, step, state, next_state, terminated, truncated, is_gap):  # type: ignore[no-untyped-def]
    for row in range(len(state) - 1):
        if episode[row] == episode[row + 1] and not terminated[row]:
            elsewhere = next_state[row] >= 0 and next_state[row] != state[row + 1]
            is_gap[row] = elsewhere or truncated[row] or step[row + 1] - step[row] != 1


def _jumps(step: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark rows that are not followed by the next step, whatever their episodes."""
    return np.append(np.diff(step) != 1, False)


def _check_times(
    step: NDArray[np.int64], is_followed: NDArray[np.bool_], is_gap: NDArray[np.bool_]
) -> None:
    """Refuse steps that never follow each other: times, or every second row of a log."""
    if not is_followed.any() or not is_gap[is_followed].all() or not _jumps(step)[is_gap].any():
        return
    smallest = int(np.diff(step)[is_gap[:-1]].min())
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


def _sorted(columns: dict[str, Any]) -> dict[str, Any]:
    episode = columns["episode"]
    step = columns.get("step")
    # Without steps, the order of the rows counts, even where episodes are interleaved.
    order = np.argsort(episode, kind="stable") if step is None else np.lexsort((step, episode))
    columns = {name: values[order] for name, values in columns.items()}
    if step is None:
        first = np.flatnonzero(np.append(True, columns["episode"][1:] != columns["episode"][:-1]))
        lengths = np.diff(np.append(first, len(episode)))
        columns["step"] = np.arange(len(episode)) - np.repeat(first, lengths)
    else:
        _check_steps(columns, order)
    return columns


def _check_steps(columns: dict[str, Any], order: NDArray[np.intp]) -> None:
    def again(name: str) -> Any:
        return columns[name][1:] == columns[name][:-1]

    twice = again("episode") & again("step")
    if twice.any():
        is_copy = np.logical_and.reduce([again(name) for name in columns])[twice]
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
