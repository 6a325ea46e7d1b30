"""Slow, obvious twins of spibb.ope: plain loops over episodes, from the formulas of the papers.

An episode is a list of steps (x, a, r, x', ended), with x' None where it is not known. Letters: g
the discount, pi and b policies (tables of rows), q and v values, w weights, l jackknife values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, t

from spibb.data.log import Log
from spibb.testing import reference

Array = NDArray[np.float64]
Step = tuple[int, int, float, int | None, bool]
Episode = list[Step]


def episodes_of(log: Log) -> list[Episode]:
    """Cut a log into episodes, each up to the first end."""
    found: dict[int, Episode] = {}
    over: set[int] = set()
    assert log.episode is not None
    for row in range(len(log)):
        name = int(log.episode[row])
        if name in over:
            continue
        successor = int(log.next_state[row])
        step = (
            int(log.state[row]),
            int(log.action[row]),
            float(log.reward[row]),
            None if successor < 0 else successor,
            bool(log.terminated[row]),
        )
        found.setdefault(name, []).append(step)
        if log.terminated[row]:
            over.add(name)
    return list(found.values())


def gain(episode: Episode, g: float) -> float:
    """Return the discounted return."""
    return sum(g**k * step[2] for k, step in enumerate(episode))


def weights(episode: Episode, pi: Array, b: Array) -> list[float]:
    """Return w_0, w_1, ..., w_T."""
    found, w = [], 1.0
    for x, a, *_ in episode:
        w = w * float(pi[x, a]) / float(b[x, a])
        found.append(w)
    return found


def importance_sampling(episodes: list[Episode], pi: Array, b: Array, g: float) -> list[float]:
    """Return the terms of IS.

    Example:
        >>> pi, b = np.array([[0.75, 0.25]]), np.array([[0.5, 0.5]])
        >>> importance_sampling([[(0, 0, 2.0, None, True)], [(0, 1, 4.0, None, True)]], pi, b, 0.9)
        [3.0, 2.0]
    """
    return [weights(episode, pi, b)[-1] * gain(episode, g) for episode in episodes]


def per_decision(episodes: list[Episode], pi: Array, b: Array, g: float) -> list[float]:
    """Return the terms of PDIS."""
    found = []
    for episode in episodes:
        w = weights(episode, pi, b)
        found.append(sum(g**k * w[k] * step[2] for k, step in enumerate(episode)))
    return found


def weighted(episodes: list[Episode], pi: Array, b: Array, g: float) -> float:
    """Return the WIS estimate."""
    w = [weights(episode, pi, b)[-1] for episode in episodes]
    total = sum(w)
    if total == 0.0:
        return math.nan
    return sum(w[i] * gain(episode, g) for i, episode in enumerate(episodes)) / total


def stepwise_weighted(episodes: list[Episode], pi: Array, b: Array, g: float) -> float:
    """Return the CWPDIS estimate: ended episodes keep their last weight, with reward 0."""
    every = [weights(episode, pi, b) for episode in episodes]
    total = 0.0
    for k in range(max(len(episode) for episode in episodes)):
        over = under = 0.0
        for episode, w in zip(episodes, every, strict=True):
            if k < len(episode):
                over += w[k] * episode[k][2]
                under += w[k]
            else:
                under += w[-1]
        if under == 0.0:
            return math.nan
        total += g**k * over / under
    return total


def doubly_robust(
    episodes: list[Episode], pi: Array, b: Array, g: float, q: Array, v: Array
) -> list[float]:
    """Return the terms of DR for given Q^ and V^, by the recursion of Jiang and Li."""
    found = []
    for episode in episodes:
        later = 0.0
        for x, a, r, _, _ in reversed(episode):
            later = v[x] + pi[x, a] / b[x, a] * (r + g * later - q[x, a])
        found.append(float(later))
    return found


def model_of(
    episodes: list[Episode], n_states: int, n_actions: int
) -> tuple[Array, Array, NDArray[np.int64]]:
    """Return the maximum-likelihood model of episodes: P, R and counts."""
    rows = [step for episode in episodes for step in episode if step[4] or step[3] is not None]
    return reference.maximum_likelihood(
        [step[0] for step in rows],
        [step[1] for step in rows],
        [step[2] for step in rows],
        [0 if step[3] is None else step[3] for step in rows],
        [step[4] for step in rows],
        n_states,
        n_actions,
    )


def recorded(episodes: list[Episode]) -> list[Episode]:
    """Let every record end with an end, where its last transition is known."""
    found = []
    for episode in episodes:
        x, a, r, successor, ended = episode[-1]
        found.append([*episode[:-1], (x, a, r, successor, ended or successor is not None)])
    return found


def model_value(episodes: list[Episode], pi: Array, g: float) -> float:
    """Return the model-based estimate."""
    p, r, _ = model_of(episodes, *pi.shape)
    v, _ = reference.evaluate(p, r, g, pi)
    return float(np.mean([v[episode[0][0]] for episode in episodes]))


def student_t(terms: Sequence[float], delta: float) -> tuple[float, float]:
    """Return mean -+ s / sqrt(n) t_{1 - delta, n - 1}."""
    n = len(terms)
    mean = sum(terms) / n
    s = math.sqrt(sum((x - mean) ** 2 for x in terms) / (n - 1))
    half = s / math.sqrt(n) * float(t.ppf(1 - delta, n - 1))
    return mean - half, mean + half


def concentration(terms: Sequence[float], c: float, delta: float) -> float:
    """Return Thomas' bound (2015, Theorem 1) as printed, with equal thresholds."""
    y = [min(x, c) for x in terms]
    n = len(y)
    pairs = sum((y_i - y_j) ** 2 for y_i in y for y_j in y)
    return (
        sum(y) / n
        - 7 * c * math.log(2 / delta) / (3 * (n - 1))
        - (1 / n) * math.sqrt(math.log(2 / delta) / (n - 1) * pairs)
    )


def log_wealth(terms: Sequence[float], fractions: Sequence[float], m: float) -> float:
    """Return log K(m), the mean over fractions c of prod_i (1 + c (Y_i / m - 1))."""
    logs = [sum(math.log(1 + c * (y / m - 1)) for y in terms) for c in fractions]
    top = max(logs)
    return top + math.log(sum(math.exp(x - top) for x in logs) / len(logs))


def betting(terms: Sequence[float], fractions: Sequence[float], delta: float) -> float:
    """Return the largest m with K(m) >= 1 / delta, by bisection; 0 where there is none."""
    if not any(terms):
        return 0.0
    low, high = 0.0, max(terms)
    for _ in range(200):
        m = (low + high) / 2
        low, high = (m, high) if log_wealth(terms, fractions, m) >= -math.log(delta) else (low, m)
    return low


def paired_bets(
    episodes: list[Episode], pi: Array, b: Array, g: float, low: float, high: float
) -> list[float]:
    """Return (1 - g) sum_t g^t (1 + (w_t - 1) u_t) with u = (r - low) / (high - low).

    After an end the weight stays and the reward is 0, for ever; where the record stops first,
    nothing more is added. Rewards lie in [low, high], and 0 does.
    """
    found = []
    for episode in episodes:
        total, w = 0.0, 1.0
        for k, (w, step) in enumerate(zip(weights(episode, pi, b), episode, strict=True)):
            total += (1 - g) * g**k * (1 + (w - 1) * (step[2] - low) / (high - low))
        if episode[-1][4]:
            total += g ** len(episode) * (1 + (w - 1) * (0.0 - low) / (high - low))
        found.append(total)
    return found


def bca(
    statistic: Callable[[list[int]], float],
    resamples: Sequence[Sequence[int]],
    n: int,
    delta: float,
) -> tuple[float, float]:
    """Return both BCa bounds for a function of episode numbers, on given resamples."""
    theta = statistic(list(range(n)))
    replicates = [statistic(list(resample)) for resample in resamples]
    below = sum(1.0 if r < theta else 0.5 if r == theta else 0.0 for r in replicates)
    z0 = float(norm.ppf(below / len(replicates)))
    without = [statistic([k for k in range(n) if k != i]) for i in range(n)]
    middle = sum(without) / n
    l = [middle - value for value in without]  # noqa: E741
    a = sum(x**3 for x in l) / (6 * sum(x**2 for x in l) ** 1.5)
    ends = []
    for level in (delta, 1 - delta):
        z = float(norm.ppf(level))
        alpha = float(norm.cdf(z0 + (z0 + z) / (1 - a * (z0 + z))))
        ends.append(float(np.quantile(replicates, alpha)))
    return ends[0], ends[1]


def hcpi(
    train_folds: list[list[Episode]],
    test: list[Episode],
    baseline: Array,
    g: float,
    mixtures: Sequence[float],
    delta: float,
    pessimism: float,
) -> tuple[Array, int, float]:
    """Run HCPI with doubly robust terms and Student's t, for given folds and test episodes.

    The effective sample size is not looked at.

    Returns:
        The policy that is tested, the number of its mixture, and the lower bound on its gain.
    """
    train = [episode for fold in train_folds for episode in fold]
    scale = _residual_scale(train, baseline, g)
    gains: list[list[float]] = [[] for _ in mixtures]
    for k, fold in enumerate(train_folds):
        others = [e for j, part in enumerate(train_folds) if j != k for e in part]
        greedy = _greedy_on_support(others, g, baseline)
        p, r, n_sa = model_of(recorded(others), *baseline.shape)
        q_b = reference.evaluate(p, r, g, baseline)[1]
        q_greedy = reference.evaluate(p, _lowered(r, n_sa, pessimism * scale), g, greedy)[1]
        for c, m in enumerate(mixtures):
            pi, q = (1 - m) * greedy + m * baseline, (1 - m) * q_greedy + m * q_b
            gains[c] += _paired_gains(fold, pi, baseline, g, q, q_b)
    bounds = [_lower(terms, len(test), delta) for terms in gains]
    best = bounds.index(max(bounds))
    greedy = _greedy_on_support(train, g, baseline)
    pi = (1 - mixtures[best]) * greedy + mixtures[best] * baseline
    p, r, n_sa = model_of(recorded(train), *baseline.shape)
    q_b = reference.evaluate(p, r, g, baseline)[1]
    q = reference.evaluate(p, _lowered(r, n_sa, pessimism * scale), g, pi)[1]
    return pi, best, _lower(_paired_gains(test, pi, baseline, g, q, q_b), len(test), delta)


def _residual_scale(episodes: list[Episode], b: Array, g: float) -> float:
    """Return the root mean square of r + g V_b(x') - Q_b(x, a) in the model of the records."""
    p, r, _ = model_of(recorded(episodes), *b.shape)
    v, q = reference.evaluate(p, r, g, b)
    squares = []
    for episode in episodes:
        for x, a, reward, successor, ended in episode:
            if ended or successor is not None:
                later = 0.0 if ended or successor is None else v[successor]
                squares.append((reward + g * later - q[x, a]) ** 2)
    return math.sqrt(sum(squares) / len(squares))


def _lowered(r: Array, n_sa: NDArray[np.int64], scale: float) -> Array:
    """Lower rewards by standard errors; a pair never seen counts as seen once."""
    found = r.copy()
    for x in range(len(r)):
        for a in range(len(r[x])):
            found[x, a] -= scale / math.sqrt(max(n_sa[x, a], 1))
    return found


def _paired_gains(
    episodes: list[Episode], pi: Array, b: Array, g: float, q: Array, q_b: Array
) -> list[float]:
    mine = doubly_robust(episodes, pi, b, g, q, (pi * q).sum(axis=1))
    theirs = doubly_robust(episodes, b, b, g, q_b, (b * q_b).sum(axis=1))
    return [x - y for x, y in zip(mine, theirs, strict=True)]


def _lower(terms: list[float], n_tested: int, delta: float) -> float:
    n = len(terms)
    mean = sum(terms) / n
    s = math.sqrt(sum((x - mean) ** 2 for x in terms) / (n - 1))
    return mean - s / math.sqrt(n_tested) * float(t.ppf(1 - delta, n_tested - 1))


def _greedy_on_support(episodes: list[Episode], g: float, baseline: Array) -> Array:
    """Solve the model by policy iteration over the actions that the baseline takes."""
    p, r, _ = model_of(episodes, *baseline.shape)

    def row(q: Array, x: int) -> Array:
        return reference.pi_leq_b_row(q, baseline[x], baseline[x] > 0.0)

    return reference.policy_iteration(p, r, g, baseline, row)[0]
