"""A prototype of one statistical model for the choice of a policy, beside auto-spibb.

    python benchmarks/hierarchical_model.py [--runs 10] [--episodes 30 300] [--seed 33] [--set z=2]

Nothing of the package uses it. It runs on generators of the development half alone, and prints for
each rule the mean gain (clipped to -1 .. 1 of the largest gain) and the share of logs on which the
chosen policy is worse than the baseline. `--set` changes a setting, for an ablation.

The model, in the order of the code:

* *Rare events.* A row whose y = r + gamma V(x') lies beyond `far` robust deviations from the mean
  of its state is an event, up or down. The other rows are the bulk. A pair of state and action is a
  mixture of both: p(x, a) events, 1 - p(x, a) bulk.
* *Bulk.* The means of y of the actions of a state are exchangeable, N(mu_x, s_x^2 / m). One
  pseudo-count m shrinks rewards and successors of a pair alike, towards the precision-weighted mean
  of its state. mu_x is flat, s_x^2 has an inverse gamma prior around the pooled variance: the
  likelihood of m in a state is a multivariate t.
* *Kinds of states.* The prior of m is a mixture of two values, which a sum on a grid integrates:
  no state is an outlier because a maximum was taken. With some probability a state's m is near the
  one that its successors alone suggest, by a Dirichlet-multinomial likelihood.
* *Rates of events* are shrunk in the same way, by a beta-binomial likelihood, towards the sum of a
  rate of the state and one of the action, which EM tells apart.
* *Unseen losses.* An action that was taken N times may lead to the worst known value, with a
  probability of Beta(1, N); a pair with Beta(k, n), where k is the share of pairs of this log that
  have rare losses of their own. They count where a policy does more than the baseline, never less.
* *Gain.* Its mean is that of the mean model; its variance is of first order, with that of m.
* *Policies* maximise the expected gain less a quadratic penalty of changes, for many penalties;
  the one with the largest mean less z deviations is taken, or the baseline if that is not positive.
"""

from __future__ import annotations

import argparse
import time
import zlib
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from spibb import AutoSPIBB, Log
from spibb.mdp.evaluation import evaluate
from spibb.mdp.model import TabularMDP
from spibb.studies.generators.halves import draw_lot
from spibb.studies.generators.registry import GENERATORS

Array = NDArray[np.float64]

# Pseudo-counts; the last stands for actions that are alike.
M = np.concatenate([0.25 * 2.0 ** np.arange(14), [1e6]])
# Rows that the pooled variance is worth in a state, and rows of all states in that of a successor.
_NU, _ROWS_ANYWHERE = 2.0 ** np.arange(1, 8, 2.0), np.array([0.5, 2.0, 8.0, 32.0])
# Shares of the first kind of states, and of the states that do not follow their successors.
_SHARES, _FREE = np.array([0.05, 0.2, 0.5, 0.8, 0.95]), np.array([0.02, 0.3, 0.9])
_N_COMBINATIONS = 60


@dataclass(frozen=True)
class Settings:
    """What was tuned, on the development half.

    Attributes:
        z: Deviations that a gain must exceed.
        far: Robust deviations beyond which a row is an event.
        alike: Prior probability that the actions of a kind of states are alike.
        near: How far m may be from that of the successors, in factors of two.
        rare: Events that the prior rate of an action is worth.
        loss_of_pairs, pairs: The share of pairs with rare losses a priori, as a ratio of counts.
        has_kinds, has_link: Whether there are two kinds, and a link to successors.
        loss_of_actions: The first parameter of the beta distribution of an action's unseen losses.
    """

    z: float = 1.5
    far: float = 5.0
    alike: float = 0.2
    near: float = 1.0
    rare: float = 0.2
    loss_of_pairs: float = 0.5
    pairs: float = 2.0
    has_kinds: float = 1.0
    has_link: float = 1.0
    loss_of_actions: float = 1.0

    def prior(self) -> Array:
        """Return the prior of m on the grid: flat in log m above 1."""
        found = M**2 / (1.0 + M) ** 2
        found[-1] = 0.0
        found *= (1.0 - self.alike) / found.sum()
        found[-1] = self.alike
        return found


class Rows:
    """Sums over some rows of a log, by pair and next state."""

    def __init__(self, shape: tuple[int, int], x, a, r, y, ends) -> None:  # type: ignore[no-untyped-def]
        n_states, n_actions = shape
        pair, goes_on = x * n_actions + a, ~ends
        key, cube = pair[goes_on] * n_states + y[goes_on], (n_states, n_actions, n_states)

        def total(of: Any, weights: Any, into: tuple[int, ...]) -> Array:
            return np.bincount(of, weights, int(np.prod(into))).reshape(into).astype(float)

        self.n, self.reward = total(pair, None, shape), total(pair, r, shape)
        self.squares, self.ends = total(pair, r * r, shape), total(pair[ends], None, shape)
        self.count, self.paid = total(key, None, cube), total(key, r[goes_on], cube)
        self.of_state = self.n.sum(axis=1)
        n = np.maximum(self.n, 1.0)
        self.p, self.r = self.count / n[:, :, None], self.reward / n

    def mean(self, v: Array, gamma: float) -> Array:
        """Return the mean of r + gamma V(x') of each pair."""
        return (self.reward + gamma * self.count @ v) / np.maximum(self.n, 1.0)

    def scatter(self, v: Array, w: Array, gamma: float) -> Array:
        """Return sums of products of deviations of r + gamma V and r + gamma W from their means."""
        products = self.squares + gamma * self.paid @ (v + w) + gamma**2 * self.count @ (v * w)
        return products - self.n * self.mean(v, gamma) * self.mean(w, gamma)


def likelihood_of_bulk(rows: Rows, mean: Array, scatter: Array, pooled: float) -> Array:
    """Return log likelihoods of m in each state, shape (M, S), and the weight of `pooled`, rows."""
    found = np.zeros((len(M), len(_NU), len(mean)))
    for i, m in enumerate(M):
        w = rows.n * m / (rows.n + m)
        total = np.maximum(w.sum(axis=1), 1e-300)
        centre = (w * mean).sum(axis=1) / total
        squares = scatter.sum(axis=1) + (w * (mean - centre[:, None]) ** 2).sum(axis=1)
        shape = 0.5 * np.log(m / (rows.n + m)).sum(axis=1, where=rows.n > 0) - 0.5 * np.log(total)
        for j, nu in enumerate(_NU):
            df = nu + rows.of_state - 1.0
            found[i, j] = shape + gammaln(df / 2) - gammaln(nu / 2) + nu / 2 * np.log(nu * pooled)
            found[i, j] -= df / 2 * np.log(nu * pooled + squares)
    return found * (rows.of_state > 1)


def likelihood_of_successors(rows: Rows) -> Array:
    """Return log likelihoods of m by what follows pairs, given the other actions, shape (M, S)."""
    count = np.concatenate([rows.count, rows.ends[:, :, None]], axis=2)
    anywhere = count.sum(axis=(0, 1)) + 1e-3
    anywhere /= anywhere.sum()
    x, a, y = np.nonzero(count)
    k = count[x, a, y]
    of_others, n_others = count.sum(axis=1)[x, y] - k, rows.of_state[x] - rows.n[x, a]
    px, pa = np.nonzero(rows.n)
    pn, n_other = rows.n[px, pa], rows.of_state[px] - rows.n[px, pa]
    found = np.zeros((len(M), len(_ROWS_ANYWHERE), len(rows.n)))
    for j, c in enumerate(_ROWS_ANYWHERE):
        p = (of_others + c * anywhere[y]) / (n_others + c)
        for i, m in enumerate(M):
            by_outcome = p / (1.0 / m + 1.0 / (n_others + c))
            by_pair = 1.0 / (1.0 / m + 1.0 / (n_other + c))
            found[i, j] = np.bincount(x, gammaln(by_outcome + k) - gammaln(by_outcome), len(rows.n))
            found[i, j] += np.bincount(px, gammaln(by_pair) - gammaln(by_pair + pn), len(rows.n))
    total = found.sum(axis=2).max(axis=0)
    weight = np.exp(total - total.max())
    return np.einsum("mcs,c->ms", found, weight / weight.sum())


Mixture = tuple[Array, list[tuple[float, Array]]]


def kinds(likelihood: Array, prior: Array, linked: Array | None, has_kinds: bool) -> Mixture:
    """Return the posterior of m by state, shape (M, S), and its parts by hyper-parameters.

    Args:
        likelihood: Log likelihoods of m by state, shape (M, S).
        prior: The prior of m of a kind of states.
        linked: Another prior of each state, shape (M, S); None: there is none.
        has_kinds: Whether there are two kinds of states.
    """
    e = np.exp(likelihood - likelihood.max(axis=0))
    i, j = np.triu_indices(len(M)) if has_kinds else (np.arange(len(M)), np.arange(len(M)))
    apart = max(1.0 - float((prior**2).sum()), 1e-9)
    weights = np.where(i == j, 0.5 * prior[i], prior[i] * prior[j] / apart)
    by_link = np.zeros(e.shape[1]) if linked is None else (linked * e).sum(axis=0)
    scores, facts = [], []
    for free in (1.0,) if linked is None else _FREE:
        for share in _SHARES:
            mixed = free * (share * e[i] + (1.0 - share) * e[j]) + (1.0 - free) * by_link
            scores.append(np.log(np.maximum(mixed, 1e-300)).sum(axis=1) + np.log(weights))
            facts += [(free, share, *places) for places in zip(i, j, strict=True)]
    score = np.concatenate(scores)
    order = np.argsort(-score)[:_N_COMBINATIONS]
    weight = np.exp(score[order] - score[order[0]])
    parts = []
    for part, place in zip(weight / weight.sum(), order, strict=True):
        free, share, first, second = facts[place]
        p = np.zeros(e.shape) if linked is None else (1.0 - free) * linked * e
        p[first] += free * share * e[first]
        p[second] += free * (1.0 - share) * e[second]
        parts.append((float(part), p / np.maximum(p.sum(axis=0), 1e-300)))
    return sum(part * p for part, p in parts), parts  # type: ignore[return-value]


@dataclass
class Events:
    """Rare events of one sign: their rates by pair, and what they are."""

    rows: Rows
    is_loss: bool
    rate: Array
    variance: Array
    known: Array
    of_states: Array
    of_actions: Array
    caused_by_action: Array
    base: Array
    p: Array
    r: Array


class Model:
    """The fitted model of one log."""

    def __init__(self, log: Log, baseline: Array, gamma: float, least: float | None, s: Settings):
        self.s, self.b, self.gamma = s, baseline, min(gamma, 1.0 - 1e-6)
        self.shape = (log.n_states, log.n_actions)
        ends = log.terminated | (log.next_state < 0)
        self.columns = (log.state, log.action, log.reward, log.next_state, ends)
        self.all = Rows(self.shape, *self.columns)
        self.seen = self.all.of_state > 0
        self.least = float(log.reward.min()) if least is None else least
        self.is_declared = least is not None
        assert log.is_first is not None
        first = np.bincount(log.state[log.is_first], minlength=log.n_states).astype(float)
        self.n_first, self.initial = first.sum(), first / first.sum()
        steps = np.abs(np.subtract.outer(np.arange(len(M)), np.arange(len(M))))
        near = np.exp(-steps / s.near)
        by_successors, _ = kinds(
            likelihood_of_successors(self.all), s.prior(), None, bool(s.has_kinds)
        )
        self.linked = (near / near.sum(axis=0)) @ by_successors if s.has_link else None
        rows = np.maximum(self.all.of_state, 1.0)[:, None]
        p = np.repeat((self.all.count.sum(axis=1) / rows)[:, None], self.shape[1], axis=1)
        r = np.repeat(self.all.reward.sum(axis=1)[:, None] / rows, self.shape[1], axis=1)
        self.v_b, self.d_b = self.values(p, r, baseline)
        for _ in range(2):
            self.fit(self.v_b)
            self.v_b, self.d_b = self.values(self.p, self.r, baseline)
        self.k = self.share_with_losses()

    def values(self, p: Array, r: Array, policy: Array) -> tuple[Array, Array]:
        """Return values and discounted visits of a policy."""
        system = np.eye(len(r)) - self.gamma * np.einsum("xa,xay->xy", policy, p)
        values = np.linalg.solve(system, (policy * r).sum(axis=1))
        return values, np.linalg.solve(system.T, self.initial)

    def fit(self, v: Array) -> None:
        """Fit everything to r + gamma V."""
        up, down = self.far_rows(v)
        self.bulk = Rows(self.shape, *(c[~(up | down)] for c in self.columns))
        mean, scatter = self.bulk.mean(v, self.gamma), self.scatter_of_bulk(v, v)
        df = np.maximum(self.bulk.n - 1.0, 0.0).sum()
        n_x = np.maximum(self.bulk.of_state, 1.0)
        centre = ((self.bulk.n * mean).sum(axis=1) / n_x)[:, None]
        between = (self.bulk.n * (mean - centre) ** 2).sum()
        free = max(np.maximum(self.bulk.of_state - 1.0, 0.0).sum(), 1.0)
        pooled = (scatter.sum() + between) / free if df < 10 else scatter.sum() / df
        rewards = self.columns[2]
        self.pooled = max(pooled, 1e-10 * max(float(np.ptp(rewards)) ** 2, 1e-12))
        by_nu = likelihood_of_bulk(self.bulk, mean, scatter, self.pooled)
        best = by_nu.max(axis=0).sum(axis=1)
        weight = np.exp(best - best.max())
        weight /= weight.sum()
        self.nu = float(weight @ _NU)
        self.m, self.parts = kinds(
            np.einsum("mns,n->ms", by_nu, weight), self.s.prior(), self.linked,
            bool(self.s.has_kinds),
        )  # fmt: skip
        self.events = [
            self.fit_events(Rows(self.shape, *(c[of] for c in self.columns)), is_loss)
            for of, is_loss in ((up, False), (down, True))
            if of.any()
        ]
        self.average()

    def scatter_of_bulk(self, v: Array, w: Array) -> Array:
        """Return the scatter of the bulk by pair, which rounding may make negative."""
        found = self.bulk.scatter(v, w, self.gamma)
        return np.maximum(found, 0.0) if v is w else found

    def far_rows(self, v: Array) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which rows are events, upwards and downwards."""
        x, _, r, y, ends = self.columns
        earned = r + self.gamma * np.where(ends, 0.0, v[np.maximum(y, 0)])
        n = np.maximum(self.all.of_state, 1.0)
        centre = np.bincount(x, earned, self.shape[0]) / n
        for _ in range(2):
            off = earned - centre[x]
            inner = np.abs(off) <= np.quantile(np.abs(off), 0.95) + 1e-15
            far = self.s.far * np.sqrt((off[inner] ** 2).mean())
            near = np.abs(off) <= max(far, 1e-12)
            kept = np.bincount(x[near], minlength=self.shape[0])
            means = np.bincount(x[near], earned[near], self.shape[0]) / np.maximum(kept, 1)
            centre = np.where(kept > 0, means, centre)
        off, far = earned - centre[x], max(far, 1e-9 * max(np.abs(earned).max(), 1e-12))
        return tuple(e & (e.mean() <= 0.1) for e in (off > far, off < -far))  # type: ignore[return-value]

    def fit_events(self, rows: Rows, is_loss: bool) -> Events:
        """Fit rates of events: those of states and of actions add up."""
        k, n, s = rows.n, self.all.n, self.s
        anywhere = (k.sum() + 0.5) / (n.sum() + 1.0)
        n_x, n_a = np.maximum(n.sum(axis=1), 1e-9), np.maximum(n.sum(axis=0), 1e-9)
        of_x, of_a = (k.sum(axis=1) + anywhere) / (n_x + 1.0), np.full(len(n_a), 0.1 * anywhere)
        for _ in range(30):
            by_x = of_x[:, None] / (of_x[:, None] + of_a)
            k_x, k_a = (k * by_x).sum(axis=1), (k * (1.0 - by_x)).sum(axis=0)
            of_x = (k_x + anywhere) / (n_x + 1.0)
            worth = s.rare / ((k_a.sum() + 1e-3) / n_a.sum())
            of_a = (k_a + s.rare) / (n_a + worth)
        # Without the pair itself, which its own rate must not be compared with.
        left_x = (np.maximum(k_x[:, None] - k * by_x, 0.0) + anywhere) / (
            np.maximum(n_x[:, None] - n, 0.0) + 1.0
        )
        left_a = (np.maximum(k_a - k * (1.0 - by_x), 0.0) + s.rare) / (
            np.maximum(n_a - n, 0.0) + worth
        )
        p = np.clip(left_x + left_a, 1e-9, 0.9)
        found = []
        for m in M:
            a, b = m * p, m * (1.0 - p)
            one = gammaln(a + k) - gammaln(a) + gammaln(b + n - k) - gammaln(b)
            found.append((one + gammaln(m) - gammaln(m + n)).sum(axis=1, where=n > 0))
        posterior, _ = kinds(np.array(found), s.prior(), None, bool(s.has_kinds))
        base = np.clip(of_x[:, None] + of_a, 1e-9, 0.9)
        rate, square, known = np.zeros(n.shape), np.zeros(n.shape), np.zeros(n.shape)
        for q, m in zip(posterior, M, strict=True):
            one = (k + m * base) / (n + m)
            rate += q[:, None] * one
            square += q[:, None] * (one * (1.0 - one) / (n + m + 1.0) + one**2)
            known += q[:, None] * n / (n + m)
        variances = (k_x + anywhere) / (n_x + 1.0) ** 2, (k_a + s.rare) / (n_a + worth) ** 2
        return Events(
            rows, is_loss, rate, np.maximum(square - rate**2, 0.0), known, *variances, k_a, base,
            *self.outcomes_of_events(rows),
        )  # fmt: skip

    @staticmethod
    def outcomes_of_events(rows: Rows) -> tuple[Array, Array]:
        """Return what events of a pair are: its own, those of its state, of its action, of any."""
        k, k_x, k_a = rows.n, rows.n.sum(axis=1), rows.n.sum(axis=0)
        p, r = rows.count.sum(axis=(0, 1)) / k.sum(), rows.reward.sum() / k.sum()
        p_x, r_x = rows.count.sum(axis=1) + p, rows.reward.sum(axis=1) + r
        p_a, r_a = rows.count.sum(axis=0) + p, rows.reward.sum(axis=0) + r
        w = (k_x / (k_x + 1.0))[:, None]
        base_p = w[:, :, None] * (p_x / (k_x + 1.0)[:, None])[:, None, :]
        base_p = base_p + (1.0 - w)[:, :, None] * (p_a / (k_a + 1.0)[:, None])[None]
        base_r = w * (r_x / (k_x + 1.0))[:, None] + (1.0 - w) * (r_a / (k_a + 1.0))[None]
        return (rows.count + base_p) / (k + 1.0)[:, :, None], (rows.reward + base_r) / (k + 1.0)

    def average(self) -> None:
        """Make the mean model, and what variances need."""
        (n_states, n_actions), n = self.shape, self.bulk.n
        each = np.arange(n_actions)
        self.mixing = []
        self.apart, self.alike = np.zeros(n.shape), np.zeros((n_states, n_actions, n_actions))
        mixed = np.zeros((n_states, n_actions, n_actions))
        for q, m in zip(self.m, M, strict=True):
            known, w = n / (n + m), n * m / (n + m)
            total = w.sum(axis=1)
            one = (1.0 - known)[:, :, None] * (w / np.maximum(total, 1e-300)[:, None])[:, None, :]
            one[:, each, each] += known
            self.mixing.append(one)
            mixed += q[:, None, None] * one
            self.apart += q[:, None] / (n + m)
            unknown = (1.0 - known)[:, :, None] * (1.0 - known)[:, None, :]
            self.alike += (q / np.maximum(total, 0.25))[:, None, None] * unknown
        self.bulk_p = np.einsum("xab,xby->xay", mixed, self.bulk.p)
        self.bulk_r = np.einsum("xab,xb->xa", mixed, self.bulk.r)
        rates = sum((e.rate for e in self.events), np.zeros(n.shape))
        most = np.minimum(rates, 0.95)
        scale = most / np.maximum(rates, 1e-300)
        self.stays = 1.0 - most
        self.p = self.bulk_p * self.stays[:, :, None]
        self.r = self.bulk_r * self.stays
        for e in self.events:
            self.p = self.p + (e.rate * scale)[:, :, None] * e.p
            self.r = self.r + e.rate * scale * e.r
        self.mark_unseen()

    def mark_unseen(self) -> None:
        """Let states in which nothing was done pay the least for ever."""
        means = self.all.reward.sum(axis=1)[self.seen] / self.all.of_state[self.seen]
        least = self.least if self.is_declared else min(float(means.min()), 0.0)
        for x in np.flatnonzero(~self.seen):
            self.p[x], self.r[x] = 0.0, least
            self.p[x, :, x] = 1.0
            self.apart[x], self.alike[x] = 0.0, 0.0

    def share_with_losses(self) -> float:
        """Return the share of pairs that have rare losses of their own, of those that were seen."""
        n, found = self.all.n, 0.0
        for e in self.events:
            if e.is_loss:
                own = np.maximum(e.rows.n - n * e.base, 0.0) / np.maximum(e.rows.n, 1.0)
                found += own[e.rows.n < 0.3 * n].sum()
        return (self.s.loss_of_pairs + found) / (self.s.pairs + (n / (n + 10.0)).sum())

    def unseen_losses(self) -> tuple[Array, Array, float]:
        """Return rates of unseen losses by action and by pair, and the value they lead to."""
        v, n, c = self.v_b[self.seen], self.all.n, max(self.s.loss_of_actions, 1e-12)
        ends = 0.0 if self.all.ends.any() else float(v.min())
        worst = self.least + self.gamma * min(float(v.min()), ends)
        return c / (n.sum(axis=0) + c), self.k / (n + self.k + 1e-12), worst

    def gains(self, policies: list[Array]) -> Array:
        """Return mean and deviation of the gains of policies, shape (C, 2)."""
        gamma, v_b, w_b = self.gamma, self.v_b, self.d_b[:, None] * self.b
        action, pair, worst = self.unseen_losses()
        df = np.maximum(self.bulk.n - 1.0, 0.0).sum(axis=1)

        def spread(v: Array, w: Array) -> Array:
            scatter = self.scatter_of_bulk(v, w)
            means = self.nu * scatter.sum() / max(df.sum(), 1.0) + scatter.sum(axis=1)
            found = means / (self.nu + df)
            return np.maximum(found, self.pooled) if df.sum() < 10 else found

        of_b, q_b = spread(v_b, v_b), self.r + gamma * self.p @ v_b
        of_b = np.maximum(of_b, 1e-3 * self.pooled)
        found = []
        for policy in policies:
            v, d = self.values(self.p, self.r, policy)
            w, q = d[:, None] * policy, self.r + gamma * self.p @ v
            mean, both, own = (v - v_b) @ self.initial, spread(v, v_b), spread(v, v)
            u, u_b = w * self.stays, w_b * self.stays
            by_pair = u**2 * own[:, None] - 2 * u * u_b * both[:, None] + u_b**2 * of_b[:, None]
            variance = (np.maximum(by_pair, 0.0) * self.apart).sum()

            def by_state(s: Array, t: Array) -> Array:
                return np.einsum("xa,xab,xb->x", s, self.alike, t)

            common = by_state(u, u) * own - 2 * by_state(u, u_b) * both + by_state(u_b, u_b) * of_b
            variance += np.maximum(common, 0.0).sum()
            variance += self.by_pseudo_counts(u, u_b, v)
            variance += sum(self.by_events(e, w, w_b, v) for e in self.events)
            change = v - v_b
            by_start = (change**2) @ self.initial - (change @ self.initial) ** 2
            variance += max(float(by_start), 0.0) / (self.n_first + 1.0)
            more = -np.maximum(w - w_b, 0.0) * np.maximum(np.maximum(q, q_b) - worst, 0.0)
            more[~self.seen] = 0.0
            of_action = more.sum(axis=0)
            mean += (pair * more).sum() + action @ of_action
            n, n_a = self.all.n, self.all.n.sum(axis=0)
            variance += (more**2 * pair * (1.0 - pair) / (n + self.k + 1.0)).sum()
            variance += (of_action**2 * action * (1.0 - action) / (n_a + 2.0)).sum()
            found.append((mean, np.sqrt(max(variance, 0.0))))
        return np.array(found)

    def by_pseudo_counts(self, u: Array, u_b: Array, v: Array) -> float:
        """Return the variance of a gain by what m may be: in each state, and in all at once."""
        mean, mean_b = self.bulk.mean(v, self.gamma), self.bulk.mean(self.v_b, self.gamma)
        gains = np.array(
            [
                (u * np.einsum("xab,xb->xa", one, mean)).sum(axis=1)
                - (u_b * np.einsum("xab,xb->xa", one, mean_b)).sum(axis=1)
                for one in self.mixing
            ]
        )
        gains[:, ~self.seen] = 0.0
        weights = np.array([weight for weight, _ in self.parts])
        totals = np.array([(p * gains).sum() for _, p in self.parts])
        within = sum(
            weight * ((p * gains**2).sum(axis=0) - (p * gains).sum(axis=0) ** 2).sum()
            for weight, p in self.parts
        )
        return max(float(within), 0.0) + max(
            float(weights @ totals**2 - (weights @ totals) ** 2), 0.0
        )

    def by_events(self, e: Events, w: Array, w_b: Array, v: Array) -> float:
        """Return the variance of a gain by the rates of events."""
        gamma = self.gamma
        f = w * (e.r - self.bulk_r + gamma * (e.p - self.bulk_p) @ v)
        f -= w_b * (e.r - self.bulk_r + gamma * (e.p - self.bulk_p) @ self.v_b)
        f[~self.seen] = 0.0
        shared = f * (1.0 - e.known)
        found = (f**2 * e.variance).sum() + shared.sum(axis=0) ** 2 @ e.of_actions
        return float(found + shared.sum(axis=1) ** 2 @ e.of_states)

    def candidates(self) -> list[Array]:
        """Return policies, from those that change little to those that change much."""
        gamma, seen, s = self.gamma, self.seen[:, None], self.s
        action, pair, worst = self.unseen_losses()
        df = np.maximum(self.bulk.n - 1.0, 0.0).sum(axis=1)
        scatter = self.scatter_of_bulk(self.v_b, self.v_b)
        means = self.nu * max(scatter.sum() / max(df.sum(), 1.0), 1e-3 * self.pooled)
        variance = ((means + scatter.sum(axis=1)) / (self.nu + df))[:, None] * self.apart
        for e in self.events:
            off = e.r - self.bulk_r + gamma * (e.p - self.bulk_p) @ self.v_b
            variance = variance + off**2 * e.variance
        n_a = self.all.n.sum(axis=0)
        price = action + 0.5 * s.z * np.sqrt(action * (1.0 - action) / (n_a + 2.0)) + pair
        of_rows = float((variance * self.all.n).sum() / self.all.n.sum())
        unit = np.sqrt(max(self.pooled, of_rows, 1e-12))
        found, v, d, policy = [], self.v_b, self.d_b, self.b
        for penalty in 2.0 ** np.arange(10, -7, -1.0) / unit:
            for _ in range(8):
                q = self.r + gamma * self.p @ v
                costs = np.where(seen, price * np.maximum(q - worst, 0.0), 0.0)
                curvature = penalty * d[:, None] * variance + 1e-9
                new = step(np.where(seen, q, 0.0), curvature, self.b, costs)
                new = np.where(seen, new, self.b)
                is_settled = np.abs(new - policy).max() < 1e-3
                policy = new
                v, d = self.values(self.p, self.r, policy)
                if is_settled:
                    break
            found.append(policy)
        return found

    def choose(self) -> Array:
        """Return the policy of the largest mean less z deviations, or the baseline."""
        candidates = self.candidates()
        gains = self.gains(candidates)
        score = gains[:, 0] - self.s.z * gains[:, 1]
        return candidates[int(score.argmax())] if score.max() > 1e-12 else self.b


def step(q: Array, curvature: Array, b: Array, costs: Array) -> Array:
    """Maximise q pi - costs (pi - b)_+ - curvature (pi - b)^2 / 2 in each row, by bisection."""
    c = np.maximum(curvature, 1e-12 * max(np.abs(q).max(), 1e-12))
    low, high = (q - costs).min(axis=1) - c.max(axis=1), q.max(axis=1) + c.max(axis=1)

    def at(price: Array) -> Array:
        off = q - price[:, None]
        return np.maximum(0.0, b + np.maximum(off - costs, 0.0) / c + np.minimum(off, 0.0) / c)

    for _ in range(60):
        price = 0.5 * (low + high)
        is_low = at(price).sum(axis=1) > 1.0
        low, high = np.where(is_low, price, low), np.where(is_low, high, price)
    found = at(0.5 * (low + high))
    return found / found.sum(axis=1, keepdims=True)


def value(process: TabularMDP, policy: Array) -> float:
    """Return the true performance of a policy."""
    return float(evaluate(process, policy).v @ process.initial)


def main() -> None:
    """Print a line for each rule."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--episodes", type=int, nargs="+", default=[30, 300])
    parser.add_argument("--seed", type=int, default=33)
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=NUMBER")
    asked = parser.parse_args()
    changed = {name: float(number) for name, number in (one.split("=") for one in asked.set)}
    unknown = changed.keys() - {one.name for one in fields(Settings)}
    if unknown:
        parser.error(f"no such setting: {', '.join(sorted(unknown))}")
    settings = replace(Settings(), **changed)
    gains: dict[str, list[float]] = {"auto-spibb": [], "hierarchical": []}
    seconds = dict.fromkeys(gains, 0.0)
    for name in sorted(draw_lot().development):
        told = [name]
        for size in asked.episodes:
            cell: dict[str, list[float]] = {rule: [] for rule in gains}
            for run in range(asked.runs):
                seed = [asked.seed, zlib.crc32(name.encode()), run]
                instance = GENERATORS[name].draw(np.random.default_rng(seed))
                log = instance.log(size, np.random.default_rng([asked.seed, run, size, 1]))
                process, b = instance.process, instance.baseline.probabilities
                given: dict[str, Any] = {"gamma": process.gamma, "baseline": instance.baseline}
                if instance.reward_range is not None:
                    given["reward_range"] = instance.reward_range
                start = time.process_time()
                auto = AutoSPIBB().improve(log, **given).policy.probabilities
                middle = time.process_time()
                least = None if instance.reward_range is None else instance.reward_range[0]
                new = Model(log, b, process.gamma, least, settings).choose()
                seconds["auto-spibb"] += middle - start
                seconds["hierarchical"] += time.process_time() - middle
                before, scale = value(process, b), instance.scale()
                for rule, policy in zip(gains, (auto, new), strict=True):
                    gain = (value(process, policy) - before) / scale
                    cell[rule].append(0.0 if abs(gain) < 1e-9 else gain)
            for rule, found in cell.items():
                gains[rule] += found
            told += [f"{np.mean(f):6.3f} / {np.mean(np.array(f) < 0):.2f}" for f in cell.values()]
        print(" | ".join(told), flush=True)
    for rule, found in gains.items():
        mean, worse = np.clip(found, -1.0, 1.0).mean(), np.mean(np.array(found) < 0.0)
        each = 1e3 * seconds[rule] / len(found)
        print(f"{rule}: mean gain {mean:.3f}, worse on {100 * worse:.2f} %, {each:.0f} ms a log")


if __name__ == "__main__":
    main()
