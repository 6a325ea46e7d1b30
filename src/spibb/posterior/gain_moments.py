"""Mean and variance of the gains of policies, to first order.

The gain J(pi) - J(b) is a smooth function of what the model does not know. Its mean is the gain in
the mean model. Its variance is a sum over independent errors. Let w and w_b be discounted visits of
a pair under policy and baseline, V and V_b their values. If the mean outcome of pair (x, a) is off
by e for every V in the same way, the gain changes by

    (w (r + gamma V) - w_b (r + gamma V_b)) . e,

so that the variance of r + gamma V and r + gamma V_b within pairs, and their covariance, are what
is needed (`PosteriorModel.spread`). The terms:

* means of pairs, and means of states, which the pairs of a state share;
* the pseudo-counts, in each state, and in all states of a group at once;
* rates of rare events: of pairs, of states and of actions;
* the first state; a baseline that was estimated;
* unseen losses (`spibb.posterior.unseen_losses`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spibb.posterior.gain import Gain
from spibb.posterior.model import PosteriorModel, Values
from spibb.posterior.rare_events import RareEvents
from spibb.posterior.unseen_losses import UnseenLosses

Array = NDArray[np.float64]

# The least variance of an outcome, as a share of its prior variance.
_LEAST_VARIANCE = 1e-3
# Of a performance, or of a variance: a difference that rounding makes.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class GainMoments:
    """Moments of gains under one model.

    Attributes:
        model: The model.
        losses: Its unseen losses.
    """

    model: PosteriorModel
    losses: UnseenLosses

    @classmethod
    def of(cls, model: PosteriorModel) -> GainMoments:
        """Prepare what all policies share."""
        return cls(model, UnseenLosses.of(model))

    def gains(self, policies: Array) -> list[Gain]:
        """Return the gains of K policies, shape (K, S, A)."""
        model = self.model
        of, base = model.evaluate(policies), model.baseline_values
        w = of.visits[:, :, None] * policies
        w_b = base.visits[0][:, None] * model.problem.baseline.probabilities
        q, change = model.q(of.v), of.v - base.v
        mean = change @ model.initial
        variance = self._of_means(w, w_b, of.v)
        variance += self._of_pseudo_counts(w, w_b, of.v)
        for one in model.events:
            variance += self._of_events(one, w, w_b, of.v)
        variance += self._of_start(change)
        variance += self._of_baseline(base)
        variance *= model.settings.dispersion**2
        loss, loss_variance = self.losses.moments(w - w_b, np.maximum(q, self._baseline_q))
        found = []
        least = _ROUNDING * float(np.abs(base.v[0] @ model.initial))
        for k in range(len(policies)):
            if np.array_equal(policies[k], model.problem.baseline.probabilities):
                found.append(Gain(0.0, 0.0))
                continue
            gain = float(mean[k]) if abs(mean[k]) > least else 0.0
            spread = float(np.sqrt(max(variance[k] + loss_variance[k], 0.0)))
            found.append(
                Gain(gain - float(loss[k]), spread, float(loss[k]), float(loss_variance[k]) ** 0.5)
            )
        return found

    @cached_property
    def _baseline_q(self) -> Array:
        return np.asarray(self.model.q(self.model.baseline_values.v)[0])

    @cached_property
    def baseline_spread(self) -> Array:
        """Variance of r + gamma V_b within the pairs of a state, shape (S,)."""
        v = self.model.baseline_values.v
        least = _LEAST_VARIANCE * self.model.variance
        return np.asarray(np.maximum(self.model.spread(v, v)[0], least))

    @cached_property
    def event_spread(self) -> Array:
        """Variance of the mean outcome of a pair, V_b ahead, by its own rates of rare events."""
        model, v = self.model, self.model.baseline_values.v
        off = (one.worth(v, model.gamma) - model.bulk_mean(v) for one in model.events)
        return sum(
            (
                (f[0] * one.known) ** 2 * one.variance
                for f, one in zip(off, model.events, strict=True)
            ),
            np.zeros(model.rows.n.shape),
        )

    def _of_means(self, w: Array, w_b: Array, v: Array) -> Array:
        """Return variances by means of pairs and of states."""
        model, shrinkage = self.model, self.model.shrinkage
        own, base = model.spread(v, v), self.baseline_spread
        both = model.spread(v, model.baseline_values.v)
        u, u_b = w * model.bulk_share, w_b * model.bulk_share
        own, both = own[:, :, None], both[:, :, None]
        most = u**2 * own + u_b**2 * base[:, None]
        by_pair = most - 2.0 * u * u_b * both
        by_pair[:, ~model.is_seen] = 0.0
        by_pair[by_pair <= _ROUNDING * most] = 0.0
        found = (by_pair * shrinkage.by_pair).sum(axis=(1, 2))

        def shared(s: Array) -> Array:
            return np.asarray(np.einsum("mxa,kxa->kmx", shrinkage.unknown, s, optimize=True))

        of_u, of_b = shared(u), shared(u_b[None])
        weight = shrinkage.by_state * model.is_seen
        most = (weight * of_u**2).sum(axis=1) * own[:, :, 0]
        most = most + (weight * of_b**2).sum(axis=1) * base
        common = most - 2.0 * (weight * of_u * of_b).sum(axis=1) * both[:, :, 0]
        common[common <= _ROUNDING * most] = 0.0
        return np.asarray(found + common.sum(axis=1))

    def _of_pseudo_counts(self, w: Array, w_b: Array, v: Array) -> Array:
        """Return variances by what the pseudo-counts may be."""
        model, shrinkage = self.model, self.model.shrinkage
        v_b, mixture = model.baseline_values.v, model.pseudo_counts

        def by_m(visits: Array, mean: Array) -> Array:
            u = visits * model.bulk_share * model.is_seen[:, None]
            of_state = np.einsum("mxb,kxb->kmx", shrinkage.weights, mean, optimize=True)
            unknown = np.einsum("mxa,kxa->kmx", shrinkage.unknown, u, optimize=True)
            known = np.einsum("mxa,kxa->kmx", 1.0 - shrinkage.unknown, u * mean, optimize=True)
            return np.asarray(known + unknown * of_state)

        gains = by_m(w, model.bulk.mean(v, model.gamma))
        gains = gains - by_m(w_b[None], model.bulk.mean(v_b, model.gamma))
        means = np.einsum("lmx,kmx->klx", mixture.parts, gains, optimize=True)
        squares = np.einsum("lmx,kmx->klx", mixture.parts, gains**2, optimize=True)
        totals = means.sum(axis=2)
        within = (squares - means**2).sum(axis=2) @ mixture.weights
        between = totals**2 @ mixture.weights - (totals @ mixture.weights) ** 2
        return np.asarray(np.maximum(within, 0.0) + np.maximum(between, 0.0))

    def _of_events(self, one: RareEvents, w: Array, w_b: Array, v: Array) -> Array:
        """Return variances by rates of rare events."""
        model, v_b = self.model, self.model.baseline_values.v
        off = one.worth(v, model.gamma) - model.bulk_mean(v)
        off_b = one.worth(v_b, model.gamma) - model.bulk_mean(v_b)
        f = (w * off - w_b * off_b) * one.known
        f[:, ~model.is_seen] = 0.0
        prior = f * (1.0 - one.data_share)
        found = (f**2 * one.variance).sum(axis=(1, 2))
        found += prior.sum(axis=1) ** 2 @ one.action_variance
        return np.asarray(found + prior.sum(axis=2) ** 2 @ one.state_variance)

    def _of_start(self, change: Array) -> Array:
        """Return variances by where episodes begin; a declared distribution is known."""
        problem, initial = self.model.problem, self.model.initial
        n_first = float(problem.counts.n_initial.sum())
        if problem.declared.initial is not None or n_first == 0.0:
            return np.zeros(len(change))
        spread = change**2 @ initial - (change @ initial) ** 2
        return np.asarray(np.maximum(spread, 0.0) / (n_first + 1.0))

    def _of_baseline(self, base: Values) -> float:
        """Return the variance by an estimated baseline.

        The rows of its estimate are Dirichlet distributed; their weight is the number of rows of
        the state plus one.
        """
        problem = self.model.problem
        if not problem.baseline.is_estimated:
            return 0.0
        rows = self.model.rows.of_state
        if problem.loggers is not None and problem.log is not None:
            rows = np.bincount(problem.log.state, minlength=len(rows)).astype(np.float64)
        p, q = problem.baseline.probabilities, self._baseline_q
        spread = (p * q**2).sum(axis=1) - (p * q).sum(axis=1) ** 2
        return float((base.visits[0] ** 2 * np.maximum(spread, 0.0) / (rows + 2.0)).sum())

    def by_state(self, policy: Array) -> tuple[Array, Array]:
        """Return mean and deviation of what each state adds to the gain of a policy, shapes (S,).

        By the performance-difference lemma these are the policy's visits of the state, times what
        the policy does there better than the baseline, less the unseen losses of its pairs.

        Args:
            policy: Shape (S, A).
        """
        model, more = self.model, policy - self.model.problem.baseline.probabilities
        visits, shrinkage = model.evaluate(policy[None]).visits[0], self.model.shrinkage
        mean = visits * (more * self._baseline_q).sum(axis=1)
        u = more * model.bulk_share
        variance = (u**2 * shrinkage.by_pair).sum(axis=1)
        shared = np.einsum("mxa,xa->mx", shrinkage.unknown, u, optimize=True)
        variance += (shrinkage.by_state * shared**2).sum(axis=0)
        variance *= self.baseline_spread
        variance += (more**2 * self.event_spread).sum(axis=1)
        variance *= model.settings.dispersion**2
        loss, loss_variance = self.losses.by_state(more, self._baseline_q)
        mean, variance = mean - visits * loss, variance + loss_variance
        variance[~model.is_seen] = 0.0
        return mean, visits * np.sqrt(np.maximum(variance, 0.0))
