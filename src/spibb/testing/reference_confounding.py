"""The least value of a policy under an unrecorded cause, by listing every way to weigh a log.

A log is a list of episodes, an episode a list of rows `(state, action, reward, terminated)`; see
`spibb.testing.reference_representation`. Outcomes of a group can be weighed by numbers between
1 / G and G of mean 1. A value is multilinear in the weights of groups, so that it is least where
each group has an extreme weighing: all weights but one are at an end. They are few in small logs.
Nothing here knows of tails, of values of states, or of an order of groups.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from spibb.testing.reference_representation import LARGEST_DISCOUNT, Array, Episodes, Step, steps_of

_Group = tuple[int, float, float, list[Step]]


def least_value(
    episodes: Episodes, table: Array, baseline: Array, gamma: float, odds_ratio: float
) -> float:
    """Return the least value of a policy over all weighings of a small log.

    Args:
        episodes: The log.
        table: The policy, shape (S, A).
        baseline: The baseline, shape (S, A); where both are equal, the behaviour goes on.
        gamma: The discount.
        odds_ratio: G.
    """
    steps, first = steps_of(episodes)
    states = [row[0] for rows in episodes for row in rows]
    groups = list(_groups(steps, states, table, baseline))
    weighings = [list(_extreme(len(group[3]), odds_ratio)) for group in groups]
    start = np.zeros(len(table))
    for row in first:
        start[states[row]] += 1.0 / len(first)
    gamma = min(gamma, LARGEST_DISCOUNT)
    return min(
        _value(groups, factors, states, start, gamma) for factors in itertools.product(*weighings)
    )


def _groups(
    steps: list[Step], states: list[int], table: Array, baseline: Array
) -> Iterator[_Group]:
    """Yield the state of each group, its probability, the behaviour's, and its steps."""
    for x, row in enumerate(table):
        here = [step for step in steps if states[step.row] == x]
        if np.abs(row - baseline[x]).max() <= 1e-9:
            yield x, 1.0, 1.0, here
            continue
        unseen = 0.0
        for a, probability in enumerate(row):
            chosen = [step for step in here if step.action == a]
            if chosen and probability > 0.0:
                yield x, probability, len(chosen) / len(here), chosen
            elif not chosen:
                unseen += probability
        if unseen > 0.0:
            yield x, unseen, 0.0, here


def _extreme(n: int, odds_ratio: float) -> Iterator[tuple[float, ...]]:
    """Yield the extreme weighings of n outcomes: all at an end but one, of mean 1."""
    low, high = 1.0 / odds_ratio, odds_ratio
    found = set()
    for ends in itertools.product((low, high), repeat=max(0, n - 1)):
        for place in range(n):
            last = n - sum(ends)
            if low - 1e-12 <= last <= high + 1e-12:
                found.add((*ends[:place], last, *ends[place:]))
    yield from sorted(found) or [()]


def _value(
    groups: list[_Group],
    weighing: tuple[tuple[float, ...], ...],
    states: list[int],
    start: Array,
    gamma: float,
) -> float:
    n_states = len(start)
    reward, moves = np.zeros(n_states), np.zeros((n_states, n_states))
    for (x, weight, share, chosen), factors in zip(groups, weighing, strict=True):
        for step, factor in zip(chosen, factors, strict=True):
            part = weight / len(chosen) * (share + (1.0 - share) * factor)
            reward[x] += part * step.reward
            if step.following is not None:
                moves[x, states[step.following]] += part
    return float(start @ np.linalg.solve(np.eye(n_states) - gamma * moves, reward))
