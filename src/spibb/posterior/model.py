"""The posterior model of a log: what follows each action, what it pays, and how sure that is.

One model serves choice, report and sample size. Its parts, each in a module of its own:

* Rewards and successors of a pair are shrunk by one pseudo-count, towards the mean of its state
  (`spibb.posterior.pseudo_counts`). An effect and its price are believed to the same degree.
* Rows far from the mean of their state are rare events, with rates of their own
  (`spibb.posterior.rare_events`).
* Losses that the log has not shown yet have prior mass (`spibb.posterior.unseen_losses`).
* States that were never left pay the least reward for ever. The least reward is the declared one,
  or else the smallest mean reward of a state.

The pseudo-counts need values V, and V needs the model. Both are computed by turns, twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spibb.compiled.blas import one_blas_thread
from spibb.errors import SettingsError
from spibb.mdp.batch import ModelArrays, Rows
from spibb.mdp.evaluation import LARGEST_DENSE
from spibb.posterior.pseudo_counts import (
    PSEUDO_COUNTS,
    Mixture,
    mix_groups,
    outcome_likelihood,
    prior_of_pseudo_counts,
)
from spibb.posterior.rare_events import RareEvents, far_steps, likeness, reward_steps, sizes
from spibb.posterior.settings import ModelSettings
from spibb.posterior.steps import PairSums, Steps
from spibb.problem import Problem

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

# Without a discount a policy may never end: its values would be infinite.
LARGEST_DISCOUNT = 1.0 - 1e-6
# Entries of a dense table of transitions that is kept, to evaluate many policies at once.
_DENSE_ENTRIES = 4_000_000
# Degrees of freedom from which on the spread within pairs is known.
_FEW = 10.0
_N_ROUNDS = 2
_MOST_EVENTS = 0.95
# The least number of rows by which the mean of a state is known.
_LEAST_ROWS = 0.25


def check_size(problem: Problem) -> None:
    """Refuse problems that are too large for a linear system a policy."""
    if problem.counts.n_states > LARGEST_DENSE:
        raise SettingsError(
            f"risk of {problem.counts.n_states:,} states",
            expected=f"at most {LARGEST_DENSE:,}: each policy is a linear system",
            hint="group states, or use an algorithm with a setting of your own",
        )


class Values(NamedTuple):
    """Values of K policies in the mean model.

    Attributes:
        v: V(x), shape (K, S).
        visits: Discounted visits of states, shape (K, S).
    """

    v: Array
    visits: Array


class _Bulk(NamedTuple):
    """How means of pairs are shrunk: averages over the posterior of the pseudo-count m.

    Attributes:
        data_share: Share of a pair's own mean, shape (S, A).
        weights: Of each pair in the mean of its state, by m, shape (M, S, A).
        prior_share: Share of that mean in a pair, by m, times the probability of m.
        by_pair: Variance of a pair's mean, in variances of an outcome, shape (S, A).
        unknown: Share of the prior in a pair, by m.
        by_state: Variance of a state's mean, by m, times the probability of m, shape (M, S).
    """

    data_share: Array
    weights: Array
    prior_share: Array
    by_pair: Array
    unknown: Array
    by_state: Array

    @classmethod
    def of(cls, n: Array, q: Array) -> _Bulk:
        """Average over m.

        Args:
            n: Rows, shape (S, A).
            q: Posterior of m, shape (M, S).
        """
        m, q = PSEUDO_COUNTS[:, None, None], q[:, :, None]
        known, w = n / (n + m), n * m / (n + m)
        total = w.sum(axis=2, keepdims=True)
        return cls(
            (q * known).sum(axis=0),
            w / np.maximum(total, 1e-300),
            q * (1.0 - known),
            (q / (n + m)).sum(axis=0),
            1.0 - known,
            (q / np.maximum(total, _LEAST_ROWS))[:, :, 0],
        )


@dataclass(frozen=True, eq=False)
class PosteriorModel:
    """The fitted model of one problem; see the module.

    Attributes:
        problem: The log and its baseline.
        settings: Prior and settings.
        gamma: The discount, below 1.
        rows: Sums of all rows by pair.
        bulk: Sums of the rows that are no rare events.
        events: Rare events by sign, and by what they are due to: reward, or what follows.
        likelihood: Log likelihood of the pseudo-counts by state, shape (M, S).
        pseudo_counts: Posterior of the pseudo-count of states.
        variance: Prior variance of an outcome.
        variance_rows: Pseudo-count of that prior.
        least: The least reward, declared or seen.
        frontier_reward: What states that were never left pay for ever.
    """

    problem: Problem
    settings: ModelSettings
    gamma: float
    rows: PairSums
    bulk: PairSums
    events: tuple[RareEvents, ...]
    likelihood: Array
    pseudo_counts: Mixture
    variance: float
    variance_rows: float
    least: float
    frontier_reward: float

    @classmethod
    @one_blas_thread()
    def of(cls, problem: Problem, settings: ModelSettings | None = None) -> PosteriorModel:
        """Fit the model.

        Args:
            problem: The log and its baseline.
            settings: Prior and settings; None: the default.
        """
        check_size(problem)
        settings = settings or ModelSettings()
        steps = Steps.of(problem)
        rows, gamma = PairSums.of(steps), min(problem.gamma, LARGEST_DISCOUNT)
        baseline = problem.baseline.probabilities
        model = _start(problem, settings, gamma, rows)
        for _ in range(_N_ROUNDS):
            v = model.evaluate(baseline[None]).v[0]
            model = model._fitted(steps, v)
        return model

    def with_settings(self, settings: ModelSettings) -> PosteriorModel:
        """Return the model of the same problem with another prior."""
        given = replace(
            self.settings,
            prior_losses=settings.prior_losses,
            prior_groups=settings.prior_groups,
            dispersion=settings.dispersion,
        )
        if given == settings:  # these are no part of the fit
            return replace(self, settings=settings)
        if replace(given, equal_actions=settings.equal_actions) == settings:
            prior = prior_of_pseudo_counts(settings.equal_actions)
            mixture = mix_groups(self.likelihood, prior)
            return replace(self, settings=settings, pseudo_counts=mixture)
        return PosteriorModel.of(self.problem, settings)

    def _fitted(self, steps: Steps, v: Array) -> PosteriorModel:
        """Return the model fitted to the outcomes r + gamma V(x').

        Args:
            steps: The steps of the log.
            v: Values of the baseline, shape (S,).
        """
        gamma, settings = self.gamma, self.settings
        up, down, off = far_steps(steps, v, gamma, settings.event_threshold)
        has_events, by_reward = up.any() or down.any(), reward_steps(steps, v, gamma)
        bulk = PairSums.of(steps, ~(up | down)) if has_events else self.rows
        scatter = np.maximum(bulk.scatter(v[None], v[None], gamma)[0], 0.0)
        mean = bulk.mean(v, gamma)
        variance = _variance(bulk, mean, scatter, steps)
        likelihood, variance_rows = outcome_likelihood(bulk, mean, scatter, variance)
        events = [
            RareEvents.of(
                PairSums.of(steps, of),
                self.rows.n,
                settings,
                is_loss=is_loss,
                alike=likeness(steps, v, gamma, of),
            )
            for is_far, is_loss in ((up, False), (down, True))
            for is_one_kind in (is_far & by_reward, is_far & ~by_reward)
            for of in sizes(np.where(is_one_kind, off, 0.0), settings.event_threshold)
            if of.any()
        ]
        return replace(
            self,
            bulk=bulk,
            events=tuple(events),
            likelihood=likelihood,
            pseudo_counts=mix_groups(likelihood, prior_of_pseudo_counts(settings.equal_actions)),
            variance=variance,
            variance_rows=variance_rows,
        )

    @cached_property
    def is_seen(self) -> Flags:
        """States in which something was done, shape (S,)."""
        return self.rows.of_state > 0.0

    @cached_property
    def is_unentered(self) -> Flags:
        """States in which nothing was done, though the process may go on there, shape (S,)."""
        return ~self.is_seen & ~self.problem.counts.terminal

    @cached_property
    def initial(self) -> Array:
        """Distribution of the first state."""
        known = self.problem.declared.initial
        return self.problem.counts.initial if known is None else known

    @cached_property
    def shrinkage(self) -> _Bulk:
        """How means of pairs are shrunk."""
        return _Bulk.of(self.bulk.n, self.pseudo_counts.mean)

    @cached_property
    def event_rates(self) -> tuple[Array, ...]:
        """Rates of events by pair; together they are below 1."""
        total = np.zeros(self.rows.n.shape)
        for one in self.events:
            total = total + one.rate * one.known
        scale = np.minimum(total, _MOST_EVENTS) / np.maximum(total, 1e-300)
        return tuple(one.rate * one.known * scale for one in self.events)

    @cached_property
    def bulk_share(self) -> Array:
        """Probability that a row of a pair is no rare event, shape (S, A)."""
        return 1.0 - sum(self.event_rates, np.zeros(self.rows.n.shape))

    @cached_property
    def _stay(self) -> float:
        """How likely the process goes on in a state that was never left."""
        if self.problem.gamma < 1.0:
            return 1.0
        return 1.0 - self.problem.counts.n_ended / float(self.rows.n.sum())

    def bulk_mean(self, v: Array) -> Array:
        """Return the posterior mean of r + gamma V(x') of rows that are no rare events.

        Args:
            v: Values, shape (K, S).
        """
        return self._shrunk(self.bulk.mean(v, self.gamma))

    def _shrunk(self, own: Array) -> Array:
        """Return posterior means of pairs from their own means, shape (K, S, A)."""
        bulk = self.shrinkage
        of_state = np.einsum("mxb,kxb->kmx", bulk.weights, own, optimize=True)
        prior = np.einsum("mxa,kmx->kxa", bulk.prior_share, of_state, optimize=True)
        return np.asarray(bulk.data_share * own + prior)

    def q(self, v: Array) -> Array:
        """Return the posterior mean of r + gamma V(x') of each pair, shape (K, S, A).

        Args:
            v: Values, shape (K, S).
        """
        found = self.bulk_share * self.bulk_mean(v)
        for one, rate in zip(self.events, self.event_rates, strict=True):
            found += rate * one.worth(v, self.gamma)
        found[:, ~self.is_seen] = 0.0
        x = self.is_unentered
        found[:, x] = (self.frontier_reward + self.gamma * self._stay * v[:, x])[:, :, None]
        return found

    def transition(self, weights: Array) -> sp.csr_array:
        """Return sums of P(x' | x, a) over actions, with weights, sparse of shape (S, S).

        Args:
            weights: Of each pair, shape (S, A); a policy gives its transitions.
        """
        bulk, (n_states, n_actions) = self.shrinkage, weights.shape
        of_bulk = weights * self.bulk_share * self.is_seen[:, None]
        by_m = np.einsum("mxa,xa->mx", bulk.prior_share, of_bulk, optimize=True)
        coefficient = of_bulk * bulk.data_share
        coefficient = coefficient + np.einsum("mx,mxb->xb", by_m, bulk.weights, optimize=True)
        coefficient /= np.maximum(self.bulk.n, 1.0)
        count = self.bulk.count
        scaled = count.data * np.repeat(coefficient.ravel(), np.diff(count.indptr))
        found = sp.csr_array((scaled, count.indices, count.indptr[::n_actions]), (n_states,) * 2)
        for one, rate in zip(self.events, self.event_rates, strict=True):
            found = found + one.successors(weights * rate * self.is_seen[:, None])
        stay = np.where(self.is_unentered, self._stay * weights.sum(axis=1), 0.0)
        return sp.csr_array(found + sp.diags_array(stay))

    @cached_property
    def reward(self) -> Array:
        """Posterior mean of the reward of each pair, shape (S, A)."""
        return np.asarray(self.q(np.zeros((1, self.rows.n.shape[0])))[0])

    @cached_property
    def _dense(self) -> Array | None:
        """P(x' | x, a) as a table (S, A, S), where it is small."""
        n_states, n_actions = self.rows.n.shape
        if n_states**2 * n_actions > _DENSE_ENTRIES:
            return None

        def of(sums: PairSums) -> Array:
            return np.moveaxis(sums.count.toarray().reshape(n_states, n_actions, n_states), 2, 0)

        found = self.bulk_share * self._shrunk(of(self.bulk) / np.maximum(self.bulk.n, 1.0))
        for one, rate in zip(self.events, self.event_rates, strict=True):
            found += rate * one.shrunk(of(one.sums))
        found *= self.is_seen[:, None]
        x = np.flatnonzero(self.is_unentered)
        found[x, x] = self._stay
        return np.ascontiguousarray(np.moveaxis(found, 0, 2))

    def _by_action(self) -> list[sp.csr_array]:
        """Return P(x' | x, a) of each action, sparse of shape (S, S)."""
        shape = self.rows.n.shape
        return [self.transition(np.broadcast_to(row, shape)) for row in np.eye(shape[1])]

    @one_blas_thread()
    def evaluate(self, policies: Array) -> Values:
        """Return values and visits of K policies in the mean model.

        Args:
            policies: Shape (K, S, A).
        """
        reward = np.einsum("kxa,xa->kx", policies, self.reward)
        eye, n_policies = np.eye(policies.shape[1]), len(policies)
        if self._dense is not None:
            moved = np.matmul(policies.transpose(1, 0, 2), self._dense).transpose(1, 0, 2)
            system = eye - self.gamma * moved
            v = np.linalg.solve(system, reward[:, :, None])[:, :, 0]
            start = np.broadcast_to(self.initial[:, None], (n_policies, len(eye), 1))
            visits = np.linalg.solve(system.transpose(0, 2, 1), start)[:, :, 0]
            return Values(v, visits)
        v, visits = np.empty(reward.shape), np.empty(reward.shape)
        for k, policy in enumerate(policies):
            system = eye - self.gamma * self.transition(policy).toarray()
            v[k] = np.linalg.solve(system, reward[k])
            visits[k] = np.linalg.solve(system.T, self.initial)
        return Values(v, visits)

    @cached_property
    def baseline_values(self) -> Values:
        """Values of the baseline."""
        return self.evaluate(self.problem.baseline.probabilities[None])

    @cached_property
    def mean_model(self) -> ModelArrays:
        """The mean of the posterior as a model, on which algorithms can plan."""
        n_states, n_actions = self.rows.n.shape
        order = np.arange(n_states * n_actions).reshape(n_actions, n_states).T.ravel()
        rows = sp.csr_array(sp.vstack(self._by_action(), format="csr")[order])
        rows.sum_duplicates()
        ending = np.clip(1.0 - np.asarray(rows.sum(axis=1)), 0.0, 1.0).reshape(self.rows.n.shape)
        ending[ending < 1e-9] = 0.0
        return ModelArrays(
            Rows(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data),
            self.reward, ending, self.initial, self.problem.gamma,
        )  # fmt: skip

    def spread(self, v: Array, w: Array) -> Array:
        """Return covariances of r + gamma V and r + gamma W within pairs, shape (K, S).

        Args:
            v: Values V, shape (K, S).
            w: Values W, shape (K, S) or (1, S).
        """
        scatter = self.bulk.scatter(v, w, self.gamma).sum(axis=2)
        if v is w:
            scatter = np.maximum(scatter, 0.0)
        freedom = np.maximum(self.bulk.n - 1.0, 0.0).sum(axis=1)
        pooled = self.variance_rows * scatter.sum(axis=1) / max(freedom.sum(), 1.0)
        found = (pooled[:, None] + scatter) / (self.variance_rows + freedom)
        return np.asarray(np.maximum(found, self.variance) if freedom.sum() < _FEW else found)


def _frontier_reward(problem: Problem, rows: PairSums) -> float:
    """Return the declared least reward, or the smallest mean reward of a state.

    Where the process was seen to end, it is at most 0, which an end is worth. Elsewhere 0 is a
    reward like any other: nothing may depend on a constant that is added to all rewards.
    """
    if not problem.values.is_observed:
        return float(problem.values.low)
    seen = rows.of_state > 0.0
    means = rows.reward.sum(axis=1)[seen] / rows.of_state[seen]
    least = float(means.min())
    return min(least, 0.0) if problem.counts.n_ended else least


def _start(
    problem: Problem, settings: ModelSettings, gamma: float, rows: PairSums
) -> PosteriorModel:  # fmt: skip
    """Return the model in which all actions of a state are alike."""
    q = np.zeros((len(PSEUDO_COUNTS), rows.n.shape[0]))
    q[-1] = 1.0
    mixture, least = Mixture(q, np.ones(1), q[None]), float(problem.values.low)
    frontier = _frontier_reward(problem, rows)
    return PosteriorModel(
        problem, settings, gamma, rows, rows, (), np.zeros(q.shape), mixture, 1.0, 1.0, least,
        frontier,
    )  # fmt: skip


def _variance(bulk: PairSums, mean: Array, scatter: Array, steps: Steps) -> float:
    """Return the variance of outcomes within pairs; of few rows, that within states."""
    freedom = float(np.maximum(bulk.n - 1.0, 0.0).sum())
    if freedom >= _FEW:
        found = float(scatter.sum()) / freedom
    else:
        rows = np.maximum(bulk.of_state, 1.0)
        centre = ((bulk.n * mean).sum(axis=1) / rows)[:, None]
        between = float((bulk.n * (mean - centre) ** 2).sum())
        free = max(float(np.maximum(bulk.of_state - 1.0, 0.0).sum()), 1.0)
        found = (float(scatter.sum()) + between) / free
    return max(found, 1e-10 * max(float(np.ptp(steps.reward)) ** 2, 1e-12))
