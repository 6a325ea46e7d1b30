"""Random baselines."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.envs.mixing import mixed
from spibb.mdp.model import TabularMDP
from spibb.mdp.planning import solve
from spibb.mdp.policy import TabularPolicy
from spibb.studies.generators.parameters import log_uniform

Array = NDArray[np.float64]


def rule(
    rng: np.random.Generator,
    chosen: NDArray[np.int64],
    n_actions: int,
    low: float = 0.03,
    high: float = 0.5,
) -> TabularPolicy:
    """Return a rule of thumb with a random share of the uniform policy.

    Args:
        rng: Source of randomness.
        chosen: Action of the rule in each state.
        n_actions: Number of actions.
        low: Least share of the uniform policy.
        high: Largest share.
    """
    return mixed(np.asarray(chosen, dtype=np.int64), n_actions, log_uniform(rng, low, high))


def usual(
    rng: np.random.Generator, n_states: int, n_actions: int, low: float = 0.5, high: float = 0.95
) -> TabularPolicy:
    """Return a policy that mostly takes action 0; the others share the rest at random.

    Args:
        rng: Source of randomness.
        n_states: Number of states.
        n_actions: Number of actions.
        low: Least probability of action 0, on average over states.
        high: Largest probability of action 0.
    """
    most = rng.uniform(low, high)
    table = np.empty((n_states, n_actions))
    table[:, 0] = np.clip(most + rng.uniform(-0.05, 0.05, n_states), 0.01, 0.995)
    shares = rng.dirichlet(np.full(n_actions - 1, 3.0), n_states) + 0.02
    shares /= shares.sum(axis=1, keepdims=True)
    table[:, 1:] = (1.0 - table[:, :1]) * shares
    return TabularPolicy(table)


def habits(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularPolicy:
    """Return a policy whose rows are Dirichlet, from nearly even to nearly certain."""
    concentration = log_uniform(rng, 0.2, 5.0)
    weights = rng.gamma(concentration, size=(n_states, n_actions)) + 1e-3
    return TabularPolicy(weights / weights.sum(axis=1, keepdims=True))


def experienced(
    rng: np.random.Generator, process: TabularMDP, low: float = 0.5, high: float = 8.0
) -> TabularPolicy:
    """Return a softmax of the optimal values of actions, seen with errors.

    Args:
        rng: Source of randomness.
        process: The true process.
        low: Least inverse temperature, in units of the spread of values of actions.
        high: Largest inverse temperature.
    """
    q = solve(process).q
    spread = (q - q.mean(axis=1, keepdims=True)).std() + 1e-12
    seen = q / spread + rng.uniform(0.2, 1.0) * rng.normal(size=q.shape)
    scores = log_uniform(rng, low, high) * (seen - seen.max(axis=1, keepdims=True))
    weights = np.exp(scores) + 1e-4
    return TabularPolicy(weights / weights.sum(axis=1, keepdims=True))
