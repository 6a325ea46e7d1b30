"""Slow, obvious twins of the prior, the shrunk model and what is evaluated in draws.

Dense arrays: n of shape (S, A, S + 1) counts what followed each pair, the end last.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from spibb.data.hazards import Hazards
from spibb.posterior.draws import Draws
from spibb.problem import Problem

Array = NDArray[np.float64]


def expected(n: Array, g: Array, share: float) -> Array:
    """Return p(. | x, a) = (n_x,-a + c g) / (N_x,-a + c), shape (S, A, S + 1)."""
    if math.isinf(share):
        return np.broadcast_to(g, n.shape)
    others = n.sum(axis=1, keepdims=True) - n
    return np.asarray((others + share * g) / (others.sum(axis=2, keepdims=True) + share))


def log_likelihood(n: Array, g: Array, share: float, strength: float) -> float:
    """Return the Dirichlet-multinomial likelihood of all pairs, given those around them."""
    alpha = strength * np.maximum(expected(n, g, share), 1e-12)
    size = n.sum(axis=2)
    whole = gammaln(strength) - gammaln(size + strength)
    parts = np.where(n > 0, gammaln(n + alpha) - gammaln(alpha), 0.0)
    return float(whole[size > 0].sum() + parts.sum())


def shrunk_rows(n: Array, g: Array, share: float, strength: float) -> Array:
    """Return (n + m p) / (N + m), shape (S, A, S + 1)."""
    size = n.sum(axis=2, keepdims=True)
    return np.asarray((n + strength * expected(n, g, share)) / (size + strength))


def dense_draw(draws: Draws, k: int) -> Array:
    """Return one drawn model as an array (S, A, S)."""
    n_states, n_actions = draws.reward.shape[1:]
    found = np.zeros((n_states * n_actions, n_states))
    for pair in range(n_states * n_actions):
        for place in range(draws.indptr[pair], draws.indptr[pair + 1]):
            found[pair, draws.indices[k, place]] += draws.weights[k, place]
    return found.reshape(n_states, n_actions, n_states)


def performance(
    transition: Array, reward: Array, policy: Array, start: Array, gamma: float
) -> float:
    """Return the performance of a policy in a dense model."""
    p = np.einsum("xa,xay->xy", policy, transition)
    r = (policy * reward).sum(axis=1)
    return float(start @ np.linalg.solve(np.eye(len(p)) - gamma * p, r))


def widening(
    transition: Array, reward: Array, start: Array, gamma: float, by_entry: Array, noise: Array,
    known: Array, baseline: Array, policy: Array,
) -> float:  # fmt: skip
    """Return how much wider a gain is where pairs of an action err alike, at least 1.

    Args:
        transition: Mean model with the end last, shape (S, A, S + 1).
        reward: Shape (S, A).
        start: Shape (S,).
        gamma: The discount.
        by_entry: What outcomes add to rewards, shape (S + 1,).
        noise: Variance of rewards around what is expected, shape (S, A).
        known: Rows that a pair is known by, and one, shape (S, A).
        baseline: Shape (S, A).
        policy: Shape (S, A).
    """
    n_states, n_actions = reward.shape
    going_on = transition[:, :, :n_states]

    def system(table: Array) -> Array:
        return np.asarray(np.eye(n_states) - gamma * np.einsum("xa,xay->xy", table, going_on))

    v = np.linalg.solve(system(policy), (policy * reward).sum(axis=1))
    visits = [np.linalg.solve(system(table).T, start) for table in (policy, baseline)]
    worth = by_entry + gamma * np.append(v, 0.0)
    apart, alike = 0.0, 0.0
    for a in range(n_actions):
        total = 0.0
        for x in range(n_states):
            p = transition[x, a]
            variance = (p @ worth**2 - (p @ worth) ** 2 + noise[x, a]) / known[x, a]
            more = visits[0][x] * policy[x, a] - visits[1][x] * baseline[x, a]
            apart += more**2 * variance
            total += more * math.sqrt(variance)
        alike += total**2
    return max(1.0, math.sqrt(alike / apart))


def moments(
    problem: Problem, policy: Array, pooled: float, surer: float, hazards: Hazards | None = None
) -> tuple[float, float]:
    """Return mean and deviation of a gain, to first order, by differences in all that varies.

    Args:
        problem: The log and its baseline.
        policy: Shape (S, A).
        pooled: Rows of its surroundings by which the spread of what follows a pair is told.
        surer: Rows that the prior is worth at most where it is asked how well a pair is known.
        hazards: What a choice allows for; None: nothing.
    """
    outcomes, m, mean = problem.outcomes, problem.prior.strength, _mean(problem, hazards)

    def gain(changed: dict[str, Array]) -> float:
        transition, reward = _dense_model(problem, changed, hazards)
        of_policy, of_baseline = (
            performance(transition, reward, table, changed["start"], problem.gamma)
            for table in (policy, problem.baseline.probabilities)
        )
        return of_policy - of_baseline

    def slopes(name: str) -> Array:
        found = np.zeros(mean[name].shape)
        for place in np.ndindex(found.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = mean[name].copy()
                moved[place] += step
                ends.append(gain(mean | {name: moved}))
            found[place] = (ends[0] - ends[1]) / 2e-5
        return found

    def of_beta(p: Array, total: Array) -> Array:
        return p * (1.0 - p) / (total + 1.0)

    by_cell = slopes("cells")
    variance = 0.0
    spread = _cells(problem, max(m, pooled), hazards)
    for x, a in np.ndindex(outcomes.n_sa.shape):
        q, slope = spread[x, a].ravel(), by_cell[x, a].ravel()
        known = float(outcomes.n_sa[x, a]) + min(m, surer) + 1.0
        variance += float(slope @ (np.diag(q) - np.outer(q, q)) @ slope) / known
    noise = outcomes.variance / (outcomes.n_sa + min(m, surer))
    variance += (slopes("noise") ** 2 * noise).sum()
    if problem.declared.initial is None:
        slope, p = slopes("start"), mean["start"]
        variance += (p @ slope**2 - (p @ slope) ** 2) / (problem.counts.n_initial.sum() + 1.0)
    if hazards is not None:
        total = hazards.in_state.sum(axis=0)
        variance += (slopes("in_state") ** 2 * of_beta(mean["in_state"], total)).sum()
        total = outcomes.n_sa + sum(hazards.choosing.by_pair)
        variance += (slopes("by_pair") ** 2 * of_beta(mean["by_pair"], total)).sum()
    return gain(mean), math.sqrt(variance)


def mean_model(problem: Problem, hazards: Hazards | None = None) -> tuple[Array, Array]:
    """Return transitions (S, A, S) and rewards as they are expected, for a choice with hazards."""
    return _dense_model(problem, _mean(problem, hazards), hazards)


def mean_of_report(problem: Problem) -> tuple[Array, Array]:
    """Return the same as the careful draws of a report are on average.

    Hazards are independent, so that the mean of what they spare is a product of means.
    """
    hazards, mean = problem.hazards, _mean(problem, problem.hazards)
    happens, spares = hazards.by_pair
    mean["by_pair"] = happens / (problem.outcomes.n_sa + happens + spares)
    by_action = hazards.by_action[0] / hazards.by_action.sum(axis=0)
    return _dense_model(problem, mean, hazards, (by_action, hazards.unseen))


def _mean(problem: Problem, hazards: Hazards | None) -> dict[str, Array]:
    """Return the mean of all that varies."""
    n_sa = problem.outcomes.n_sa
    mean = {
        "cells": _cells(problem, problem.prior.strength, hazards),
        "noise": np.zeros(n_sa.shape),
        "start": problem.expected.initial.copy(),
    }
    if hazards is not None:
        happens, spares = hazards.choosing.by_pair
        mean["in_state"] = hazards.in_state[0] / hazards.in_state.sum(axis=0)
        mean["by_pair"] = happens / (n_sa + happens + spares)
    return mean


def _cells(problem: Problem, rows: float, hazards: Hazards | None) -> Array:
    """Return what was seen to follow and what is expected for so many rows, (S, A, 2, S + 1)."""
    outcomes = problem.outcomes
    prior = problem.prior if hazards is None else problem.careful_prior
    n_states, n_actions = outcomes.n_sa.shape
    n = np.zeros((n_states * n_actions, n_states + 1))
    for pair in range(len(n)):
        for k in range(outcomes.indptr[pair], outcomes.indptr[pair + 1]):
            n[pair, outcomes.indices[k]] = outcomes.counts[k]
    n = n.reshape(n_states, n_actions, n_states + 1)
    around = expected(n, prior.frequencies, prior.share)
    size = outcomes.n_sa[..., None, None] + rows
    return np.asarray(np.stack([n, rows * around], axis=2) / size)


def _dense_model(
    problem: Problem,
    changed: dict[str, Array],
    hazards: Hazards | None,
    of_actions: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """Return transitions (S, A, S) and rewards of what may be so.

    Args:
        problem: The log and its baseline.
        changed: All that varies.
        hazards: What may happen.
        of_actions: Hazards of actions and the share that was never seen; None: as a choice has it.
    """
    outcomes = problem.outcomes
    n_states, n_actions = outcomes.n_sa.shape
    transition, reward = np.zeros((n_states, n_actions, n_states)), np.zeros(outcomes.n_sa.shape)
    for x, a in np.ndindex(reward.shape):
        if not outcomes.live[x]:
            continue
        seen, around = changed["cells"][x, a]
        transition[x, a] = (seen + around)[:n_states]
        reward[x, a] = seen @ (outcomes.by_pair[x, a] + outcomes.by_entry)
        reward[x, a] += around @ (outcomes.by_others[x, a] + outcomes.by_entry)
        reward[x, a] += changed["noise"][x, a]
        if hazards is None or x == hazards.state:
            continue
        if outcomes.n_sa[x].sum() == 0.0:
            transition[x, a], reward[x, a] = hazards.stay * np.eye(n_states)[x], hazards.reward
            continue
        by_action, unseen = (
            one[a] for one in of_actions or (hazards.limits, hazards.choosing.unseen)
        )
        spared = (1.0 - changed["in_state"][x]) * (1.0 - changed["by_pair"][x, a])
        transition[x, a] *= spared * (1.0 - by_action)
        if hazards.state < n_states:
            transition[x, a, hazards.state] += 1.0 - spared * (1.0 - by_action)
        least = 1.0 - spared * (1.0 - unseen * by_action)
        reward[x, a] += least * (hazards.reward - reward[x, a])
    return transition, reward
