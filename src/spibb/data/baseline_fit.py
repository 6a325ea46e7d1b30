"""Does this baseline make these actions? A likelihood ratio whose level is exact.

Three kinds of alternatives stand against the baseline b. With counts n(x, a) and their sums n(x):

1. State by state. In each state the log was made by a policy drawn from Dirichlet(c b(. | x)), with
   c one of a few numbers, far from b or close to it:

    E_1 = mean over c of  prod_x  Gamma(c) / Gamma(c + n(x))
                          prod_a  Gamma(c b + n(x, a)) / (Gamma(c b) b^n(x, a)).

   A state seen once says nothing here: its factor is 1, whatever was done in it.

2. Over all states. A score s(x, a) is that an action was taken, 1{a = a'}, or how likely the taken
   action is, b(a | x). Summed over rows, it differs from what b makes of it by

    D = sum_{x, a} n(x, a) s(x, a)  -  sum_x n(x) E_b[s(x, .)],
    C(t) = sum_x n(x) min{(e^t - 1 - t) Var_b[s(x, .)], t^2 / 8},
    E_2 = mean over scores, signs and tilts t of  exp(+-t D - C(t)).

   By the inequalities of Bennett and Hoeffding no row multiplies a term by more than 1 on average.

3. In half of the states. States with many rows hide in D what was done in many rare ones. Each
   state follows b or the tilted policy with probability 1/2, by its own D(x) and C(t, x):

    E_3 = mean over scores, signs and two tilts of  prod_x  (1 + exp(+-t D(x) - C(t, x))) / 2.

E = E_1 / 2 + E_2 / 4 + E_3 / 4 is the wealth of a gambler who bets on each action before it is
taken. If b takes the actions, no bet gains on average, whatever the process does and whenever the
log stops: E is a non-negative supermartingale, P(E >= 1 / p) <= p by Ville's inequality, and 1 / E
is a p-value at any number of rows a state. No state is too small for it, and none is left out.

How far they are apart is another question: the total variation between b and the frequencies of
the log, averaged over rows, minus what it would be by chance if b had made the log. Rows of states
seen once hardly show it; sums of scores over all rows bound it from below, and the largest counts.
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
from spibb.names import Names
from spibb.words import several

Array = NDArray[np.float64]

# How close alternatives are to the baseline: as close as frequencies of so many rows.
_CLOSENESS = np.array([1.0, 10.0, 100.0, 1e3, 1e4, 1e5])
# How much more likely a score is made, over all states and in half of them.
_TILTS = 2.0 ** np.arange(-9.0, 3.0)
_HALF_TILTS = np.array([0.5, 2.0])
# Below the first, a state's factor is 1/2; above the second, it is half of its exponential.
_LEAST_EXPONENT, _MOST_EXPONENT = -40.0, 40.0
# Which states are described together: those with at most so many rows each.
_RARE = (1, 10, 100)
# The mean deviation of a normal number, in standard deviations: sums over rows are close to one.
_NORMAL_DEVIATION = math.sqrt(2.0 / math.pi)
# Both are needed to refuse a baseline: chance is ruled out, and the difference matters.
REFUSED_P, REFUSED_DISTANCE = 1e-6, 0.02
# Statements that need the baseline to have made the log are made at p-values from here on alone,
# however small the difference: of right baselines at most one log of a hundred is turned away.
FIT_LEVEL = 0.01


@dataclass(frozen=True)
class Pooled:
    """What was done in many states together, and what the baseline would do there.

    Attributes:
        action: Index of the action; None: how likely the baseline makes the logged actions.
        taken: Its rows, or the sum of the baseline's probabilities of logged actions.
        expected: The mean of that if the baseline acted.
        n_rows: The rows of these states.
        n_states: How many states they are.
        most_rows: The most rows that any of them has; None: they are all states of the log.
    """

    action: int | None
    taken: float
    expected: float
    n_rows: int
    n_states: int
    most_rows: int | None


@dataclass(frozen=True, eq=False)
class BaselineFit:
    """How well a baseline fits the actions of a log.

    Attributes:
        p_value: Probability, at most, of such a log if the baseline made it.
        distance: Mean total variation over the rows beyond what chance makes of it.
        evidence: Logarithm of the likelihood ratio, state by state, shape (S,).
        by_state: Total variation beyond chance, state by state, shape (S,).
        pooled: What contradicts the baseline most over many states; None: single states do.
    """

    p_value: float
    distance: float
    evidence: Array
    by_state: Array
    pooled: Pooled | None = None

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
        (True, 0.43)
        >>> once = np.tile([[1, 0]], (60, 1))
        >>> baseline_fit(once, np.full((60, 2), 0.5)).p_value < 1e-10
        True
    """
    by_state = _ratios(n_sa, probabilities)
    total = by_state.sum(axis=1)
    every, half = _over_states(n_sa, probabilities)
    distance = _distances(n_sa, probabilities)
    n = n_sa.sum(axis=1)
    evidence, pooled = by_state[int(np.argmax(total))], None
    if max(every.max(), half.max()) > total.max():
        evidence, pooled = _pooled_evidence(n_sa, probabilities, every, half)
    mean = float(np.average(distance, weights=n)) if n.any() else 0.0
    return BaselineFit(
        p_value=math.exp(min(0.0, -_log_mean_of_kinds(total, every, half))),
        distance=max(mean, _pooled_distance(n_sa, probabilities)),
        evidence=evidence,
        by_state=distance,
        pooled=pooled,
    )


def check_fit(n_sa: NDArray[np.int64], baseline: TabularPolicy, role: str = "baseline") -> None:
    """Refuse a baseline that the log contradicts beyond chance, and by more than it may be off."""
    b = baseline.probabilities
    if _log_ratio(n_sa, b) <= -math.log(REFUSED_P):
        return  # the distance, which takes longer, cannot matter
    fit = baseline_fit(n_sa, b)
    if not fit.is_refused:
        return
    raise PolicyError(
        f"the {role} does not make the actions of this log: {format_fit(fit)}",
        where=_told_state(fit, n_sa, baseline)
        if fit.pooled is None
        else format_pooled_fit(fit.pooled, baseline.actions),
        expected="the policy that made the log",
        hint="check that the policy belongs to this log ('spibb inspect' lists the states), "
        "estimate it from the log (--baseline estimate), or go on all the same "
        "(--accept-baseline, in Python accept_baseline=True)",
    )


def _told_state(fit: BaselineFit, n_sa: NDArray[np.int64], baseline: TabularPolicy) -> str:
    """Return in words which state contradicts a baseline most."""
    worst = int(np.argmax(fit.evidence))
    row, taken, n = baseline.probabilities[worst], n_sa[worst], int(n_sa[worst].sum())
    action = int(np.argmax(np.abs(taken / n - row)))
    return (
        f"state {baseline.states[worst]}, where {baseline.actions[action]} was taken in "
        f"{int(taken[action])} of {n} rows, and the baseline gives it {row[action]:.3g}"
    )


def format_pooled_fit(pooled: Pooled, actions: Names) -> str:
    """Return in words what was done in many states together."""
    most = pooled.most_rows
    states = several(pooled.n_states, "state")
    where = states if most is None else f"{states} with at most {several(most, 'row')} each"
    if pooled.action is None:
        taken, expected = pooled.taken / pooled.n_rows, pooled.expected / pooled.n_rows
        return (
            f"{where}, where the baseline gives the logged actions a mean probability of "
            f"{taken:.3g}, and would give its own {expected:.3g}"
        )
    return (
        f"{where}, where {actions[pooled.action]} was taken in {pooled.taken:,.0f} of "
        f"{pooled.n_rows:,} rows, and the baseline would take it in {pooled.expected:,.0f}"
    )


def format_fit(fit: BaselineFit) -> str:
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
def _log_mean_of_kinds(total, every, half):  # type: ignore[no-untyped-def]
    """Return the logarithm of E, of logarithms of the likelihood ratios of the three kinds."""
    single = _log_mean(total)
    # Twice: what single states say is worth half of all bets.
    kinds = np.array([single, single, _log_mean(every.ravel()), _log_mean(half.ravel())])
    return _log_mean(kinds)


@jit
def _log_ratio(n_sa, b):  # type: ignore[no-untyped-def]
    """Return the logarithm of E; every problem of a batch asks for it, and NumPy takes longer."""
    found = np.empty((len(_CLOSENESS), len(n_sa)))
    _write_ratios(n_sa, b, _CLOSENESS, found)
    every, half = _over_states(n_sa, b)
    return _log_mean_of_kinds(found.sum(axis=1), every, half)


@jit
def _write_ratios(n_sa, b, closeness, found):  # type: ignore[no-untyped-def]
    """Write logarithms of likelihood ratios by closeness and state."""
    size = np.array([math.lgamma(c) for c in closeness])
    for x in range(len(n_sa)):
        n, likelihood, is_possible = 0, 0.0, True
        for a in range(n_sa.shape[1]):
            k, p = n_sa[x, a], b[x, a]
            n += k
            if k > 0 and p == 0.0:
                is_possible = False  # the baseline never does it
            elif k > 0:
                likelihood += k * math.log(p)
        for i in range(len(closeness)):
            c = closeness[i]
            ratio = (-likelihood if is_possible else math.inf) + size[i] - math.lgamma(c + n)
            for a in range(n_sa.shape[1]):
                k, p = n_sa[x, a], b[x, a]
                if k > 0 and p > 0.0:
                    ratio += math.lgamma(c * p + k) - math.lgamma(c * p)
            found[i, x] = ratio


@jit
def _over_states(n_sa, b):  # type: ignore[no-untyped-def]
    """Return logarithms of likelihood ratios over all states, and in half of them.

    Both are by score, sign and tilt. The last score is the baseline's own probability.
    """
    n_states, n_actions = n_sa.shape
    off, costs = np.zeros(n_actions + 1), np.zeros((n_actions + 1, len(_TILTS)))
    shape = (n_actions + 1, 2, len(_HALF_TILTS))
    product, half = np.ones(shape), np.zeros(shape)
    steepness, most = np.exp(_TILTS) - 1.0 - _TILTS, _TILTS**2 / 8.0
    half_steepness, half_most = np.exp(_HALF_TILTS) - 1.0 - _HALF_TILTS, _HALF_TILTS**2 / 8.0
    for x in range(n_states):
        n, likely, second, third = 0, 0.0, 0.0, 0.0
        for a in range(n_actions):
            k, p = n_sa[x, a], b[x, a]
            n += k
            likely += k * p
            second += p * p
            third += p * p * p
        if n == 0:
            continue
        for s in range(n_actions + 1):
            if s < n_actions:
                d, variance = n_sa[x, s] - n * b[x, s], b[x, s] * (1.0 - b[x, s])
            else:
                d, variance = likely - n * second, max(0.0, third - second * second)
            off[s] += d
            for j in range(len(_TILTS)):
                costs[s, j] += n * min(steepness[j] * variance, most[j])
            for j in range(len(_HALF_TILTS)):
                cost = n * min(half_steepness[j] * variance, half_most[j])
                for sign in range(2):
                    tilted = d if sign == 0 else -d
                    exponent = _HALF_TILTS[j] * tilted - cost
                    if exponent > _MOST_EXPONENT:
                        half[s, sign, j] += exponent - math.log(2.0)
                    elif exponent > _LEAST_EXPONENT:
                        product[s, sign, j] *= 0.5 + 0.5 * math.exp(exponent)
                    else:
                        product[s, sign, j] *= 0.5
                    # One logarithm for many states: it would take as long as all else.
                    if not 1e-100 < product[s, sign, j] < 1e100:
                        half[s, sign, j] += math.log(product[s, sign, j])
                        product[s, sign, j] = 1.0
    half += np.log(product)
    every = np.empty((n_actions + 1, 2, len(_TILTS)))
    for j in range(len(_TILTS)):
        every[:, 0, j] = _TILTS[j] * off - costs[:, j]
        every[:, 1, j] = -_TILTS[j] * off - costs[:, j]
    return every, half


def _by_state(n_sa: NDArray[np.int64], b: Array, score: int) -> tuple[Array, Array, Array]:
    """Return sums of a score by state, and mean and variance of a row under the baseline."""
    if score < n_sa.shape[1]:
        p = b[:, score]
        return n_sa[:, score].astype(np.float64), p, p * (1.0 - p)
    second = np.einsum("xa,xa->x", b, b)  # without a table beside the two
    variance = np.maximum(np.einsum("xa,xa,xa->x", b, b, b) - second**2, 0.0)
    return np.einsum("xa,xa->x", n_sa, b), second, variance


def _pooled_evidence(
    n_sa: NDArray[np.int64], b: Array, every: Array, half: Array
) -> tuple[Array, Pooled]:
    """Return the likelihood ratio of the best alternative over states, state by state, in logs."""
    is_half = bool(half.max() > every.max())
    ratios, tilts = (half, _HALF_TILTS) if is_half else (every, _TILTS)
    score, sign, j = (int(k) for k in np.unravel_index(int(np.argmax(ratios)), ratios.shape))
    n = n_sa.sum(axis=1)
    taken, mean, variance = _by_state(n_sa, b, score)
    expected, tilt = n * mean, float(tilts[j])
    off = (taken - expected) * (1 - 2 * sign)
    cost = np.minimum((math.exp(tilt) - 1.0 - tilt) * variance, tilt**2 / 8.0)
    evidence = tilt * off - n * cost
    if is_half:
        evidence = np.logaddexp(0.0, evidence) - math.log(2.0)
    best, found = -math.inf, None
    # Frequent states hide what is done in rare ones: those that show it best are described.
    for most in (*_RARE, None):
        met = (n > 0) if most is None else (n > 0) & (n <= most)
        spread = float((n[met] * variance[met]).sum())
        size = float(off[met].sum()) / math.sqrt(max(spread, 1e-300))
        if met.any() and size - best > 1e-6 * abs(size):  # sums of no variance are rounding
            best = size
            found = Pooled(
                action=score if score < n_sa.shape[1] else None,
                taken=float(taken[met].sum()),
                expected=float(expected[met].sum()),
                n_rows=int(n[met].sum()),
                n_states=int(met.sum()),
                most_rows=most,
            )
    assert found is not None
    return np.asarray(evidence), found


def _pooled_distance(n_sa: NDArray[np.int64], b: Array) -> float:
    """Return what sums over all rows show of the mean total variation, beyond chance.

    The total variation between means over rows is no larger than the mean of total variations. So
    is the difference of means of a score that lies between 0 and 1.
    """
    by_row, n = n_sa.sum(axis=1), int(n_sa.sum())
    if n == 0:
        return 0.0
    expected = by_row @ b
    spread = np.maximum(expected - np.einsum("x,xa,xa->a", by_row, b, b), 0.0)
    by_action = np.abs(n_sa.sum(axis=0) - expected) - _NORMAL_DEVIATION * np.sqrt(spread)
    likely, mean, variance = _by_state(n_sa, b, n_sa.shape[1])
    chance = _NORMAL_DEVIATION * math.sqrt(float(by_row @ variance))
    by_score = abs(float(likely.sum() - by_row @ mean)) - chance
    return max(0.5 * float(by_action.sum()), by_score) / n


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
