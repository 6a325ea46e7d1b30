"""DUIPI: diagonal approximation of uncertainty incorporating policy iteration.

Hans and Udluft (ICANN 2009, ICMLA 2011), with the changes of Scholl et al. (ICAART 2022). Values
and their variances are iterated together, correlations left out:

    V    = sum_a pi Q             VarV = sum_a pi^2 VarQ
    Q    = R^ + g sum_k P_k V_k   VarQ = sum_k [g^2 P_k^2 VarV_k + (R^ + g V_k)^2 VarP_k]

over the outcomes k of a pair, ending among them with V = 0. In sweep t the action of largest
Q - xi sqrt(VarQ) gains min(1 / t, 1 - pi) of probability and the others are rescaled.

Guarantee: none. The normal approximation reads Q - xi sqrt(VarQ) as a quantile, but the variances
are diagonal and not even invariant to a shift of the rewards.

Choices: VarP = P (1 - P) / (N - 1), or 1 / 4 where N = 1 (frequentist), or the variance of a
Dirichlet posterior with `prior` on every outcome (Bayesian); rewards are taken as known; a pair
that is unobserved is not taken, unless nothing was tried in its state: the baseline stays there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spibb.algorithms.base import Algorithm, Rng
from spibb.compiled.jit import jit
from spibb.compiled.threads import over_chunks
from spibb.errors import LARGEST, checked_number
from spibb.mdp.evaluation import evaluate_batch
from spibb.mdp.planning import SearchResult, Status, checked_cap
from spibb.problem import ProblemBatch

_TOLERANCE = 1e-6


@dataclass(frozen=True, kw_only=True)
class DUIPI(Algorithm):
    """Maximise a lower quantile of the value, by a diagonal approximation.

    Args:
        xi: How many standard deviations to stay below the estimate.
        prior: Dirichlet prior on every outcome; 0 is frequentist.
        max_iterations: Sweeps at most.

    Example:
        Rewards are known and both actions end, so there is nothing to be uncertain about.

        >>> from spibb import Log, TabularPolicy
        >>> log = Log.from_arrays(state=[0] * 4, action=[0, 0, 1, 1], reward=[1.0, 1.0, 2.0, 2.0],
        ...                       terminated=[True] * 4, episode=[0, 1, 2, 3])
        >>> DUIPI(xi=1.0).improve(
        ...     log, baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.9).policy.probabilities
        array([[0., 1.]])
    """

    xi: float = 1.0
    prior: float = 0.0
    max_iterations: int = 300
    id: ClassVar[str] = "duipi"

    def __post_init__(self) -> None:
        checked_number(self.xi, "xi", "a finite number", least=-LARGEST, most=LARGEST)
        checked_number(self.prior, "prior", "a number >= 0", least=0, most=LARGEST)
        checked_cap(self.max_iterations)

    def search(self, problems: ProblemBatch, rng: Rng = None) -> SearchResult:
        """Sweep values, variances and policies together."""
        batch = problems.models
        n_sa, settings = problems.n_sa.astype(np.float64), (float(self.xi), float(self.prior))
        model = batch.indptr, batch.indices, batch.data, batch.reward, batch.ending, n_sa
        policy = problems.baseline.copy()
        n_sweeps = np.zeros(len(policy), dtype=np.int64)
        settled = np.zeros(len(policy), dtype=np.bool_)
        found = policy, n_sweeps, settled
        over_chunks(
            lambda places: _sweep_problems(
                places, model, batch.gamma, *settings, self.max_iterations, *found
            ),
            np.arange(len(policy)),
        )
        v, q, ends = evaluate_batch(batch, policy)
        status = np.full(len(policy), Status.MAX_ITERATIONS, dtype=object)
        status[settled] = Status.CONVERGED
        return problems.kept_where_endless(SearchResult(policy, v, q, n_sweeps, status), ends)


@jit
def _sweep_problems(places, model, gamma, xi, prior, cap, policy, n_sweeps, settled):  # type: ignore[no-untyped-def]
    n_sa = model[-1]
    for problem in places:
        q, var_q = np.zeros(n_sa.shape[1:]), np.zeros(n_sa.shape[1:])
        for sweep in range(1, cap + 1):
            n_sweeps[problem] = sweep
            v = (policy[problem] * q).sum(axis=1)
            var_v = (policy[problem] ** 2 * var_q).sum(axis=1)
            change = _back_up(problem, model, gamma, prior, v, var_v, q, var_q)
            moved = _shift(policy[problem], n_sa[problem], q, var_q, xi, sweep)
            scale = max(1.0, np.abs(q).max())
            if change <= _TOLERANCE * scale and moved <= _TOLERANCE:
                settled[problem] = True
                break


@jit
def _back_up(problem, model, gamma, prior, v, var_v, q, var_q):  # type: ignore[no-untyped-def]
    """Write Q and VarQ; return the largest change in Q."""
    indptr, indices, data, reward, ending, n_sa = model
    _, n_states, n_actions = n_sa.shape
    n_outcomes = n_states + 1.0
    sum_v, sum_square, sum_var = v.sum(), (v * v).sum(), var_v.sum()
    change = 0.0
    for x in range(n_states):
        for a in range(n_actions):
            n, r = n_sa[problem, x, a], reward[problem, x, a]
            if n == 0.0:
                continue
            total = n + prior * n_outcomes
            rest = prior / total  # probability of an outcome that was not seen
            mean, unseen = gamma * rest * sum_v, _var(rest, n, total, prior)
            # Every outcome starts as unseen; the seen ones are put right below.
            square = n_outcomes * r * r + 2.0 * r * gamma * sum_v + gamma**2 * sum_square
            var = unseen * square + gamma**2 * rest**2 * sum_var
            pair = (problem * n_states + x) * n_actions + a
            for k in range(indptr[pair], indptr[pair + 1]):
                y = indices[k]
                p = (n * data[k] + prior) / total
                mean += gamma * (p - rest) * v[y]
                var += (_var(p, n, total, prior) - unseen) * (r + gamma * v[y]) ** 2
                var += gamma**2 * (p**2 - rest**2) * var_v[y]
            p = (n * ending[problem, x, a] + prior) / total
            var += (_var(p, n, total, prior) - unseen) * r**2
            change = max(change, abs(r + mean - q[x, a]))
            q[x, a], var_q[x, a] = r + mean, max(0.0, var)
    return change


@jit
def _var(p, n, total, prior):  # type: ignore[no-untyped-def]
    """Return the variance of an estimated probability."""
    if prior > 0.0:
        return p * (1.0 - p) / (total + 1.0)
    if p <= 0.0:
        return 0.0
    return p * (1.0 - p) / (n - 1.0) if n > 1.0 else 0.25


@jit
def _shift(policy, n_sa, q, var_q, xi, sweep):  # type: ignore[no-untyped-def]
    """Give the best action by Q - xi sd min(1 / sweep, 1 - pi); return the most that moved."""
    most = 0.0
    for x in range(policy.shape[0]):
        best = -1
        worth = 0.0
        for a in range(policy.shape[1]):
            if n_sa[x, a] > 0.0:
                value = q[x, a] - xi * np.sqrt(var_q[x, a])
                if best < 0 or value > worth:
                    best = a
                    worth = value
        if best < 0:
            continue
        left = 1.0 - policy[x, best]
        gain = min(1.0 / sweep, left)
        if gain <= 0.0:
            continue
        grown = policy[x, best] + gain
        policy[x] *= (left - gain) / left
        policy[x, best] = grown
        most = max(most, gain)
    return most
