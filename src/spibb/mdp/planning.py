"""Policy iteration: the one loop behind every algorithm, and optimal planning with it.

Evaluate the policy, improve it state by state, repeat. The loop runs a batch of problems
at once and drops each as it converges; what "improve" means is the caller's.

Stopping rule (the paper's, made relative): the Frobenius norm of the change in Q falls below
1e-10 * max(1, norm of Q), or no row of the policy changes; of large models, the largest change
below 1e-10 of the largest value, or within the error of the values. A cap that stops it first is a
status.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.blas import one_blas_thread
from spibb.errors import ModelError, SettingsError
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import Evaluation, Values, evaluate_batch, is_large, update_values
from spibb.mdp.greedy import improve_greedily
from spibb.mdp.inexact import plan_large
from spibb.mdp.large import TOLERANCE
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy
from spibb.progress import Progress, tell

DEFAULT_CAP = 1_000

# (problems, q, policy) -> changed: improve the rows of these problems in place.
# problems (K,) are places in the batch; q and policy are of shape (B, S, A).
Improve = Callable[[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]], NDArray[np.bool_]]


class Status(Enum):
    """How a run ended; the value is advice for the reader."""

    CONVERGED = "The policy is a fixed point of the improvement step."
    ONE_STEP = "One improvement step was asked for and done."
    CHOSEN = "The best of several candidates was chosen; the result lists them all."
    BASELINE_KEPT = "No candidate passed the safety test, so the baseline is returned."
    MAX_ITERATIONS = (
        "Stopped by max_iterations before it converged; the policy is valid, but raise the cap."
    )
    NOT_TERMINATING = (
        "With gamma = 1 a policy met on the way never ends in the estimated model; the last "
        "policy that ends is returned. Use gamma < 1, or a longer log."
    )

    @property
    def is_success(self) -> bool:
        """Whether the run did all that was asked of it."""
        return self not in (Status.MAX_ITERATIONS, Status.NOT_TERMINATING)


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search returns for a batch of B problems.

    Attributes:
        policy: Shape (B, S, A).
        v: Values of the policies in the models, shape (B, S).
        q: Values of the policies in the models, shape (B, S, A).
        n_iterations: Improvement steps, shape (B,).
        status: How each search ended, shape (B,).
        findings: What else the search found out about each problem, for the certificate.
    """

    policy: NDArray[np.float64]
    v: NDArray[np.float64]
    q: NDArray[np.float64]
    n_iterations: NDArray[np.int64]
    status: NDArray[np.object_]
    findings: Sequence[Any] | None = None


def policy_iteration(
    batch: ModelBatch,
    start: NDArray[np.float64],
    improve: Improve,
    *,
    first: Values | None = None,
    max_iterations: int | None = None,
) -> SearchResult:
    """Improve ``start`` in every model of the batch until it no longer changes.

    Args:
        batch: The models.
        start: Policies to start from, shape (B, S, A).
        improve: The improvement step.
        first: What ``evaluate_batch(batch, start)`` returned, if it is known already.
        max_iterations: Improvement steps at most; 1 is "one-step". None: 1,000.
    """
    cap = checked_cap(max_iterations)
    v, q, ends = first or evaluate_batch(batch, start)
    v, q, policy = (batch.place_kept(part) for part in (v, q, start))
    n_iterations = np.zeros(len(policy), dtype=np.int64)
    status = np.full(len(policy), Status.ONE_STEP if cap == 1 else Status.MAX_ITERATIONS, object)
    status[~ends] = Status.NOT_TERMINATING
    active = np.flatnonzero(ends).astype(np.int64)
    for _ in range(cap):
        if len(active) == 0:
            break
        before = policy[active] if batch.gamma == 1.0 else None
        changed = improve(active, q, policy)
        n_iterations[active] += 1
        tell(Progress("a better policy", step=int(n_iterations.max())))
        status[active[~changed]] = Status.CONVERGED
        active = active[changed]
        ends, change, scale = update_values(batch, policy, active, v, q)
        if before is not None and not ends.all():
            policy[active[~ends]] = before[changed][~ends]
            status[active[~ends]] = Status.NOT_TERMINATING
        settled = change <= TOLERANCE * np.maximum(1.0, scale)
        if cap > 1:
            status[active[settled & ends]] = Status.CONVERGED
        active = active[~settled & ends]
    return SearchResult(batch.fetch(policy), batch.fetch(v), batch.fetch(q), n_iterations, status)


def checked_cap(max_iterations: int | None) -> int:
    """Return the cap on improvement steps, or refuse it."""
    if max_iterations is None:
        return DEFAULT_CAP
    is_count = isinstance(max_iterations, int | np.integer) and max_iterations is not True
    if not is_count or max_iterations < 1:
        raise SettingsError(f"max_iterations is {max_iterations!r}", expected="an integer >= 1")
    return int(max_iterations)


@one_blas_thread()
def solve(mdp: TabularMDP) -> Evaluation:
    """Compute an optimal policy and its values.

    Beyond 2,000 states `error` bounds how far they are from the policy's values, and for gamma < 1
    from the optimal ones too.

    Example:
        Staying pays 1 a step, leaving pays 5 once.

        >>> mdp = TabularMDP(transition=[[[1, 0.0], [0, 1.0]], [[0, 1.0], [0, 1.0]]],
        ...                  reward=[[1.0, 5.0], [0, 0]], gamma=0.5, terminal=[False, True])
        >>> solve(mdp).policy.probabilities[0], float(solve(mdp).v[0])
        (array([0., 1.]), 5.0)
    """
    batch = ModelBatch.stack([mdp])
    if is_large(mdp.n_states) and mdp.gamma < 1.0:
        plan = plan_large(batch)
        policy = TabularPolicy(np.eye(mdp.n_actions)[plan.actions])
        return Evaluation(policy, plan.v, plan.q, float(mdp.initial @ plan.v), plan.error)
    done = solve_batch(batch)
    if not done.status[0].is_success:
        raise ModelError(f"no optimal policy was found: {done.status[0].value}")
    policy = TabularPolicy(done.policy[0])
    return Evaluation.of(mdp, policy, done.v[0], done.q[0])


def solve_batch(batch: ModelBatch) -> SearchResult:
    """Compute optimal policies of a batch of models by policy iteration from uniform ones.

    Args:
        batch: The models.
    """
    return policy_iteration(batch, np.full(batch.shape, 1.0 / batch.shape[2]), _greedy)


def _greedy(
    problems: NDArray[np.int64], q: NDArray[np.float64], policy: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Move to the best actions, but only where they are better than the policy in place."""
    return np.array([improve_greedily(policy[k], q[k]) for k in problems], dtype=np.bool_)
