"""Slow, obvious twins of the prior, the shrunk model and what is evaluated in draws.

Dense arrays: n of shape (S, A, S + 1) counts what followed each pair, the end last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from spibb.data.hazards import Hazards
from spibb.data.prior import Prior
from spibb.data.shrunk import PRICED
from spibb.posterior.draws import Draws
from spibb.problem import Problem

Array = NDArray[np.float64]


def expected(n: Array, g: Array, share: Array | float, *, of_others: bool = False) -> Array:
    """Return p(. | x, a) = (n_x + c g) / (N_x + c), shape (S, A, S + 1).

    Args:
        n: What followed each pair.
        g: What follows pairs anywhere.
        share: c, of all states or of each.
        of_others: Whether a pair's own rows are left out.
    """
    found = np.zeros(n.shape)
    shares = np.broadcast_to(share, len(n))
    for x, a in np.ndindex(n.shape[:2]):
        followed = n[x].sum(axis=0) - (n[x, a] if of_others else 0.0)
        c = float(shares[x])
        found[x, a] = g if math.isinf(c) else (followed + c * g) / (followed.sum() + c)
    return found


def log_likelihood(n: Array, g: Array, share: float, strength: float) -> Array:
    """Return the Dirichlet-multinomial likelihood of the pairs of each state, given the others."""
    found, p = np.zeros(len(n)), np.maximum(expected(n, g, share, of_others=True), 1e-12)
    for x, a in np.ndindex(n.shape[:2]):
        size = n[x, a].sum()
        if size > 0:
            known = n[x].sum() - size + share
            m = 1.0 / (1.0 / strength + 1.0 / known)
            seen = n[x, a] > 0
            alpha = m * p[x, a][seen]
            found[x] += gammaln(m) - gammaln(size + m)
            found[x] += (gammaln(n[x, a][seen] + alpha) - gammaln(alpha)).sum()
    return found


def shrunk_rows(n: Array, g: Array, share: Array, strength: Array) -> Array:
    """Return (n + m p) / (N + m), shape (S, A, S + 1)."""
    size, m = n.sum(axis=2, keepdims=True), np.reshape(strength, (-1, 1, 1))
    return np.asarray((n + m * expected(n, g, share)) / (size + m))


def paid(problem: Problem, strength: Array) -> Array:
    """Return what pairs are expected to pay besides what follows them, shape (S, A)."""
    outcomes, found = problem.outcomes, np.zeros(problem.outcomes.n_sa.shape)
    for x, a in np.ndindex(found.shape):
        n, rows = outcomes.n_sa[x, a], min(float(strength[x]), PRICED)
        found[x, a] = (n * outcomes.by_pair[x, a] + rows * outcomes.by_state[x]) / (n + rows)
    return found


def paid_twice(rows: Sequence[tuple[int, int, float]]) -> float:
    """Return the largest reward of which as much was paid again, to a pair or with an outcome.

    The least where nothing was.

    Args:
        rows: Pair, outcome and reward of each.
    """
    again = [
        reward
        for i, (pair, outcome, reward) in enumerate(rows)
        for j, (other, entered, paid) in enumerate(rows)
        if i != j and (pair == other or outcome == entered) and paid >= reward
    ]
    return max(again) if again else min(reward for _, _, reward in rows)


def surroundings_pay(u: Array, n: Array, effects: Array, share: float) -> Array:
    """Return t of :mod:`spibb.data.luck`, where the mean of all is 0, shape (S, A)."""
    found = np.zeros(u.shape)
    for x, a in np.ndindex(u.shape):
        rows = [n[x, b] for b in range(u.shape[1])]
        total = sum(n[x, b] * (u[x, b] - effects[x, b]) for b in range(u.shape[1]))
        found[x, a] = effects[x, a] + (0.0 if math.isinf(share) else total / (sum(rows) + share))
    return found


def reward_likelihood(
    u: Array, n: Array, variance: Array, effects: Array, share: float, strength: float,
    rare: float = 0.0,
) -> Array:  # fmt: skip
    """Return the likelihood of what the pairs of each state paid, given the others, (S,).

    Normal if ``rare``, the kurtosis of single rewards, is 0; else with Bennett's bound.
    """
    found = np.zeros(len(u))
    for x, a in np.ndindex(u.shape):
        if n[x, a] == 0:
            continue
        others = [b for b in range(u.shape[1]) if b != a]
        rows = sum(n[x, b] for b in others) + share
        mean, known = effects[x, a], 1.0 / rows
        if not math.isinf(share):
            mean += sum(n[x, b] * (u[x, b] - effects[x, b]) for b in others) / rows
        spread = variance[x, a] * (1.0 / n[x, a] + 1.0 / strength + known)
        off = abs(u[x, a] - mean)
        surprise = 0.5 * off**2 / spread
        if rare > 0.0:
            # What one rare row, of its own or of the others, makes of the difference.
            jump = math.sqrt(rare * variance[x, a]) * max(1.0 / n[x, a], known)
            more = off * jump / spread
            surprise = spread / jump**2 * ((1.0 + more) * math.log(1.0 + more) - more)
        found[x] -= 0.5 * math.log(spread) + surprise
    return found


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
    outcomes, mean = problem.outcomes, _mean(problem, hazards)

    def gain(changed: dict[str, Array]) -> Array:
        transition, reward = _dense_model(problem, changed, hazards)
        of_policy, of_baseline = (
            performance(transition, reward, table, changed["start"], problem.gamma)
            for table in (policy, problem.baseline.probabilities)
        )
        return np.array(of_policy - of_baseline)

    def of_beta(p: Array, total: Array) -> Array:
        return p * (1.0 - p) / (total + 1.0)

    prior = _prior(problem, hazards)
    variance = float(_of_pairs(problem, gain, mean, prior, pooled, surer))
    variance += (_slopes(gain, mean, "entry") ** 2 * outcomes.entry_variance).sum()
    if problem.declared.initial is None:
        slope, p = _slopes(gain, mean, "start"), mean["start"]
        variance += (p @ slope**2 - (p @ slope) ** 2) / (problem.counts.n_initial.sum() + 1.0)
    if hazards is not None:
        total = hazards.in_state.sum(axis=0)
        variance += (_slopes(gain, mean, "in_state") ** 2 * of_beta(mean["in_state"], total)).sum()
        total = outcomes.n_sa + sum(hazards.choosing.by_pair)
        variance += (_slopes(gain, mean, "by_pair") ** 2 * of_beta(mean["by_pair"], total)).sum()
    return float(gain(mean)), math.sqrt(variance)


def errors_of_advantages(
    problem: Problem, pooled: float, surer: float, paid_alone: bool = False
) -> Array:
    """Return the deviations of the baseline's advantages, by differences in all that varies.

    Or in what pairs pay alone.
    """
    b = problem.baseline.probabilities

    def advantages(changed: dict[str, Array]) -> Array:
        transition, reward = _dense_model(problem, changed, None)
        p_b = np.einsum("xa,xay->xy", b, transition)
        v = np.linalg.solve(np.eye(len(b)) - problem.gamma * p_b, (b * reward).sum(axis=1))
        q = reward + problem.gamma * transition @ v
        return np.asarray(q - (b * q).sum(axis=1, keepdims=True))

    mean, prior = _mean(problem, None), problem.careful_prior._replace(
        strength=problem.prior.strength
    )  # fmt: skip
    return np.sqrt(_of_pairs(problem, advantages, mean, prior, pooled, surer, paid_alone))


def _slopes(
    of: Callable[[dict[str, Array]], Array], mean: dict[str, Array], name: str
) -> NDArray[np.float64]:
    """Return differences in all that varies under a name; what is asked of is the last axes."""
    found = []
    for place in np.ndindex(mean[name].shape):
        ends = []
        for step in (1e-5, -1e-5):
            moved = mean[name].copy()
            moved[place] += step
            ends.append(of(mean | {name: moved}))
        found.append((ends[0] - ends[1]) / 2e-5)
    return np.reshape(found, mean[name].shape + np.shape(found[0]))


def _of_pairs(
    problem: Problem,
    of: Callable[[dict[str, Array]], Array],
    mean: dict[str, Array],
    prior: Prior,
    pooled: float,
    surer: float,
    paid_alone: bool = False,
) -> Array:
    """Return how much something varies by what follows pairs and by the noise of rewards."""
    outcomes, m = problem.outcomes, prior.strength
    by_cell, by_noise = _slopes(of, mean, "cells"), _slopes(of, mean, "noise")
    spread = _cells(problem, np.maximum(m, pooled), prior)
    total = np.zeros(by_noise.shape[2:])
    for x, a in np.ndindex(outcomes.n_sa.shape):
        q = spread[x, a].ravel()
        slope = by_cell[x, a].reshape(len(q), -1)
        known = float(outcomes.n_sa[x, a]) + min(float(m[x]), surer)
        varies = np.diag(q) - np.outer(q, q)
        part = np.einsum("ik,ij,jk->k", slope, varies, slope) / (known + 1.0)
        if paid_alone:
            part[:] = 0.0
        part += by_noise[x, a].ravel() ** 2 * outcomes.variance[x, a] / known
        total += part.reshape(total.shape)
    return np.asarray(total)


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


def _prior(problem: Problem, hazards: Hazards | None) -> Prior:
    return problem.prior if hazards is None else problem.careful_prior


def _mean(problem: Problem, hazards: Hazards | None) -> dict[str, Array]:
    """Return the mean of all that varies."""
    n_sa, prior = problem.outcomes.n_sa, _prior(problem, hazards)
    mean = {
        "cells": _cells(problem, prior.strength, prior),
        "noise": np.zeros(n_sa.shape),
        "entry": problem.outcomes.by_entry.copy(),
        "start": problem.expected.initial.copy(),
    }
    if hazards is not None:
        happens, spares = hazards.choosing.by_pair
        mean["in_state"] = hazards.in_state[0] / hazards.in_state.sum(axis=0)
        mean["by_pair"] = happens / (n_sa + happens + spares)
    return mean


def _cells(problem: Problem, rows: Array, prior: Prior) -> Array:
    """Return what was seen to follow and what is expected for so many rows, (S, A, 2, S + 1)."""
    outcomes = problem.outcomes
    n_states, n_actions = outcomes.n_sa.shape
    n = np.zeros((n_states * n_actions, n_states + 1))
    for pair in range(len(n)):
        for k in range(outcomes.indptr[pair], outcomes.indptr[pair + 1]):
            n[pair, outcomes.indices[k]] = outcomes.counts[k]
    n = n.reshape(n_states, n_actions, n_states + 1)
    told = np.reshape(rows, (-1, 1, 1))
    around = told * expected(n, prior.frequencies, prior.share)
    size = outcomes.n_sa[..., None, None] + told[..., None]
    return np.asarray(np.stack([n, around], axis=2) / size)


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
    strength = _prior(problem, hazards).strength
    expects = paid(problem, strength)
    for x, a in np.ndindex(reward.shape):
        if not outcomes.live[x]:
            continue
        seen, around = changed["cells"][x, a]
        transition[x, a] = (seen + around)[:n_states]
        n, m = outcomes.n_sa[x, a], strength[x]
        own = outcomes.by_pair[x, a] - outcomes.by_state[x]
        reward[x, a] = expects[x, a] + (seen.sum() - n / (n + m)) * own
        reward[x, a] += (seen + around) @ changed["entry"] + changed["noise"][x, a]
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
