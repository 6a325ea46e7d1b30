"""Does this baseline make these actions? A likelihood ratio whose level is exact.

Against the baseline b stands a mixture: in each state the log was made by a policy drawn from
Dirichlet(c b(. | x)), with c one of a few numbers, far from b or close to it. The ratio of the two
likelihoods, as a function of the counts n(x, a) with sums n(x),

    E = mean over c of  prod_x  Gamma(c) / Gamma(c + n(x))
                        prod_a  Gamma(c b + n(x, a)) / (Gamma(c b) b^n(x, a)),

is the wealth of a gambler who bets on each action before it is taken. If b takes the actions, no
bet gains on average, whatever the process does and whenever the log stops: E is a non-negative
martingale, P(E >= 1 / p) <= p by Ville's inequality, and 1 / E is a p-value at any number of rows a
state. No state is too small for it, and none has to be left out.

How far they are apart is another question: the total variation between b and the frequencies of
the log, averaged over rows, minus what it would be by chance if b had made the log.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from spibb.compiled.jit import jit
from spibb.errors import PolicyError
from spibb.mdp.policy import TabularPolicy

Array = NDArray[np.float64]

# How close alternatives are to the baseline: as close as frequencies of so many rows.
_CLOSENESS = np.array([1.0, 10.0, 100.0, 1e3, 1e4, 1e5])
# Both are needed to refuse a baseline: chance is ruled out, and the difference matters.
REFUSED_P, REFUSED_DISTANCE = 1e-6, 0.02
# Statements that need the baseline to have made the log are made at p-values from here on alone,
# however small the difference: of right baselines at most one log of a hundred is turned away.
FIT_LEVEL = 0.01


@dataclass(frozen=True, eq=False)
class BaselineFit:
    """How well a baseline fits the actions of a log.

    Attributes:
        p_value: Probability, at most, of such a log if the baseline made it.
        distance: Mean total variation over the rows beyond what chance makes of it.
        evidence: Logarithm of the likelihood ratio, state by state, shape (S,).
        by_state: Total variation beyond chance, state by state, shape (S,).
    """

    p_value: float
    distance: float
    evidence: Array
    by_state: Array

    @property
    def is_refused(self) -> bool:
        """Whether the baseline cannot be taken for the policy that made the log."""
        return self.p_value < REFUSED_P and self.distance > REFUSED_DISTANCE


def baseline_fit(n_sa: NDArray[np.int64], probabilities: Array) -> BaselineFit:
    """Hold a baseline to the actions of a log.

    Args:
        n_sa: How often each action was taken, shape (S, A).
        probabilities: The baseline. Where an action has probability 0 and was taken, p is 0.

    Example:
        >>> n_sa, coin = np.array([[30, 30], [2, 1]]), np.array([[0.5, 0.5]] * 2)
        >>> baseline_fit(n_sa, coin).p_value
        1.0
        >>> found = baseline_fit(np.array([[60, 0], [2, 1]]), coin)
        >>> found.p_value < 1e-14, round(found.distance, 2)
        (True, 0.42)
    """
    by_state = _ratios(n_sa, probabilities)
    total = by_state.sum(axis=1)
    distance = _distances(n_sa, probabilities)
    n = n_sa.sum(axis=1)
    return BaselineFit(
        p_value=math.exp(min(0.0, -_log_mean(total))),
        distance=float(np.average(distance, weights=n)) if n.any() else 0.0,
        evidence=by_state[int(np.argmax(total))],
        by_state=distance,
    )


def check_fit(n_sa: NDArray[np.int64], baseline: TabularPolicy, role: str = "baseline") -> None:
    """Refuse a baseline that the log contradicts beyond chance, and by more than it may be off."""
    b = baseline.probabilities
    if _log_ratio(n_sa, b, _CLOSENESS) <= -math.log(REFUSED_P):
        return  # the distance, which takes longer, cannot matter
    fit = baseline_fit(n_sa, b)
    if not fit.is_refused:
        return
    worst = int(np.argmax(fit.evidence))
    taken, n = n_sa[worst], int(n_sa[worst].sum())
    action = int(np.argmax(np.abs(taken / n - b[worst])))
    raise PolicyError(
        f"the {role} does not make the actions of this log: {told_fit(fit)}",
        where=f"state {baseline.states[worst]}, where {baseline.actions[action]} was taken in "
        f"{int(taken[action])} of {n} rows, and the baseline gives it "
        f"{b[worst, action]:.3g}",
        expected="the policy that made the log",
        hint="check that the policy belongs to this log ('spibb inspect' lists the states), "
        "estimate it from the log (--baseline estimate), or go on all the same "
        "(--accept-baseline, in Python accept_baseline=True)",
    )


def told_fit(fit: BaselineFit) -> str:
    """Return how far a baseline is from a log, in words."""
    told = f"{fit.p_value:.1g}" if fit.p_value >= 1e-300 else "1e-300"
    return (
        f"they differ by a total variation of {fit.distance:.2g} on average, beyond chance "
        f"(p {'=' if fit.p_value >= 1e-300 else '<'} {told})"
    )


def _ratios(n_sa: NDArray[np.int64], b: Array) -> Array:
    """Return logarithms of likelihood ratios by closeness and state."""
    found = np.empty((len(_CLOSENESS), len(n_sa)))
    _write_ratios(n_sa, b, _CLOSENESS, found)
    return found


@jit
def _log_mean(logarithms):  # type: ignore[no-untyped-def]
    """Return the logarithm of the mean of numbers whose logarithms are given."""
    largest = logarithms.max()
    if math.isinf(largest):
        return largest
    return largest + math.log(np.exp(logarithms - largest).mean())


@jit
def _log_ratio(n_sa, b, closeness):  # type: ignore[no-untyped-def]
    """Return the logarithm of E; every problem of a batch asks for it, and NumPy takes longer."""
    found = np.empty((len(closeness), len(n_sa)))
    _write_ratios(n_sa, b, closeness, found)
    return _log_mean(found.sum(axis=1))


@jit
def _write_ratios(n_sa, b, closeness, found):  # type: ignore[no-untyped-def]
    """Write logarithms of likelihood ratios by closeness and state."""
    for i in range(len(closeness)):
        c = closeness[i]
        for x in range(len(n_sa)):
            n, ratio = 0, 0.0
            for a in range(n_sa.shape[1]):
                k, p = n_sa[x, a], b[x, a]
                n += k
                if k > 0 and p == 0.0:
                    ratio = math.inf  # the baseline never does it
                elif k > 0:
                    ratio += math.lgamma(c * p + k) - math.lgamma(c * p) - k * math.log(p)
            found[i, x] = ratio + math.lgamma(c) - math.lgamma(c + n)


def _distances(n_sa: NDArray[np.int64], b: Array) -> Array:
    """Return total variations minus their expectations under the baseline, by state."""
    found = np.zeros(len(n_sa))
    met = np.flatnonzero(n_sa.sum(axis=1))
    # Tables of many states are gone through in parts: several of their size are needed at once.
    for part in np.array_split(met, max(1, len(met) * n_sa.shape[1] // 4_000_000)):
        k, p = n_sa[part].astype(np.float64), b[part]
        n = k.sum(axis=1, keepdims=True)
        off = np.abs(k - n * p) - _mean_deviation(n, p)
        found[part] = off.sum(axis=1) / (2.0 * n[:, 0])
    return found


def _mean_deviation(n: Array, p: Array) -> Array:
    """Return E|K - n p| of a binomial number K, by de Moivre's formula."""
    m = np.minimum(np.floor(n * p) + 1.0, n)
    inner = gammaln(n + 1.0) - gammaln(m + 1.0) - gammaln(n - m + 1.0)
    return 2.0 * m * np.exp(inner + xlogy(m, p) + xlogy(n - m + 1.0, 1.0 - p))
