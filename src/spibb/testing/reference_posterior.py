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
