"""Slow, obvious twins of the posterior model: loops over rows, pairs, grids and draws.

The model is `spibb.posterior.model`. Derivatives of a gain are differences between models that are
solved anew. Variances are those of draws.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space
from scipy.special import betaln, gammaln
from scipy.stats import multivariate_t

from spibb.data.log import Log
from spibb.posterior.gain import Gain
from spibb.posterior.gain_moments import GainMoments
from spibb.posterior.model import PosteriorModel
from spibb.posterior.pseudo_counts import PSEUDO_COUNTS
from spibb.posterior.rare_events import RareEvents
from spibb.posterior.steps import Steps

Array = NDArray[np.float64]

_STEP = 1e-5
_N_COMBINATIONS = 60
_SHARES = (0.05, 0.2, 0.5, 0.8, 0.95)


class Row(NamedTuple):
    """One row of a log; its outcome is the number of states where the process ended."""

    state: int
    action: int
    outcome: int
    reward: float


def rows_of_log(log: Log) -> list[Row]:
    """Return the rows whose outcome is known."""
    found = []
    for i in range(len(log)):
        if log.terminated[i]:
            outcome = log.n_states
        elif log.next_state[i] >= 0:
            outcome = int(log.next_state[i])
        else:
            continue
        found.append(Row(int(log.state[i]), int(log.action[i]), outcome, float(log.reward[i])))
    return found


def rows_of_steps(steps: Steps) -> list[Row]:
    """Return the rows of cells in which all rewards are the same."""
    found = []
    for i, weight in enumerate(steps.weight):
        row = Row(int(steps.state[i]), int(steps.action[i]), int(steps.outcome[i]), steps.reward[i])
        found += [row] * round(weight)
    return found


def outcomes(rows: list[Row], v: Array, gamma: float) -> Array:
    """Return r + gamma V(x') of each row."""
    return np.array([r + gamma * (v[y] if y < len(v) else 0.0) for _, _, y, r in rows])


def pair_moments(
    rows: list[Row], v: Array, w: Array, gamma: float, shape: tuple[int, int]
) -> tuple[Array, Array, Array, Array]:
    """Return rows, means of r + gamma V and r + gamma W, and their co-scatter, by pair."""
    n, scatter, means = np.zeros(shape), np.zeros(shape), np.zeros((2, *shape))
    y, z = outcomes(rows, v, gamma), outcomes(rows, w, gamma)
    for pair in np.ndindex(shape):
        own = [i for i, row in enumerate(rows) if row[:2] == pair]
        n[pair] = len(own)
        if own:
            means[0][pair], means[1][pair] = y[own].mean(), z[own].mean()
            scatter[pair] = ((y[own] - y[own].mean()) * (z[own] - z[own].mean())).sum()
    return n, means[0], means[1], scatter


def log_likelihood(y: Array, action: Array, m: float, rows: int, variance: float) -> float:
    """Return the likelihood of m in one state, up to a constant: a multivariate t.

    Args:
        y: Outcomes of the rows.
        action: Their actions.
        m: The pseudo-count.
        rows: Pseudo-count of the variance.
        variance: Prior variance.
    """
    if len(y) < 2:
        return 0.0
    same = (action[:, None] == action[None, :]).astype(np.float64)
    # A flat prior on the mean of the state leaves contrasts, which do not depend on it.
    contrasts = null_space(np.ones((1, len(y))))
    shape = variance * contrasts.T @ (np.eye(len(y)) + same / m) @ contrasts
    return float(multivariate_t.logpdf(contrasts.T @ y, shape=shape, df=rows))


def integrated_likelihood(y: Array, action: Array, m: float, rows: float, variance: float) -> float:
    """Return the same up to another constant, by sums over grids of all that is unknown."""
    deviations = np.exp(np.linspace(-5.0, 5.0, 600)) * math.sqrt(variance)
    reach = 60.0 * max(float(np.ptp(y)), math.sqrt(variance))
    centres = np.sinh(np.linspace(-8.0, 8.0, 4001)) / math.sinh(8.0) * reach + y.mean()
    total = 0.0
    widths = np.gradient(centres)
    for s in deviations:
        log_p = np.zeros(len(centres))
        for a in np.unique(action):
            own = y[action == a]
            n = len(own)
            # A normal mean around each centre, integrated out.
            within = ((own - own.mean()) ** 2).sum()
            spread = s**2 / n + s**2 / m
            log_p -= n * math.log(s) + 0.5 * math.log(spread / s**2) + 0.5 * within / s**2
            log_p -= 0.5 * (own.mean() - centres) ** 2 / spread
        # Inverse gamma in s^2; in log s it has a factor of s^2.
        log_p -= rows * math.log(s) + 0.5 * rows * variance / s**2
        total += float((np.exp(log_p) * widths).sum())
    return math.log(total)


def groups(likelihood: Array, prior: Array, kept: int = _N_COMBINATIONS) -> tuple[Array, Array]:
    """Return the posterior of m by state (M, S), and weights of combinations, the best first.

    Args:
        likelihood: Log likelihoods, shape (M, S).
        prior: Of the m of a group, shape (M,).
        kept: How many combinations are kept.
    """
    combinations = _combinations(likelihood, prior)[:kept]
    weights = np.exp(np.array([one[0] for one in combinations]) - combinations[0][0])
    weights /= weights.sum()
    mean = np.zeros(likelihood.shape)
    for weight, (_, share, first, second) in zip(weights, combinations, strict=True):
        for x in range(likelihood.shape[1]):
            one = math.log(share) + likelihood[first, x]
            other = math.log(1.0 - share) + likelihood[second, x]
            total = np.logaddexp(one, other)
            mean[first, x] += weight * np.exp(one - total)
            mean[second, x] += weight * np.exp(other - total)
    return mean, weights


def evidence(likelihood: Array, prior: Array) -> float:
    """Return the logarithm of the marginal likelihood of two groups of states.

    Args:
        likelihood: Log likelihoods, shape (M, S).
        prior: Of the m of a group, shape (M,).
    """
    scores = [score for score, *_ in _combinations(likelihood, prior)]
    return float(np.logaddexp.reduce(scores)) - math.log(len(_SHARES))


def _combinations(likelihood: Array, prior: Array) -> list[tuple[float, float, int, int]]:
    """Return log posterior, share of the first group, and both m; the best first."""
    n_values, n_states = likelihood.shape
    differ = 1.0 - float((prior**2).sum())
    combinations = []
    for share in _SHARES:
        for first in range(n_values):
            for second in range(first, n_values):
                p = 0.5 * prior[first]
                if second > first:
                    p = prior[first] * prior[second] / max(differ, 1e-9)
                score = math.log(max(p, 1e-300))
                for x in range(n_states):
                    one = math.log(share) + likelihood[first, x]
                    other = math.log(1.0 - share) + likelihood[second, x]
                    score += float(np.logaddexp(one, other))
                combinations.append((score, share, first, second))
    combinations.sort(key=lambda one: -one[0])
    return combinations


def far_rows(
    rows: list[Row], v: Array, gamma: float, threshold: float
) -> tuple[list[bool], list[bool], list[float]]:
    """Return which rows are rare events, upwards and downwards, and how far all lie off."""
    y = outcomes(rows, v, gamma)
    state = np.array([row.state for row in rows])
    centre = {x: y[state == x].mean() for x in set(state)}
    near = np.zeros(len(y), dtype=bool)
    spread = 0.0
    for _ in range(2):
        off = np.array([y[i] - centre[state[i]] for i in range(len(y))])
        end = sorted(abs(off))[math.ceil(0.95 * len(y)) - 1]
        inner = [value for value in off if abs(value) <= end + 1e-15]
        spread = math.sqrt(sum(value**2 for value in inner) / len(inner))
        near = abs(off) <= max(threshold * spread, 1e-12)
        for x in centre:
            if near[state == x].any():
                centre[x] = y[(state == x) & near].mean()
    far = max(threshold * spread, 1e-9 * max(abs(y).max(), 1e-12))
    found: list[list[bool]] = []
    for sign in (1.0, -1.0):
        is_far = [
            bool(sign * (y[i] - centre[state[i]]) > far and near[state == state[i]].any())
            for i in range(len(y))
        ]
        alone = [sign * (y[i] - centre[state[i]]) > far for i in range(len(y))]
        found.append(is_far if sum(alone) <= 0.1 * len(y) else [False] * len(y))
    return found[0], found[1], [abs(y[i] - centre[state[i]]) for i in range(len(y))]


def prior_rows(k: Array, n: Array) -> float:
    """Return the likeliest pseudo-count of rows of the rate of a state."""
    if k.sum() <= 0.0:
        return 1.0
    mean, found = k.sum() / n.sum(), []
    for w in 4.0 ** np.arange(9):
        # Counts of a gamma-Poisson mixture are negative binomial.
        a, p = max(w * mean, 1e-12), w / (w + n)
        each = gammaln(a + k) - gammaln(a) - gammaln(k + 1.0) + a * np.log(p) + k * np.log1p(-p)
        found.append(each.sum())
    return float(4.0 ** int(np.argmax(found)))


def _rates_by_em(k: Array, n: Array, prior: float) -> tuple[Array, Array, Array, float, float]:
    """Return rates of states and actions, shares of states, and prior rows of both."""
    n_states, n_actions = n.shape
    anywhere = (k.sum() + 0.5) / (n.sum() + 1.0)
    n_x = [max(n[x].sum(), 1e-9) for x in range(n_states)]
    n_a = [max(n[:, a].sum(), 1e-9) for a in range(n_actions)]
    of_x = [(k[x].sum() + anywhere) / (n_x[x] + 1.0) for x in range(n_states)]
    of_a = [anywhere] * n_actions
    share, weight = np.zeros(n.shape), 1.0
    for step in range(200):
        for x, a in np.ndindex(n.shape):
            share[x, a] = of_x[x] / (of_x[x] + of_a[a])
        own = k * share
        if step % 20 == 0:
            weight = prior_rows(own.sum(axis=1), np.array(n_x))
        mean = (own.sum() + anywhere) / (sum(n_x) + 1.0)
        of_x = [(own[x].sum() + weight * mean) / (n_x[x] + weight) for x in range(n_states)]
        k_a = [(k - own)[:, a].sum() for a in range(n_actions)]
        rows = prior * sum(n_a) / (sum(k_a) + 1e-3)
        of_a = [(k_a[a] + prior) / (n_a[a] + rows) for a in range(n_actions)]
    return np.array(of_x), np.array(of_a), share, rows, weight


def event_rates(k: Array, n: Array, prior: float, of_m: Array) -> dict[str, Array]:
    """Return posterior rates of events.

    Args:
        k: Events by pair.
        n: Rows by pair.
        prior: Pseudo-count of events of an action.
        of_m: Prior of the pseudo-count.
    """
    n_states, n_actions = n.shape
    weight = np.ones(n.shape)
    for _ in range(2):
        kw, nw = k * weight, n * weight
        of_x, of_a, share, rows, w = _rates_by_em(kw, nw, prior)
        anywhere = (kw.sum() + 0.5) / (nw.sum() + 1.0)
        own = kw * share
        mean = (own.sum() + anywhere) / (sum(max(nw[x].sum(), 1e-9) for x in range(n_states)) + 1.0)
        likelihood = np.zeros((len(PSEUDO_COUNTS), *n.shape))
        for x, a in np.ndindex(n.shape):
            if n[x, a] == 0.0:
                continue
            p = (own[x].sum() - own[x, a] + w * mean) / (nw[x].sum() - nw[x, a] + w)
            others = (kw - own)[:, a].sum() - (kw - own)[x, a]
            p += (others + prior) / (nw[:, a].sum() - nw[x, a] + rows)
            p = min(max(p, 1e-9), 0.9)
            for i, m in enumerate(PSEUDO_COUNTS):
                many = betaln(m * p + k[x, a], m * (1.0 - p) + n[x, a] - k[x, a])
                likelihood[i, x, a] = many - betaln(m * p, m * (1.0 - p))
        # Two groups of states, or two groups of actions.
        of_states, of_actions = likelihood.sum(axis=2), likelihood.sum(axis=1)
        odds = math.exp(min(evidence(of_states, of_m) - evidence(of_actions, of_m), 700.0))
        by_x, by_a = groups(of_states, of_m)[0], groups(of_actions, of_m)[0]
        q = np.zeros(likelihood.shape)
        for x, a in np.ndindex(n.shape):
            q[:, x, a] = (odds * by_x[:, x] + by_a[:, a]) / (1.0 + odds)
        for x, a in np.ndindex(n.shape):
            weight[x, a] = 1.0 - sum(
                q[i, x, a] * n[x, a] / (n[x, a] + m) for i, m in enumerate(PSEUDO_COUNTS)
            )
    kw, nw = k * weight, n * weight
    of_x, of_a, share, rows, w = _rates_by_em(kw, nw, prior)
    anywhere = (kw.sum() + 0.5) / (nw.sum() + 1.0)
    own = kw * share
    n_x = [max(nw[x].sum(), 1e-9) for x in range(n_states)]
    n_a = [max(nw[:, a].sum(), 1e-9) for a in range(n_actions)]
    k_a = [(kw - own)[:, a].sum() for a in range(n_actions)]
    mean = (own.sum() + anywhere) / (sum(n_x) + 1.0)
    found = {name: np.zeros(n.shape) for name in ("rate", "variance", "data_share", "base")}
    # Gamma posteriors: of so many events in so many rows.
    found["state_variance"] = np.array(
        [(own[x].sum() + w * mean) / (n_x[x] + w) ** 2 for x in range(n_states)]
    )
    found["action_variance"] = np.array(
        [(k_a[a] + prior) / (n_a[a] + rows) ** 2 for a in range(n_actions)]
    )
    found["of_actions"] = np.array([(k * (1.0 - share))[:, a].sum() for a in range(n_actions)])
    for x, a in np.ndindex(n.shape):
        base = float(np.clip(of_x[x] + of_a[a], 1e-9, 0.9))
        square = 0.0
        for i, m in enumerate(PSEUDO_COUNTS):
            rate = (k[x, a] + m * base) / (n[x, a] + m)
            found["rate"][x, a] += q[i, x, a] * rate
            found["data_share"][x, a] += q[i, x, a] * n[x, a] / (n[x, a] + m)
            square += q[i, x, a] * (rate * (1.0 - rate) / (n[x, a] + m + 1.0) + rate**2)
        found["variance"][x, a] = square - found["rate"][x, a] ** 2
        found["base"][x, a] = base
    return found


@dataclass(frozen=True)
class Parts:
    """A dense model, by its parts.

    Attributes:
        bulk: What rows that are no events lead to: (S, A, S + 1), the reward last.
        by_m: The same for each pseudo-count, (M, S, A, S + 1).
        events: The same of events of each sign.
        rates: Their rates, (S, A) each.
        fixed: What pairs of states without rows lead to; not a number elsewhere.
        initial: Distribution of the first state.
        baseline: The baseline.
        gamma: The discount.
    """

    bulk: Array
    by_m: Array
    events: tuple[Array, ...]
    rates: tuple[Array, ...]
    fixed: Array
    initial: Array
    baseline: Array
    gamma: float

    @classmethod
    def of(cls, model: PosteriorModel) -> Parts:
        """Build the parts pair by pair."""
        (n_states, n_actions), q = model.rows.n.shape, model.pseudo_counts.mean
        own, n = _own_means(model.bulk.count.toarray(), model.bulk.reward, model.bulk.n)
        by_m = np.zeros((len(PSEUDO_COUNTS), *own.shape))
        for i, m in enumerate(PSEUDO_COUNTS):
            for x in range(n_states):
                if n[x].sum() == 0.0:
                    continue
                w = [n[x, a] * m / (n[x, a] + m) for a in range(n_actions)]
                centre = sum(w[a] * own[x, a] for a in range(n_actions)) / sum(w)
                for a in range(n_actions):
                    by_m[i, x, a] = (n[x, a] * own[x, a] + m * centre) / (n[x, a] + m)
        bulk = np.zeros(own.shape)
        for i, x in np.ndindex(q.shape):
            bulk[x] += q[i, x] * by_m[i, x]
        # What is not known of an event is as in the bulk.
        rates = [one.rate * (one.sums.n + one.alike) / (one.sums.n + 1.0) for one in model.events]
        for pair in np.ndindex(n_states, n_actions):
            total = sum(float(rate[pair]) for rate in rates)
            for rate in rates:
                rate[pair] *= min(total, 0.95) / max(total, 1e-300)
        fixed = np.full(own.shape, np.nan)
        for x in range(n_states):
            if model.rows.n[x].sum() > 0.0:
                continue
            fixed[x] = 0.0
            if not model.problem.counts.terminal[x]:
                counts = model.problem.counts
                ends = 0.0 if model.problem.gamma < 1.0 else counts.n_ended / model.rows.n.sum()
                fixed[x, :, x], fixed[x, :, -1] = 1.0 - ends, model.frontier_reward
        return cls(
            bulk, by_m, tuple(event_means(one) for one in model.events), tuple(rates), fixed,
            model.initial, model.problem.baseline.probabilities, model.gamma,
        )  # fmt: skip

    @property
    def whole(self) -> Array:
        """What each pair leads to: (S, A, S + 1), the reward last."""
        found = np.zeros(self.bulk.shape)
        for x, a in np.ndindex(found.shape[:2]):
            if not np.isnan(self.fixed[x, a, 0]):
                found[x, a] = self.fixed[x, a]
                continue
            found[x, a] = (1.0 - sum(rate[x, a] for rate in self.rates)) * self.bulk[x, a]
            for event, rate in zip(self.events, self.rates, strict=True):
                found[x, a] += rate[x, a] * event[x, a]
        return found

    def solve(self, policy: Array) -> tuple[Array, Array]:
        """Return values and discounted visits of a policy."""
        n_states = len(policy)
        moved = np.zeros((n_states, n_states + 1))
        whole = self.whole
        for x, a in np.ndindex(policy.shape):
            moved[x] += policy[x, a] * whole[x, a]
        system = np.eye(n_states) - self.gamma * moved[:, :-1]
        v = np.asarray(np.linalg.solve(system, moved[:, -1]), dtype=np.float64)
        return v, np.asarray(np.linalg.solve(system.T, self.initial), dtype=np.float64)

    def q(self, v: Array) -> Array:
        """Return r + gamma V(x') of each pair."""
        whole, found = self.whole, np.zeros(self.bulk.shape[:2])
        for x, a in np.ndindex(found.shape):
            found[x, a] = whole[x, a, -1] + self.gamma * sum(
                whole[x, a, y] * v[y] for y in range(len(v))
            )
        return found

    def gain(self, policy: Array) -> float:
        """Return the gain of a policy."""
        return float(self.initial @ (self.solve(policy)[0] - self.solve(self.baseline)[0]))


def _own_means(count: Array, reward: Array, n: Array) -> tuple[Array, Array]:
    n_states, n_actions = n.shape
    found = np.zeros((n_states, n_actions, n_states + 1))
    for x, a in np.ndindex(n.shape):
        if n[x, a] > 0.0:
            found[x, a, :-1] = count[x * n_actions + a] / n[x, a]
            found[x, a, -1] = reward[x, a] / n[x, a]
    return found, n


def event_means(one: RareEvents) -> Array:
    """Return what events of each pair lead to: (S, A, S + 1), the reward last."""
    k, count = one.sums.n, one.sums.count.toarray()
    n_states, n_actions = k.shape
    own = np.zeros((n_states, n_actions, n_states + 1))
    for x, a in np.ndindex(k.shape):
        own[x, a, :-1], own[x, a, -1] = count[x * n_actions + a], one.sums.reward[x, a]
    found, of_all = np.zeros(own.shape), own.sum(axis=(0, 1)) / k.sum()
    for x, a in np.ndindex(k.shape):
        w = one.state_share
        k_x = sum(w[x, b] * k[x, b] for b in range(n_actions))
        k_a = sum((1.0 - w[z, a]) * k[z, a] for z in range(n_states))
        of_x = sum(w[x, b] * own[x, b] for b in range(n_actions)) + of_all
        of_a = sum((1.0 - w[z, a]) * own[z, a] for z in range(n_states)) + of_all
        of_x, of_a, share = of_x / (k_x + 1.0), of_a / (k_a + 1.0), w[x, a]
        others = share * of_x + (1.0 - share) * of_a
        if k[x, a] + one.alike > 0.0:
            found[x, a] = (own[x, a] + one.alike * others) / (k[x, a] + one.alike)
    return found


@dataclass(frozen=True)
class Slopes:
    """Derivatives of the gain of one policy, by differences.

    Attributes:
        bulk: By what the bulk of each pair leads to, (S, A, S + 1).
        rates: By rates of events.
        initial: By the distribution of the first state.
        baseline: By the baseline.
    """

    bulk: Array
    rates: tuple[Array, ...]
    initial: Array
    baseline: Array

    @classmethod
    def of(cls, parts: Parts, policy: Array) -> Slopes:
        """Change each number a little and solve the model anew."""

        def differences(values: Array, changed: Callable[[Array], Parts]) -> Array:
            found, step = np.zeros(values.shape), _STEP
            for place in np.ndindex(values.shape):
                ends = []
                for sign in (1.0, -1.0):
                    moved = values.copy()
                    moved[place] += sign * step
                    ends.append(changed(moved).gain(policy))
                found[place] = (ends[0] - ends[1]) / (2.0 * step)
            return found

        def with_rate(i: int) -> Callable[[Array], Parts]:
            rates = parts.rates
            return lambda rate: replace(parts, rates=(*rates[:i], rate, *rates[i + 1 :]))

        return cls(
            differences(parts.bulk, lambda bulk: replace(parts, bulk=bulk)),
            tuple(differences(rate, with_rate(i)) for i, rate in enumerate(parts.rates)),
            differences(parts.initial, lambda initial: replace(parts, initial=initial)),
            differences(parts.baseline, lambda baseline: replace(parts, baseline=baseline)),
        )


def spread_of_state(model: PosteriorModel, rows: list[Row], slope: Array, x: int) -> Array:
    """Return how much the outcomes of one row vary, in gains, between actions: shape (A, A).

    Args:
        model: The model.
        rows: Rows that are no events.
        slope: What an outcome adds to the gain by each action, shape (A, S + 1).
        x: The state.
    """
    n_states = model.rows.n.shape[0]
    worth = np.array(
        [
            [one[-1] * row.reward + (one[row.outcome] if row.outcome < n_states else 0.0)
             for row in rows]
            for one in slope
        ]
    )  # fmt: skip
    all_scatter, own_scatter = np.zeros((2, len(slope), len(slope)))
    all_free, own_free = 0, 0
    for pair in {row[:2] for row in rows}:
        places = [i for i, row in enumerate(rows) if row[:2] == pair]
        off = worth[:, places] - worth[:, places].mean(axis=1, keepdims=True)
        all_scatter += off @ off.T
        all_free += len(places) - 1
        if pair[0] == x:
            own_scatter += off @ off.T
            own_free += len(places) - 1
    pooled = all_scatter / max(all_free, 1)
    k = model.variance_rows
    return np.asarray((k * pooled + own_scatter) / (k + own_free))


def draw_gains(
    moments: GainMoments, policy: Array, rows: list[Row], n_draws: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return draws of the gain of a policy, to first order, and of the unseen losses in them.

    Args:
        moments: The model and its unseen losses.
        policy: Shape (S, A).
        rows: The rows that are no events.
        n_draws: How many.
        rng: The generator.
    """
    model = moments.model
    parts = Parts.of(model)
    slopes = Slopes.of(parts, policy)
    found = np.full(n_draws, parts.gain(policy))
    mixture = model.pseudo_counts
    group = rng.choice(len(mixture.weights), size=n_draws, p=mixture.weights)
    for x in range(len(policy)):
        if model.rows.n[x].sum() == 0.0:
            continue
        # The pseudo-count, and what the means of pairs are with it.
        ends = mixture.parts[group, :, x].cumsum(axis=1)
        chosen = (rng.random((n_draws, 1)) > ends / ends[:, -1:]).sum(axis=1)
        m = PSEUDO_COUNTS[chosen]
        shifts = [
            float((slopes.bulk[x] * (parts.by_m[i, x] - parts.bulk[x])).sum())
            for i in range(len(PSEUDO_COUNTS))
        ]
        found += np.array(shifts)[chosen]
        # The mean of the state, then those of pairs around it.
        spread, n = spread_of_state(model, rows, slopes.bulk[x], x), model.bulk.n[x]
        precision = sum(n[b] * m / (n[b] + m) for b in range(len(n)))
        errors = rng.multivariate_normal(np.zeros(len(n)), spread, n_draws, method="svd")
        errors /= np.sqrt(np.maximum(precision, 0.25))[:, None]
        for a in range(len(n)):
            found += m / (n[a] + m) * errors[:, a]
            found += rng.normal(size=n_draws) * np.sqrt(spread[a, a] / (n[a] + m))
    for one, slope in zip(model.events, slopes.rates, strict=True):
        known = (one.sums.n + one.alike) / (one.sums.n + 1.0)
        seen = np.where(model.is_seen[:, None], slope * known, 0.0)
        for pair in np.ndindex(seen.shape):
            found += seen[pair] * math.sqrt(one.variance[pair]) * rng.normal(size=n_draws)
        for x in range(len(policy)):
            total = sum(seen[x] * (1.0 - one.data_share[x]))
            found += total * math.sqrt(one.state_variance[x]) * rng.normal(size=n_draws)
        for a in range(policy.shape[1]):
            total = sum(seen[:, a] * (1.0 - one.data_share[:, a]))
            found += total * math.sqrt(one.action_variance[a]) * rng.normal(size=n_draws)
    if model.problem.declared.initial is None and model.problem.counts.n_initial.any():
        weight = float(model.problem.counts.n_initial.sum()) * parts.initial
        drawn = rng.gamma(weight, size=(n_draws, len(weight)))
        found += (drawn / drawn.sum(axis=1, keepdims=True) - parts.initial) @ slopes.initial
    if model.problem.baseline.is_estimated:
        for x in range(len(policy)):
            weight = (model.rows.n[x].sum() + 1.0) * parts.baseline[x]
            drawn = rng.gamma(weight, size=(n_draws, len(weight)))
            error = drawn / drawn.sum(axis=1, keepdims=True) - parts.baseline[x]
            found += error @ slopes.baseline[x]
    losses = draw_unseen_losses(moments, policy, n_draws, rng)
    return found - losses, losses


def draw_unseen_losses(
    moments: GainMoments, policy: Array, n_draws: int, rng: np.random.Generator
) -> Array:
    """Return draws of what unseen losses cost."""
    model, parts = moments.model, Parts.of(moments.model)
    (v, visits), (v_b, visits_b) = parts.solve(policy), parts.solve(parts.baseline)
    q, q_b, n = parts.q(v), parts.q(v_b), model.rows.n
    seen = [x for x in range(len(v)) if n[x].sum() > 0.0]
    lowest = min(float(v_b[x]) for x in seen)
    if model.least < model.problem.counts.reward_range[0]:
        places = set(range(len(v))) - set(np.flatnonzero(model.problem.counts.terminal).tolist())
        lowest = min(float(v_b[x]) for x in places)
    end = 0.0 if model.problem.counts.n_ended else lowest
    worst = model.least + parts.gamma * min(lowest, end)
    values = model.problem.values
    win = 0.0 if values.is_observed else values.high - model.problem.counts.reward_range[1]
    at_risk, given_up = np.zeros(n.shape), np.zeros(n.shape)
    for x, a in itertools.product(seen, range(n.shape[1])):
        more = visits[x] * policy[x, a] - visits_b[x] * parts.baseline[x, a]
        if more > 0.0:
            at_risk[x, a] = more * max(max(q[x, a], q_b[x, a]) - worst, 0.0)
        else:
            given_up[x, a] = -more * max(win, 0.0)
    found = _draw_rates(model, at_risk, n_draws, rng, is_loss=True)
    return found + _draw_rates(model, given_up, n_draws, rng, is_loss=False)


def _draw_rates(
    model: PosteriorModel, at_stake: Array, n_draws: int, rng: np.random.Generator, *, is_loss: bool
) -> Array:
    """Return draws of the sum of unseen outcomes of one sign, each times what is at stake."""
    c, k, shape = unseen_shares(model, is_loss=is_loss)
    n = model.rows.n
    found, mean_of_pairs = np.zeros(n_draws), 0.0
    for a in range(n.shape[1]):
        rate = rng.beta(c, max(n[:, a].sum(), 1e-12), size=n_draws)
        found += at_stake[:, a].sum() * rate
        for x in range(len(n)):
            if at_stake[x, a] > 0.0:
                # What was seen has rates of its own.
                events = sum(one.sums.n[x, a] for one in model.events if one.is_loss == is_loss)
                rate, total = k / (n[x, a] + k) / (1.0 + events), n[x, a] + k
                mean_of_pairs += at_stake[x, a] * rate
                drawn = rng.beta(rate * total, max((1.0 - rate) * total, 1e-12), size=n_draws)
                found += at_stake[x, a] * drawn
    # All pairs share k, which is known by as many events as were found.
    return np.asarray(found + mean_of_pairs * (rng.gamma(shape, size=n_draws) / shape - 1.0))


def unseen_shares(model: PosteriorModel, *, is_loss: bool) -> tuple[float, float, float]:
    """Return shares of actions and of pairs with rare outcomes, and how many such pairs there are.

    Args:
        model: The model.
        is_loss: Whether the outcomes are losses.
    """
    n, settings = model.rows.n, model.settings
    actions, pairs = settings.prior_losses, settings.prior_losses
    of_actions, of_pairs = settings.prior_groups, settings.prior_groups
    for a in range(n.shape[1]):
        of_actions += float(n[:, a].sum() / (n[:, a].sum() + 10.0))
    for pair in np.ndindex(n.shape):
        of_pairs += float(n[pair] / (n[pair] + 10.0))
    for one in model.events:
        if one.is_loss != is_loss:
            continue
        for a in range(n.shape[1]):
            actions += min(float(one.of_actions[a]), 1.0)
        for pair in np.ndindex(n.shape):
            if one.sums.n[pair] < 0.3 * n[pair]:
                expected = float(n[pair] * one.base[pair])
                found = float(one.sums.n[pair]) - expected - 2.0 * math.sqrt(expected)
                pairs += min(max(found, 0.0), 1.0)
    return actions / of_actions, pairs / of_pairs, pairs


def best_step(
    q: Array, cost: Array, less: Array, curvature: Array, start: Array, most: Array
) -> Array:
    """Return the row that maximises `step_value`.

    Each action is at 0, below b, at b, above b or at its largest probability. All combinations are
    tried.
    """
    best, found = -math.inf, start
    for kinds in itertools.product(range(5), repeat=len(q)):
        row = np.array([(0.0, 0.0, b, 0.0, top)[kind] for kind, b, top in zip(
            kinds, start, most, strict=True)])  # fmt: skip
        inner = [a for a, kind in enumerate(kinds) if kind in (1, 3)]
        if inner:
            # pi = b + (worth - price) / curvature; probabilities sum to 1.
            worth = {a: q[a] - cost[a] if kinds[a] == 3 else q[a] + less[a] for a in inner}
            excess = row.sum() - 1.0 + sum(start[a] + worth[a] / curvature[a] for a in inner)
            price = excess / sum(1.0 / curvature[a] for a in inner)
            for a in inner:
                row[a] = start[a] + (worth[a] - price) / curvature[a]
        if abs(row.sum() - 1.0) > 1e-9 or (row < -1e-9).any() or (row > most + 1e-9).any():
            continue
        value = step_value(row, q, cost, less, curvature, start)
        if value > best:
            best, found = value, row
    return found


def step_value(
    row: Array, q: Array, cost: Array, less: Array, curvature: Array, start: Array
) -> float:
    """Return q pi - cost (pi - b)_+ - less (b - pi)_+ - curvature (pi - b)^2 / 2."""
    more = row - start
    prices = cost @ np.maximum(more, 0.0) + less @ np.maximum(-more, 0.0)
    return float(q @ row - prices - 0.5 * curvature @ more**2)


def draw_distribution(gain: Gain, n_draws: int, rng: np.random.Generator) -> Array:
    """Return draws of a normal variable less a gamma variable, in increasing order."""
    normal = math.sqrt(max(gain.deviation**2 - gain.loss_deviation**2, 0.0))
    found = gain.mean + gain.loss_mean + normal * rng.normal(size=n_draws)
    if gain.loss_deviation > 0.0:
        shape = (gain.loss_mean / gain.loss_deviation) ** 2
        found -= rng.gamma(shape, gain.loss_mean / shape, size=n_draws)
    else:
        found -= gain.loss_mean
    return np.sort(found)
