"""What the log and the changes are like in each group of rows.

No gain by group: a group's own episodes are few, and the policy was not made for them alone.

A log is about patients, so that small groups are not shown. Groups of fewer than ten episodes
are one row, "other groups". If fewer than ten episodes are in it, the smallest of the remaining
groups join it until there are ten: else its figures were the totals of the log minus the rows that
are shown. If the whole log has fewer, no figure is shown.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spibb.assessment.assessment import Assessment
from spibb.data.log import Log
from spibb.data.objective import FEWEST_EPISODES
from spibb.ope.trajectories import Trajectories


@dataclass(frozen=True)
class Group:
    """One group of a log, or several small ones together.

    Attributes:
        name: Its name.
        n_rows: Rows in it; None, as are all figures, where it has fewer than ten episodes.
        n_episodes: Episodes that begin in it.
        log_return: Mean return of those episodes; None where the log has no episodes.
        moved: Share of the decisions in its rows that the new policy would make otherwise.
        n_groups: How many groups it is made of.
    """

    name: str
    n_rows: int | None
    n_episodes: int | None
    log_return: float | None
    moved: float | None
    n_groups: int = 1


def list_groups(assessment: Assessment) -> list[Group]:
    """List the groups of a log, in natural order, small ones together as the last.

    There are none where the log was read without. Where it has no episodes, a row counts as one.
    """
    log = assessment.problem.log
    if log is None or log.group is None:
        return []
    size = len(log.group_labels)
    n_rows = np.bincount(log.group, minlength=size)
    moved = np.bincount(log.group, assessment.certificate.states.moved[log.state], size)
    n_episodes, total = _returns(log, log.group, assessment.problem.gamma)

    def group(name: str, members: list[int]) -> Group:
        rows, episodes = int(n_rows[members].sum()), int(n_episodes[members].sum())
        return Group(
            name=name,
            n_rows=rows,
            n_episodes=episodes,
            log_return=float(total[members].sum() / episodes) if episodes else None,
            moved=float(moved[members].sum() / rows) if rows else 0.0,
            n_groups=len(members),
        )

    n = n_rows if log.is_first is None else n_episodes
    shown, others = shown_groups(n.tolist())
    found = [group(log.group_labels[g], [g]) for g in shown]
    if not others:
        return found
    name = f"other groups ({len(others)})" if shown else f"all groups ({len(others)})"
    if n[others].sum() < FEWEST_EPISODES:
        return [Group(name, None, None, None, None, len(others))]
    return [*found, group(name, others)]


def shown_groups(
    n_episodes: list[int], least: int = FEWEST_EPISODES
) -> tuple[list[int], list[int]]:
    """Return which groups have a row of their own, and which share one.

    Args:
        n_episodes: Episodes of each group.
        least: How many a row has at least, if there are so many.

    Example:
        >>> shown_groups([40, 3, 20, 30])
        ([0, 3], [1, 2])
        >>> shown_groups([40, 6, 20, 4]), shown_groups([40, 20])
        (([0, 2], [1, 3]), ([0, 1], []))
    """
    order = sorted(range(len(n_episodes)), key=lambda g: n_episodes[g])
    others: list[int] = []
    n = 0
    for g in order:
        if n_episodes[g] >= least and (not others or n >= least):
            break
        others.append(g)
        n += n_episodes[g]
    return sorted(set(order) - set(others)), sorted(others)


def _returns(
    log: Log, group: NDArray[np.int64], gamma: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return how many episodes begin in each group, and what they earned in all."""
    size, is_first = len(log.group_labels), log.is_first
    n_episodes, total = np.zeros(size, dtype=np.int64), np.zeros(size)
    if is_first is not None:
        np.add.at(n_episodes, group[is_first], 1)
        np.add.at(total, group[is_first], Trajectories.from_log(log).returns(gamma))
    return n_episodes, total
