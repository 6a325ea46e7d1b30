"""What a log holds: sizes, lengths, rewards, and how well pairs are covered."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.data.counts import Counts
from spibb.data.log import Log
from spibb.problem.loggers import BehaviourPolicies, names_of

# Pairs are counted by how often they were seen: from each of these numbers to the next.
_SEEN = (0, 1, 10, 100)
# Rows that are looked at together.
_ROWS = 1 << 20


def log_facts(log: Log) -> dict[str, Any]:
    """Return sizes, lengths and rewards of a log as plain values."""
    reward = log.reward
    facts: dict[str, Any] = {
        "rows": len(log),
        "episodes": log.n_episodes,
        "states": log.n_states,
        "states_met": len(met_values(log.n_states, log.state)),
        "actions": log.n_actions,
        "actions_taken": len(met_values(log.n_actions, log.action)),
        "rewards": {
            "least": float(reward.min()),
            "mean": float(reward.mean()),
            "largest": float(reward.max()),
            "deviation": _deviation(reward),
        },
        "ended": int(log.terminated.sum()),
        "truncated": int(log.truncated.sum()),
        "gaps": log.n_gaps,
        "one_step": bool(log.terminated.all()),
        "content_hash": log.content_hash,
    }
    facts["cut"] = 0
    names = names_of(log)
    if names:
        facts["policies"] = BehaviourPolicies.of(log, names[0]).n_rows
    lengths = episode_lengths(log)
    if lengths is not None:
        facts["cut"] = int((~log.terminated[np.cumsum(lengths) - 1]).sum())
        facts["lengths"] = {
            "least": int(lengths.min()),
            "median": float(np.median(lengths)),
            "mean": float(lengths.mean()),
            "largest": int(lengths.max()),
        }
    return facts


def _deviation(values: NDArray[np.float64]) -> float:
    """Return the standard deviation, without a second column of the same length."""
    mean, total = values.mean(), 0.0
    for first in range(0, len(values), _ROWS):
        total += float(((values[first : first + _ROWS] - mean) ** 2).sum())
    return math.sqrt(total / len(values))


def met_values(n: int, *columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return which of the integers below n columns hold, in order; -1 stands for none."""
    is_met = np.zeros(n + 1, dtype=np.bool_)
    for column in columns:
        is_met[column] = True
    return np.flatnonzero(is_met[:-1])


def episode_lengths(log: Log) -> NDArray[np.int64] | None:
    """Return how many rows each episode has; None without episodes."""
    if log.is_first is None:
        return None
    first = np.flatnonzero(log.is_first)
    return np.diff(np.append(first, len(log)))


def coverage(counts: Counts, baseline: NDArray[np.float64] | None) -> list[dict[str, Any]]:
    """Return how many pairs were seen how often, and the share of the baseline's decisions there.

    Args:
        counts: The counts.
        baseline: Its probabilities, shape (S, A); None: shares are of the rows.
    """
    n_sa = counts.n_sa
    live = np.broadcast_to(~counts.terminal[:, None], n_sa.shape)
    n_x = n_sa.sum(axis=1, keepdims=True)
    weight = n_sa / max(1, n_x.sum()) if baseline is None else n_x * baseline / max(1, n_x.sum())
    found = []
    for low, high in zip(_SEEN, (*_SEEN[1:], None), strict=True):
        within = live & (n_sa >= low)
        if high is not None:
            within &= n_sa < high
        found.append(
            {
                "seen": str(low) if high == low + 1 else f"{low}+" if high is None
                else f"{low} to {high - 1}",
                "pairs": int(within.sum()),
                "share_of_visits": float(weight[within].sum()),
            }
        )  # fmt: skip
    return found
