"""Errors that go together: how much wider a gain is where an action does the same everywhere.

Draws vary each pair by itself, and what they err by cancels over many. Where an action means the
same in every state, a dose or a drug, it does not: a policy that takes it wherever it looked good
has been lucky once, not many times. So pairs of one action are allowed to err alike. With w the
visits of a pair by the policy less those by the baseline, and s the posterior deviation of what
follows it, the gain varies, by its first-order change, by

    sum_xa (w s)^2  if all pairs err apart,   sum_a (sum_x w s)^2  if those of an action err alike.

Draws are widened about their mean by the root of the ratio of the second to the first, where that
is above 1: what would cancel, an action taken here and left there, is not counted on.

A choice does so only where the log itself finds that actions of a state are alike (c at most 8, see
spibb.data.prior): what follows is then the state's doing, and an action changes it a little, here
as there. Where it finds that they have nothing in common, neither have the errors of an action in
different states, and to fear so would keep a choice from what is plainly good (docs/risk.md).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.posterior.draws import Draws
from spibb.posterior.performance import LARGEST_DISCOUNT, values_and_visits
from spibb.problem import Problem

Array = NDArray[np.float64]


def solve_expected(problem: Problem, tried: Array) -> tuple[Array, Array]:
    """Return values and discounted visits of policies in the shrunk model."""
    model, gamma = problem.expected, min(problem.gamma, LARGEST_DISCOUNT)
    return values_and_visits(Draws.single(model), tried, model.initial, gamma)


def widening(problem: Problem, policies: Array) -> Array:
    """Return by what the gains of C policies are wider than independent pairs make them, (C,).

    Args:
        problem: The log and its baseline.
        policies: Shape (C, S, A).
    """
    tried = np.concatenate([problem.baseline.probabilities[None], policies])
    return widening_where_solved(problem, tried, *solve_expected(problem, tried))


def widening_where_solved(
    problem: Problem, tried: Array, values: Array, visits: Array, largest_share: float = np.inf
) -> Array:
    """Do so where values and visits in the shrunk model are known.

    Args:
        problem: The log and its baseline.
        tried: The baseline, then the policies, shape (1 + C, S, A).
        values: Their values, shape (1 + C, S).
        visits: Their discounted visits, shape (1 + C, S).
        largest_share: Pairs of states with a larger c err apart.
    """
    outcomes, gamma = problem.outcomes, min(problem.gamma, LARGEST_DISCOUNT)
    known = outcomes.n_sa + problem.prior.strength[:, None] + 1.0
    apart, alike = _variances(
        Draws.single(problem.expected), tried, values, visits, gamma, outcomes.by_entry,
        outcomes.variance, known, outcomes.live, problem.prior.share <= largest_share,
    )  # fmt: skip
    ratio = np.divide(alike, apart, out=np.ones(len(apart)), where=apart > 0.0)
    return np.asarray(np.sqrt(np.maximum(1.0, ratio)))


def widened(gains: dict[str, Array], times: Array, besides: Array) -> dict[str, Array]:
    """Return gains of C policies in draws, (C, K) by prior, wider about their mean.

    Args:
        gains: As they were drawn.
        times: So many times as wide, shape (C,).
        besides: A deviation of their own that they have then besides, shape (C,).
    """
    found = {}
    for name, drawn in gains.items():
        mean = drawn.mean(axis=1, keepdims=True)
        apart = times[:, None] * (drawn - mean)
        deviation = apart.std(axis=1)
        wide = np.hypot(deviation, besides)
        ratio = np.divide(wide, deviation, out=np.ones(len(wide)), where=deviation > 0.0)
        found[name] = mean + ratio[:, None] * apart
    return found


@jit
def _variances(mean, tried, values, visits, gamma, by_entry, noise, known, live, together):  # type: ignore[no-untyped-def]
    """Return the variance of gains if all pairs err apart, and if those of an action err alike."""
    n_tried, n_states, n_actions = tried.shape
    apart, alike = np.zeros(n_tried - 1), np.zeros(n_tried - 1)
    for c in range(1, n_tried):
        for a in range(n_actions):
            total = 0.0
            for x in range(n_states):
                more = visits[c, x] * tried[c, x, a] - visits[0, x] * tried[0, x, a]
                if not live[x] or more == 0.0:
                    continue
                pair = x * n_actions + a
                left, first, second = 1.0, 0.0, 0.0
                for k in range(mean.indptr[pair], mean.indptr[pair + 1]):
                    y, p = mean.indices[0, k], mean.weights[0, k]
                    worth = by_entry[y] + gamma * values[c, y]
                    left, first, second = left - p, first + p * worth, second + p * worth * worth
                left = max(left, 0.0)
                first += left * by_entry[n_states]
                second += left * by_entry[n_states] ** 2
                spread = max(second - first * first, 0.0) + noise[x, a]
                part = more * np.sqrt(spread / known[x, a])
                apart[c - 1] += part * part
                if together[x]:
                    total += part
                else:
                    alike[c - 1] += part * part
            alike[c - 1] += total * total
    return apart, alike
