"""Counts of log files, made while they are read, in memory bounded by the counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.data import streaming_counts as t
from spibb.data.behaviour_policy import varies
from spibb.data.chunked_reader import LogRows, Progress
from spibb.data.count_tables import tables_of
from spibb.data.counts import Counts, refuse_without_transitions
from spibb.data.direction import turned
from spibb.data.ends import Ends
from spibb.data.episodes import (
    check_times,
    is_one_step,
    n_late_starts,
    sorted_rows,
    with_own_episodes,
)
from spibb.data.log import Log
from spibb.data.minari_sets import is_minari, minari_columns, refuse_beside_minari
from spibb.data.readers import read_columns, streamed_columns
from spibb.data.return_sums import ReturnSums, ReturnTally
from spibb.data.streaming_counts import RowChunk, StreamingCounts, row_chunks
from spibb.data.transition_table import MOST_ACTIONS, MOST_STATES
from spibb.errors import DataError
from spibb.tables.label_columns import Labels, check_size
from spibb.tables.source import NotStreamedError


def count_log(
    path: str | Path,
    columns: Mapping[str, str] | None = None,
    *,
    keep_ends: bool = False,
    gamma: float | None = None,
    query: str | None = None,
    minimize: bool = False,
    progress: Progress | None = None,
) -> Counts:
    """Count the rows of a log in CSV or Parquet without holding them in memory.

    The counts are those of ``Counts.from_log(read_log(path))``, and hold how rewards spread, too.
    Memory grows with the transitions that occur; with the episodes, where rows of others come
    between those of an episode, or where ends are kept; and with the rows only where steps have to
    be sorted, where the log is in JSON lines, in Arrow or in a database, or describes
    the behaviour policy.

    Args:
        path: A file, a folder of files or a glob, as for :func:`spibb.read_log`.
        columns: Where to find a column that is called differently.
        keep_ends: Keep how every episode ends, so that :meth:`Counts.update` can go on with those
            that go on in tomorrow's file.
        gamma: Count the first-visit returns at this discount, too, which some algorithms and error
            functions need; their episodes cannot go on in another file.
        query: The SELECT that finds the rows, where ``path`` is a file of DuckDB or SQLite.
        minimize: Whether the column of rewards holds costs, of which less is better.
        progress: Told how many rows were read, and which share of all.
    """
    if query is not None or is_minari(path):
        return _counted_in_memory(path, columns, keep_ends, gamma, query, minimize=minimize)
    given: Any = {"keep_ends": keep_ends, "gamma": gamma, "minimize": minimize}
    try:
        try:
            return _counted(path, columns, progress=progress, in_between=keep_ends, **given)
        except _UnsortedError:
            if gamma is not None:
                raise NotStreamedError("returns of episodes side by side") from None
            return _counted(path, columns, progress=progress, in_between=True, **given)
    except NotStreamedError:
        return _counted_in_memory(path, columns, **given)


def _check_one_policy(log: Log) -> None:
    """Refuse what counts do not keep: where whose episodes begin, and which actions are whose."""
    if log.acted is None:
        return
    names, where = log.acted.names, varies(log)
    if len(names) > 1:
        raise DataError(
            f"{len(names)} policies made the log: {', '.join(map(repr, names))}",
            expected="the rows of one: counts do not keep the behaviour policy",
            hint="count those of each apart, or give the log itself to 'spibb improve'",
        )
    if where is not None:
        raise DataError(
            "the propensities of one action vary, which counts do not keep",
            where=where,
            expected="the same in every row of a state: else the policy used more than it",
            hint="record in the state what the policy looked at",
        )


class _UnsortedError(Exception):
    """Rows of other episodes come between those of one."""


def _counted(
    path: str | Path, columns: Mapping[str, str] | None, keep_ends: bool, gamma: float | None,
    minimize: bool, *, progress: Progress | None, in_between: bool,
) -> Counts:  # fmt: skip
    rows = LogRows(path, columns)
    if rows.says_who_acted:
        raise NotStreamedError("the behaviour policy is read with the whole table")
    keep_ends &= not rows.is_one_step  # such episodes never go on
    tally = StreamingCounts(keeps_ends=in_between and not rows.is_one_step)
    returns = None if gamma is None else ReturnTally(gamma)
    for chunk, file in rows.chunks(progress):
        if chunk.state.max() >= MOST_STATES or chunk.action.max() >= MOST_ACTIONS:
            raise NotStreamedError("more states or actions than keys can hold")
        if minimize:
            chunk = chunk._replace(reward=turned(chunk.reward))
        outcome = tally.add(chunk, file)
        if outcome == t.UNSORTED:
            raise _UnsortedError
        if outcome != t.DONE:
            raise NotStreamedError("steps to be sorted, or episodes that files share without them")
        if returns is not None:
            returns.add(chunk)
    ends = None
    if keep_ends and tally.has_episodes:
        ends = _ends(tally, None if rows.episodes is None else rows.episodes.identifiers())
    states, actions = rows.states.decided(), rows.actions.decided()
    check_size(states[1], actions[1], path)
    summed = None if returns is None else returns.finished()
    return replace(_counts(tally, states, actions, ends, summed), minimize=minimize)


def _counted_in_memory(
    path: str | Path,
    columns: Mapping[str, str] | None,
    keep_ends: bool,
    gamma: float | None,
    query: str | None = None,
    *,
    minimize: bool,
) -> Counts:
    """Count a log that has to be read as a whole; refuse it, and say why, where it is none."""
    episodes: Any
    try:
        if query is not None:
            raise NotStreamedError("a query")
        if is_minari(path):
            refuse_beside_minari(path, columns=columns)
            (given, sizes), episodes = minari_columns(path), None
        else:
            given, sizes, episodes = streamed_columns(path, columns, with_acted=True)
        is_counted = "step" in given
    except NotStreamedError:
        given, episodes, is_counted = read_columns(path, columns, query)
        # The checks of a log, which this may be none.
        log = Log.from_arrays(**given)
        _check_one_policy(log)
        names = "n_states", "n_actions", "state_labels", "action_labels"
        sizes = {name: getattr(log, name) for name in names}
        given = {name: given[name] for name in RowChunk._fields if name in given}
    if is_one_step(given):
        given, keep_ends = with_own_episodes(given), False
    if minimize:
        given["reward"] = turned(given["reward"])
    tally, returns = StreamingCounts(keeps_ends=keep_ends), None
    given = sorted_rows(given) if "episode" in given else given
    for chunk in row_chunks(given):
        tally.add(chunk)
    if gamma is not None:
        returns = ReturnSums.of(Log.of_columns(given, **sizes), gamma)
    tally.has_steps &= is_counted
    ends = _ends(tally, episodes) if keep_ends and tally.has_episodes else None
    states, actions = (
        (np.arange(sizes[f"n_{what}s"]), sizes[f"n_{what}s"], sizes[f"{what}_labels"])
        for what in ("state", "action")
    )
    return replace(_counts(tally, states, actions, ends, returns), minimize=minimize)


# What the numbers of states or actions stand for, how many there are, and their labels.
Decided = tuple[NDArray[np.int64], int, Labels]


def _counts(
    tally: StreamingCounts,
    states: Decided,
    actions: Decided,
    ends: Ends | None,
    returns: ReturnSums | None,
) -> Counts:
    """Turn a tally into counts, under the names of its states and actions."""
    tally.finish()
    counters = tally.counters
    if ends is None and not tally.has_next:
        told = t.N_FOLLOWED, t.N_GAPS_TO_FOLLOWER, t.N_JUMPS, t.SMALLEST_JUMP
        check_times(*(int(counters[name]) for name in told))
    # One row of each episode a day tells nothing alone, and everything with those of other days.
    if ends is None and not tally.n_entries:
        refuse_without_transitions()
    to_state, n_states, state_labels = states
    to_action, n_actions, action_labels = actions
    n_initial = np.zeros(n_states, np.int64)
    begun = np.flatnonzero(tally.n_initial)
    np.add.at(n_initial, to_state[begun], tally.n_initial[begun])
    n_late = n_late_starts(int(counters[t.N_EPISODES]), int(counters[t.N_AT_FIRST]))
    shape = n_states, n_actions
    return Counts(
        **tables_of(tally, to_state, to_action, shape),
        reward_range=tally.rewards,
        n_initial=n_initial,
        n_dropped=tally.n_dropped,
        n_gaps=int(counters[t.N_GAPS]) + n_late,
        state_labels=state_labels,
        action_labels=action_labels,
        ends=None if ends is None else ends.moved(to_state, to_action),
        returns=None if returns is None else returns.placed(to_state, to_action, shape),
    )


def _ends(tally: StreamingCounts, names: NDArray[Any] | None) -> Ends:
    """Return how episodes end, which are numbers, or places among names."""
    row = tally.waiting.row[: tally.n_waiting]
    episode = row[:, t.EPISODE] if names is None else names[row[:, t.EPISODE]]
    return Ends(
        episode=episode,
        first_state=row[:, t.FIRST_STATE], first_step=row[:, t.FIRST_STEP],
        step=row[:, t.STEP], state=row[:, t.STATE], action=row[:, t.ACTION],
        reward=tally.waiting.reward[: tally.n_waiting],
        next_state=row[:, t.NEXT_STATE], flags=row[:, t.FLAGS],
        has_steps=tally.has_steps, has_next=tally.has_next, has_terminated=tally.has_terminated,
    ).ordered()  # fmt: skip
