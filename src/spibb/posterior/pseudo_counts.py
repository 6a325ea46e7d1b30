"""How much the actions of a state differ: the posterior of a pseudo-count, state by state.

Let y = r + gamma V(x') be the outcome of a row. Within a pair of state and action, y has variance
s_x^2. The means of the actions of a state are exchangeable, N(mu_x, s_x^2 / m). The pseudo-count m
is large where actions are alike. With a flat prior on mu_x and an inverse gamma prior on s_x^2, the
likelihood of m is a multivariate t.

States belong to one of two groups, each with its own m. The prior of both is flat in log m above 1.
It has some mass on m = infinity, where actions do not differ at all. All parameters are on a grid,
so that the posterior is a sum.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from spibb.posterior.steps import PairSums

Array = NDArray[np.float64]

# Values of m; the last stands for infinity.
PSEUDO_COUNTS = np.concatenate([0.25 * 2.0 ** np.arange(14), [1e6]])
# Pseudo-counts of the variance of a state, and shares of the first group of states.
_VARIANCE_ROWS = 2.0 ** np.arange(1, 8, 2.0)
_SHARES = np.array([0.05, 0.2, 0.5, 0.8, 0.95])
# Combinations of group parameters that are kept.
_N_COMBINATIONS = 60


class Mixture(NamedTuple):
    """The posterior of m.

    Attributes:
        mean: Probability of each value of m in each state, shape (M, S).
        weights: Probabilities of combinations of group parameters, shape (L,).
        parts: Probability of each value of m given a combination, shape (L, M, S).
        evidence: Logarithm of the marginal likelihood.
    """

    mean: Array
    weights: Array
    parts: Array
    evidence: float = 0.0


def prior_of_pseudo_counts(equal_actions: float) -> Array:
    """Return the prior on the grid.

    Args:
        equal_actions: Probability of the last value.
    """
    found = PSEUDO_COUNTS**2 / (1.0 + PSEUDO_COUNTS) ** 2
    found[-1] = 0.0
    found *= (1.0 - equal_actions) / found.sum()
    found[-1] = equal_actions
    return np.asarray(found)


def outcome_likelihood(
    sums: PairSums, mean: Array, scatter: Array, variance: float
) -> tuple[Array, float]:
    """Return log likelihoods of m by state, shape (M, S), and the pseudo-count of the variance.

    Args:
        sums: Sums by pair.
        mean: Mean outcome of each pair, shape (S, A).
        scatter: Sum of squared deviations from it, shape (S, A).
        variance: Prior variance of an outcome.
    """
    n, m = sums.n, PSEUDO_COUNTS[:, None, None]
    w = n * m / (n + m)
    total = np.maximum(w.sum(axis=2), 1e-300)
    centre = (w * mean).sum(axis=2) / total
    between = (w * (mean - centre[:, :, None]) ** 2).sum(axis=2)
    squares = (scatter.sum(axis=1) + between)[:, None, :]
    shape = 0.5 * np.log(m / (n + m)).sum(axis=2, where=n > 0) - 0.5 * np.log(total)
    rows = _VARIANCE_ROWS[None, :, None]
    freedom = rows + sums.of_state - 1.0
    found = shape[:, None, :] + gammaln(freedom / 2) - gammaln(rows / 2)
    found += rows / 2 * np.log(rows * variance) - freedom / 2 * np.log(rows * variance + squares)
    found *= sums.of_state > 1
    best = found.max(axis=0).sum(axis=1)
    weight = np.exp(best - best.max())
    weight /= weight.sum()
    return np.einsum("mns,n->ms", found, weight), float(weight @ _VARIANCE_ROWS)


def mix_groups(likelihood: Array, prior: Array) -> Mixture:
    """Return the posterior of m in two groups of states.

    Args:
        likelihood: Log likelihoods of m by state, shape (M, S).
        prior: Prior of the m of a group, shape (M,).
    """
    e = likelihood - likelihood.max(axis=0)
    first, second = np.triu_indices(len(prior))
    apart = max(1.0 - float((prior**2).sum()), 1e-9)
    prior_of_pair = np.where(
        first == second, 0.5 * prior[first], prior[first] * prior[second] / apart
    )
    log_prior = np.log(np.maximum(prior_of_pair, 1e-300))
    # Logarithms: a state may be far from likely in both groups.
    scores = [
        np.logaddexp(np.log(share) + e[first], np.log(1.0 - share) + e[second]).sum(axis=1)
        + log_prior
        for share in _SHARES
    ]
    score = np.concatenate(scores)
    order = np.argsort(-score, kind="stable")[:_N_COMBINATIONS]
    weights = np.exp(score[order] - score[order[0]])
    weights /= weights.sum()
    share, pair = _SHARES[order // len(first)][:, None], order % len(first)
    places, parts = np.arange(len(order)), np.zeros((len(order), *e.shape))
    of_first, of_second = np.log(share) + e[first[pair]], np.log(1.0 - share) + e[second[pair]]
    total = np.logaddexp(of_first, of_second)
    parts[places, first[pair]] += np.exp(of_first - total)
    parts[places, second[pair]] += np.exp(of_second - total)
    of_shares = math.log(len(_SHARES))
    evidence = float(likelihood.max(axis=0).sum() + np.logaddexp.reduce(score)) - of_shares
    return Mixture(np.einsum("l,lms->ms", weights, parts), weights, parts, evidence)
