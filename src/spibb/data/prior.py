r"""What is expected of a pair before it is tried: a prior whose strengths the log itself decides.

    P(. | x, a) ~ Dirichlet(m p(. | x, a)),   p(. | x, a) = (n_x + c g) / (N_x + c)

n_x counts what followed state x, whatever was done there, g is what follows a pair of the log
anywhere. A large m says that pairs are much alike, a small c that actions of a state are.

g is the maximum of the Dirichlet-multinomial likelihood of all pairs (Minka's fixed point,
"Estimating a Dirichlet distribution", 2000). Frequencies in its place would count frequent pairs
many times, and make goals too likely. c and m then are the maximum of the likelihood of each pair
given the *other* actions of its state (n_x,-a for n_x), for each kind of states
(spibb.data.kinds): a pseudo-likelihood, since each pair stands in the prior of the others. What
those do is itself known by their rows alone, hence 1 / m + 1 / (N_x,-a + c) in place of 1 / m. A
hyper-prior m / (1 + m)^2 on m (median 1) speaks where the log says nothing: three rows that never
repeat are as likely under any strength, and must not be taken for certainty.

The mean is towards *all* that followed a state: towards what the others did, a strong prior would
give a usual action what rare ones do and them what it does, and turn round what was seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.data.kinds import expected_strength, kinds
from spibb.data.outcomes import Outcomes

Array = NDArray[np.float64]

# Rows that g is worth beside the other actions of a state; infinite: those are ignored.
SHARES = (0.5, 2.0, 8.0, 32.0, math.inf)
# Rows that the prior is worth.
STRENGTHS = tuple(2.0**k for k in range(-2, 9))
_N_STEPS = 100
_TOLERANCE = 1e-4
_LARGEST_STRENGTH = 1e4
# Longer sums are done by series.
_LONGEST_SUM = 16


class Prior(NamedTuple):
    """The prior of a log.

    Attributes:
        frequencies: g, shape (S + 1,); the last is the end.
        share: c of each state, shape (S,).
        strength: m of each state, shape (S,).
    """

    frequencies: Array
    share: Array
    strength: Array

    @classmethod
    def of(cls, outcomes: Outcomes) -> Prior:
        """Find the prior under which the log is most likely."""
        rows = outcomes.indptr, outcomes.indices, outcomes.counts
        frequencies = _frequencies(*rows, outcomes.n_states + 1)
        shares, strengths = np.array(SHARES), np.array(STRENGTHS)
        likelihood = _likelihoods(*rows, outcomes.n_sa, frequencies, shares, strengths)
        expected = np.tile(expected_strength(strengths), len(shares))
        found = kinds(likelihood.reshape(len(likelihood), -1), expected)
        return cls(frequencies, shares[found // len(strengths)], strengths[found % len(strengths)])


def alike(n: Array, strengths: Sequence[float]) -> tuple[Array, float]:
    """Return g and m of rows of counts that are drawn alike, each from a Dirichlet(m g) of its own.

    Args:
        n: Counts, shape (rows, outcomes).
        strengths: Among which m is found.

    Example:
        >>> g, m = alike(np.array([[9.0, 1.0], [1.0, 9.0]]), (0.5, 2.0, 100.0))
        >>> g.round(6).tolist(), m
        ([0.5, 0.5], 2.0)
    """
    row, outcome = np.nonzero(n)
    indptr = np.append(0, np.bincount(row, minlength=len(n)).cumsum()).astype(np.int64)
    rows = indptr, outcome.astype(np.int32), np.ascontiguousarray(n[row, outcome])
    g, tried = _frequencies(*rows, n.shape[1]), np.array(strengths)
    ignored = np.array([math.inf])  # rows have no others of their state
    found = _likelihoods(*rows, n.sum(axis=1, keepdims=True), g, ignored, tried).sum(axis=0)[0]
    return g, float(tried[int((found + expected_strength(tried)).argmax())])


@jit
def _digamma(x):  # type: ignore[no-untyped-def]
    """Return psi(x), x > 0, by its recurrence and its asymptotic series."""
    total = 0.0
    while x < 6.0:
        total -= 1.0 / x
        x += 1.0
    square = 1.0 / (x * x)
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240)))
    return total + math.log(x) - 0.5 / x - series


@jit
def _rise(n, a):  # type: ignore[no-untyped-def]
    """Return psi(n + a) - psi(a) for a whole number n."""
    if n <= _LONGEST_SUM:
        total = 0.0
        for k in range(int(n)):
            total += 1.0 / (a + k)
        return total
    return _digamma(n + a) - _digamma(a)


@jit
def _frequencies(indptr, indices, counts, n_outcomes):  # type: ignore[no-untyped-def]
    """Return g by Minka's fixed point."""
    alpha = np.zeros(n_outcomes)
    for k in range(len(indices)):
        alpha[indices[k]] += 1.0
    alpha *= 2.0 / max(alpha.sum(), 1.0)
    risen = np.empty(n_outcomes)
    for _ in range(_N_STEPS):
        m, fall = alpha.sum(), 0.0
        risen[:] = 0.0
        for pair in range(len(indptr) - 1):
            n = 0.0
            for k in range(indptr[pair], indptr[pair + 1]):
                n += counts[k]
                risen[indices[k]] += _rise(counts[k], alpha[indices[k]])
            fall += _rise(n, m)
        if fall <= 0.0:
            break
        moved = 0.0
        for y in range(n_outcomes):
            new = alpha[y] * risen[y] / fall
            moved = max(moved, abs(new - alpha[y]))
            alpha[y] = new
        if moved <= _TOLERANCE * m or alpha.sum() > _LARGEST_STRENGTH:
            break
    return alpha / max(alpha.sum(), 1e-300)


@jit
def _likelihoods(indptr, indices, counts, n_sa, g, shares, strengths):  # type: ignore[no-untyped-def]
    """Return the logarithm of the likelihood of each state's pairs, (S, shares, strengths)."""
    n_states, n_actions = n_sa.shape
    found = np.zeros((n_states, len(shares), len(strengths)))
    followed = np.zeros(len(g))  # of a state, over all of its actions
    for x in range(n_states):
        first, last = indptr[x * n_actions], indptr[(x + 1) * n_actions]
        n_x = n_sa[x].sum()
        for k in range(first, last):
            followed[indices[k]] += counts[k]
        for a in range(n_actions):
            n = n_sa[x, a]
            if n == 0.0:
                continue
            pair = x * n_actions + a
            for i, c in enumerate(shares):
                for j, strength in enumerate(strengths):
                    # What the others do is itself known by their rows alone.
                    m = strength
                    if not math.isinf(c):
                        m = 1.0 / (1.0 / strength + 1.0 / (n_x - n + c))
                    total = math.lgamma(m) - math.lgamma(n + m)
                    for k in range(indptr[pair], indptr[pair + 1]):
                        y, p = indices[k], g[indices[k]]
                        if not math.isinf(c):
                            p = (followed[y] - counts[k] + c * p) / (n_x - n + c)
                        p = max(p, 1e-12)
                        total += math.lgamma(counts[k] + m * p) - math.lgamma(m * p)
                    found[x, i, j] += total
        for k in range(first, last):
            followed[indices[k]] = 0.0
    return found
