"""What the log and the changes are like in each group of rows.

No gain by group: a group's own episodes are few, and the policy was not made for them alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spibb.assessment.assessment import Assessment
from spibb.data.log import Log
from spibb.ope.trajectories import Trajectories


@dataclass(frozen=True)
class Group:
    """One group of a log.

    Attributes:
        name: Its name.
        n_rows: Rows in it.
        n_episodes: Episodes that begin in it.
        log_return: Mean return of those episodes; None where there are none.
        moved: Share of the decisions in its rows that the new policy would make otherwise.
    """

    name: str
    n_rows: int
    n_episodes: int
    log_return: float | None
    moved: float


def list_groups(assessment: Assessment) -> list[Group]:
    """List the groups of a log, in natural order; none where it was read without."""
    log = assessment.problem.log
    if log is None or log.group is None:
        return []
    size = len(log.group_labels)
    n_rows = np.bincount(log.group, minlength=size)
    moved = np.bincount(log.group, assessment.certificate.states.moved[log.state], size)
    n_episodes, total = _returns(log, log.group, assessment.problem.gamma)
    return [
        Group(
            name=name,
            n_rows=int(n_rows[g]),
            n_episodes=int(n_episodes[g]),
            log_return=float(total[g] / n_episodes[g]) if n_episodes[g] else None,
            moved=float(moved[g] / n_rows[g]) if n_rows[g] else 0.0,
        )
        for g, name in enumerate(log.group_labels)
    ]


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
