"""The least value of a policy under an unrecorded cause, by listing every way to weigh a log.

A log is a list of episodes, an episode a list of rows `(state, action, reward, terminated)`; see
`spibb.testing.reference_representation`. In the tail of a group, outcomes and one more of its state
are weighed by numbers between 0 and 1 + G of mean 1. A value is multilinear in the weights of
groups, so that it is least where each group has an extreme weighing: all weights but one are at an
end. They are few in small logs. Nothing here knows of tails, of values of states, or of an order of
groups.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import scipy.stats

from spibb.testing.reference_representation import LARGEST_DISCOUNT, Array, Episodes, Step, steps_of

# Parts of one step's weight: a step, and how much of it.
_Weighing = list[tuple[Step, float]]
# A baseline made the actions of a state unless a test at this level says no.
_LEVEL, _ROUNDING = 1e-3, 1e-3


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
    choices = list(_choices(steps, states, table, baseline, odds_ratio))
    start = np.zeros(len(table))
    for row in first:
        start[states[row]] += 1.0 / len(first)
    gamma = min(gamma, LARGEST_DISCOUNT)
    return min(_value(chosen, states, start, gamma) for chosen in itertools.product(*choices))


def vanishing(left: Callable[[float], float], largest: float, n: int) -> float:
    """Return the least of n odds ratios up to the largest at which nothing is left; or infinity."""
    for odds_ratio in np.exp(np.linspace(0.0, math.log(largest), n)):
        if left(float(odds_ratio)) <= 0.0:
            return float(odds_ratio)
    return math.inf


def _choices(
    steps: list[Step], states: list[int], table: Array, baseline: Array, odds_ratio: float
) -> Iterator[list[_Weighing]]:
    """Yield what each group of steps can be weighed by."""
    for x, row in enumerate(table):
        here = [step for step in steps if states[step.row] == x]
        if not here:
            continue
        if _goes_on(here, row, baseline[x]):
            yield [[(step, 1.0 / len(here)) for step in here]]
            continue
        for a, probability in enumerate(row):
            chosen = [step for step in here if step.action == a]
            if not chosen:
                yield [[(step, probability)] for step in here]
                continue
            share, n = len(chosen) / len(here), len(chosen)
            kept = share + (1.0 - share) / odds_ratio
            yield [
                [(step, probability * kept / n) for step in chosen]
                + [
                    (step, probability * (1.0 - kept) * factor / (n + 1))
                    for step, factor in zip((added, *chosen), factors, strict=True)
                ]
                for factors in _extreme(n + 1, odds_ratio)
                for added in here
            ]


def _goes_on(here: list[Step], row: Array, baseline: Array) -> bool:
    distance = 0.0
    for a, probability in enumerate(baseline):
        expected = len(here) * probability
        seen = sum(step.action == a for step in here)
        distance += (seen - expected) ** 2 / max(expected, 1e-9)
    n_free = max(1, sum(probability > 0.0 for probability in baseline) - 1)
    is_likely = distance <= scipy.stats.chi2.isf(_LEVEL, n_free)
    return bool(is_likely and np.abs(row - baseline).max() <= _ROUNDING)


def _extreme(n: int, odds_ratio: float) -> Iterator[tuple[float, ...]]:
    """Yield the extreme weighings of n outcomes: all at an end but one, of mean 1."""
    high, found = 1.0 + odds_ratio, set()
    for ends in itertools.product((0.0, high), repeat=n - 1):
        last = n - sum(ends)
        if -1e-12 <= last <= high + 1e-12:
            found |= {(*ends[:place], last, *ends[place:]) for place in range(n)}
    yield from sorted(found)


def _value(chosen: tuple[_Weighing, ...], states: list[int], start: Array, gamma: float) -> float:
    n_states = len(start)
    reward, moves = np.zeros(n_states), np.zeros((n_states, n_states))
    for step, part in itertools.chain.from_iterable(chosen):
        x = states[step.row]
        reward[x] += part * step.reward
        if step.following is not None:
            moves[x, states[step.following]] += part
    return float(start @ np.linalg.solve(np.eye(n_states) - gamma * moves, reward))
