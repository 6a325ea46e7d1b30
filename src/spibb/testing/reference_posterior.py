"""Slow, obvious twins of the prior, the shrunk model and what is evaluated in draws.

Dense arrays: n of shape (S, A, S + 1) counts what followed each pair, the end last.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from spibb.posterior.draws import Draws

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
