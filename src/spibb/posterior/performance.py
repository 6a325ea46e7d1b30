"""Performance of many policies in many drawn models: one linear system each.

Small systems are eliminated one by one. Large ones are close to each other, being draws around one
mean: the mean's system is factored once for each policy, and corrects the error of all draws at
once until nothing is left of it,

    V <- V + (I - gamma P_mean)^-1 (r + gamma P V - V),

a contraction where draws are near their mean. What does not settle soon is solved by itself.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from spibb.compiled.blas import one_blas_thread
from spibb.compiled.jit import jit
from spibb.compiled.threads import over_chunks
from spibb.mdp.evaluation import LARGEST_COMPILED, eliminate
from spibb.posterior.draws import Draws

Array = NDArray[np.float64]

# A drawn model may hold a policy for ever: with gamma = 1 its values would be infinite.
LARGEST_DISCOUNT = 1.0 - 1e-7
# Of the largest value: what is left of an error.
_TOLERANCE = 1e-8
_N_CORRECTIONS = 40


def performances(draws: Draws, policies: Array, initial: Array, gamma: float) -> Array:
    """Return the performance of C policies in K models, shape (C, K).

    Args:
        draws: The models.
        policies: Shape (C, S, A).
        initial: Distributions of the first state, shape (K, S).
        gamma: The discount.
    """
    n_models, gamma = len(draws.weights), min(gamma, LARGEST_DISCOUNT)
    found = np.empty((len(policies), n_models))
    if policies.shape[1] > LARGEST_COMPILED:
        for place, policy in enumerate(policies):
            found[place] = (initial * _large_values(draws, policy, gamma)).sum(axis=1)
        return found
    given = draws, policies, initial, gamma, found
    over_chunks(lambda places: _evaluate(places, *given), np.arange(n_models))
    return found


def rounding(n_states: int) -> float:
    """Return which share of a performance a difference may be by rounding alone."""
    return 1e-12 if n_states <= LARGEST_COMPILED else 10.0 * _TOLERANCE


@jit
def _evaluate(places, draws, policies, initial, gamma, found):  # type: ignore[no-untyped-def]
    n_states = policies.shape[1]
    matrix, v = np.empty((n_states, n_states)), np.empty(n_states)
    for place in places:
        for c in range(len(policies)):
            _fill(draws, place, policies[c], gamma, matrix, v)
            eliminate(matrix, v, 0, 1)
            found[c, place] = (initial[place] * v).sum()


@jit
def _fill(draws, place, policy, gamma, matrix, rhs):  # type: ignore[no-untyped-def]
    """Write I - gamma P_pi of a draw, and r_pi."""
    matrix[:] = 0.0
    _add_system(draws, place, policy, gamma, 1.0, matrix, rhs)


@jit
def _add_system(draws, place, policy, gamma, share, matrix, rhs):  # type: ignore[no-untyped-def]
    """Add a share of I - gamma P_pi to a matrix, and write r_pi."""
    n_states, n_actions = policy.shape
    indices, weights = draws.indices[place], draws.weights[place]
    for x in range(n_states):
        row, total = matrix[x], 0.0
        for a in range(n_actions):
            taken = policy[x, a]
            if taken > 0.0:
                total += taken * draws.reward[place, x, a]
                pair = x * n_actions + a
                for k in range(draws.indptr[pair], draws.indptr[pair + 1]):
                    row[indices[k]] -= share * gamma * taken * weights[k]
        row[x] += share
        rhs[x] = total


@one_blas_thread()
def _large_values(draws: Draws, policy: Array, gamma: float) -> Array:
    """Return values of one policy in K models, shape (K, S)."""
    n_models, n_states = len(draws.weights), len(policy)
    everything = np.arange(n_models)
    mean, rewards = np.zeros((n_states, n_states)), np.empty((n_models, n_states))
    for place in everything:
        _add_system(draws, place, policy, gamma, 1.0 / n_models, mean, rewards[place])
    factor = scipy.linalg.lu_factor(mean, overwrite_a=True, check_finite=False)

    def solved(rhs: Array) -> Array:
        return np.asarray(scipy.linalg.lu_solve(factor, rhs.T, check_finite=False).T)

    v, left, size = solved(rewards), np.empty(rewards.shape), np.inf
    open_ = everything
    for _ in range(_N_CORRECTIONS):
        over_chunks(
            lambda part: _residual(part, draws, policy, gamma, rewards, v, left), open_,
            are_long=True,
        )  # fmt: skip
        step = solved(left[open_])
        v[open_] += step
        size = np.abs(step).max(axis=1)
        open_ = open_[~(size <= _TOLERANCE * (1.0 + np.abs(v[open_]).max(axis=1)))]
        if not len(open_):
            return v
    for place in open_:
        matrix = np.zeros((n_states, n_states))
        _add_system(draws, place, policy, gamma, 1.0, matrix, rewards[place])
        v[place] = scipy.linalg.solve(matrix, rewards[place], check_finite=False)
    return v


@one_blas_thread()
def values_and_visits(
    model: Draws, policies: Array, initial: Array, gamma: float
) -> tuple[Array, Array]:
    """Return values and discounted visits of C policies in one model, shapes (C, S).

    Args:
        model: A single draw.
        policies: Shape (C, S, A).
        initial: Distribution of the first state, shape (S,).
        gamma: The discount, below 1.
    """
    values, visits = np.empty(policies.shape[:2]), np.empty(policies.shape[:2])
    n_states = policies.shape[1]
    if n_states <= LARGEST_COMPILED:
        _solve_small(model, policies, initial, gamma, values, visits)
        return values, visits
    for place, policy in enumerate(policies):
        matrix, rewards = np.zeros((n_states, n_states)), np.empty(n_states)
        _add_system(model, 0, policy, gamma, 1.0, matrix, rewards)
        factor = scipy.linalg.lu_factor(matrix, overwrite_a=True, check_finite=False)
        values[place] = scipy.linalg.lu_solve(factor, rewards, check_finite=False)
        visits[place] = scipy.linalg.lu_solve(factor, initial, trans=1, check_finite=False)
    return values, visits


@jit
def _solve_small(model, policies, initial, gamma, values, visits):  # type: ignore[no-untyped-def]
    n_states = policies.shape[1]
    matrix, turned = np.empty((n_states, n_states)), np.empty((n_states, n_states))
    for place in range(len(policies)):
        _fill(model, 0, policies[place], gamma, matrix, values[place])
        for x in range(n_states):
            visits[place, x] = initial[x]
            for y in range(n_states):
                turned[y, x] = matrix[x, y]
        eliminate(matrix, values[place], 0, 1)
        eliminate(turned, visits[place], 0, 1)


@one_blas_thread()
def gains_by_state(
    draws: Draws, place: int, policy: Array, baseline: Array, start: Array, gamma: float
) -> Array:
    """Return what each state adds to a gain in one model, shape (S,).

    By the performance-difference lemma, how often the policy visits a state times what it does
    there better than the baseline would: they sum to the gain.
    """
    gamma, n_states = min(gamma, LARGEST_DISCOUNT), len(policy)
    systems = []
    for table in (policy, baseline):
        matrix, rewards = np.zeros((n_states, n_states)), np.empty(n_states)
        _add_system(draws, place, table, gamma, 1.0, matrix, rewards)
        systems.append((matrix, rewards))
    (of_policy, paid), (of_baseline, paid_baseline) = systems
    v = scipy.linalg.solve(of_baseline, paid_baseline, check_finite=False)
    visits = scipy.linalg.solve(of_policy.T, start, check_finite=False)
    # r_pi + gamma P_pi V_b - V_b: one step of the policy, then the baseline.
    return np.asarray(visits * (paid - of_policy @ v))


@jit
def _residual(places, draws, policy, gamma, rewards, v, left):  # type: ignore[no-untyped-def]
    """Write r + gamma P V - V."""
    n_states, n_actions = policy.shape
    for place in places:
        indices, weights = draws.indices[place], draws.weights[place]
        for x in range(n_states):
            total = rewards[place, x] - v[place, x]
            for a in range(n_actions):
                taken = gamma * policy[x, a]
                if taken > 0.0:
                    pair = x * n_actions + a
                    for k in range(draws.indptr[pair], draws.indptr[pair + 1]):
                        total += taken * weights[k] * v[place, indices[k]]
            left[place, x] = total
