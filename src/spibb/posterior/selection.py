"""What was chosen because it looked good errs on one side.

A policy made of a log takes in each state what the log happens to favour. Luck of many decisions
does not cancel then: it is what they were taken for. With A(x, a) the advantage of an action over
the baseline and s(x, a) the deviation of its error, a gain is sum_x d(x) sum_a (pi - b)(x, a) A(x,
a), and if the errors of all that is done more often than before were of one sign, it would err by

    sum_x d(x) sum_a (pi(a | x) - b(a | x))_+ s(x, a)

and not by the root of a sum of squares. Where actions are all alike, the best of six of them looks
better by 1.3 s, so that a policy expects one to two times this sum, however many states it has, of
gains that are not there; where actions truly differ it expects several times as much. How much of
it counts as a deviation of its own, in a choice and in a report, says spibb.posterior.moments.

To first order, with e(x, a) the error of what follows a pair, of variance v(x, a), G = (I - gamma
P_b)^-1 the visits of the baseline, and D(x, a) = P(. | x, a) - P_b(. | x),

    error of A(x, a) = e(x, a) - sum_b b(b | x) e(x, b) + gamma D(x, a) G sum_b b(b | .) e(., b).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spibb.compiled.blas import one_blas_thread
from spibb.mdp.batch import ModelArrays
from spibb.problem import Problem

Array = NDArray[np.float64]

# Numbers that are held at once.
_AT_ONCE = 4_000_000


def following(model: ModelArrays) -> sp.csr_array:
    """Return what follows pairs in a model, shape (S * A, S)."""
    rows, n_states = model.rows, len(model.reward)
    return sp.csr_array((rows.data, rows.indices, rows.indptr), (model.reward.size, n_states))


def one_sided(errors: Array, tried: Array, visits: Array) -> Array:
    """Return by how much gains of C policies err if all that they do more often errs alike, (C,).

    Args:
        errors: Deviations of the errors of advantages, shape (S, A).
        tried: The baseline, then the policies, shape (1 + C, S, A).
        visits: Their discounted visits, shape (1 + C, S).
    """
    more = np.maximum(tried[1:] - tried[0], 0.0)
    return np.asarray((visits[1:, :, None] * more * errors).sum(axis=(1, 2)))


def owed_to_once(paid_once: Array, tried: Array, visits: Array) -> Array:
    """Return what gains of C policies owe to what was paid once, (C,); what is left is not set off.

    Args:
        paid_once: What pairs are expected to pay for its sake, shape (S, A).
        tried: The baseline, then the policies, shape (1 + C, S, A).
        visits: Their discounted visits, shape (1 + C, S).
    """
    done = visits[:, :, None] * tried
    return np.asarray((np.maximum(done[1:] - done[0], 0.0) * paid_once).sum(axis=(1, 2)))


@one_blas_thread()
def errors_of_advantages(
    problem: Problem,
    values: Array,
    gamma: float,
    rows: float,
    surer: float,
    *,
    paid_alone: bool = False,
) -> Array:
    """Return s, shape (S, A).

    Args:
        problem: The log and its baseline.
        values: Of the baseline in the shrunk model, shape (S,).
        gamma: The discount, below 1.
        rows: Rows of its surroundings by which the spread of what follows a pair is told, at least.
        surer: Rows that the prior is worth at most where it is asked how well a pair is known.
        paid_alone: Whether only what pairs pay errs, and not what follows them.
    """
    v = _noise(problem, surer)
    if not paid_alone:
        v += _errors_of_what_follows(problem, values, gamma, rows, surer)
    b, model = problem.baseline.probabilities, problem.expected
    n_states, n_actions = b.shape
    p = following(model)
    acting = sp.csr_array(
        (b.ravel(), np.arange(b.size), np.arange(0, b.size + 1, n_actions)), (n_states, b.size)
    )
    p_b = sp.csr_array(acting @ p)
    of_state = (b**2 * v).sum(axis=1)
    g = np.linalg.inv(np.eye(n_states) - gamma * p_b.toarray())
    found = v * (1.0 - 2.0 * b) + of_state[:, None]
    step = max(1, _AT_ONCE // (n_states * n_actions))
    for first in range(0, n_states, step):
        mine = np.arange(first, min(first + step, n_states))
        d_g = (p[first * n_actions : (mine[-1] + 1) * n_actions] @ g).reshape(
            len(mine), n_actions, -1
        )
        d_g -= (p_b[mine] @ g)[:, None]
        found[mine] += gamma**2 * (d_g**2 @ of_state)
        # A pair's own error comes back where its state does.
        back = d_g[np.arange(len(mine)), :, mine]
        found[mine] += 2.0 * gamma * back * (b * v - of_state[:, None])[mine]
    return np.asarray(np.sqrt(np.maximum(found, 0.0)))


def _known(problem: Problem, surer: float) -> Array:
    """Return by how many rows each pair is known, shape (S, A)."""
    return np.asarray(problem.outcomes.n_sa + np.minimum(problem.prior.strength, surer)[:, None])


def _noise(problem: Problem, surer: float) -> Array:
    """Return how much what pairs pay may be otherwise, shape (S, A)."""
    outcomes = problem.outcomes
    return np.where(outcomes.live[:, None], outcomes.variance / _known(problem, surer), 0.0)


def _errors_of_what_follows(
    problem: Problem, values: Array, gamma: float, rows: float, surer: float
) -> Array:
    """Return how much what follows each pair may be worth otherwise, shape (S, A)."""
    outcomes, prior = problem.outcomes, problem.careful_prior
    n, told = outcomes.n_sa, np.maximum(problem.prior.strength, rows)
    pooled = problem.shrunk(prior._replace(strength=told))
    worth = outcomes.by_entry + gamma * np.append(values, 0.0)
    own = outcomes.by_pair - outcomes.by_state[:, None]

    def mean(of: Array) -> Array:
        found = (following(pooled) @ of[:-1]).reshape(n.shape)
        return np.asarray(found + pooled.ending * of[-1])

    seen = sp.csr_array((outcomes.counts, outcomes.indices, outcomes.indptr), (n.size, len(worth)))
    share = n / (n + told[:, None])
    seen_worth = np.asarray(seen @ worth).reshape(n.shape) / (n + told[:, None])
    second = mean(worth**2) + 2.0 * own * seen_worth + share * own**2
    spread = np.maximum(second - (mean(worth) + share * own) ** 2, 0.0)
    return np.where(outcomes.live[:, None], spread / (_known(problem, surer) + 1.0), 0.0)
