r"""Bounds on the expectation of an estimate, from the episodes it is made of.

* **Concentration** (Thomas, Theocharous, Ghavamzadeh 2015, Theorem 1, with one threshold c): for
  independent X_i >= 0, Y_i = min(X_i, c) and any c chosen without looking at them, with
  probability at least 1 - delta the mean is at least

      mean(Y) - 7 c L / (3 (n - 1)) - (1 / n) sqrt(L / (n - 1) sum_{i, j} (Y_i - Y_j)^2)

  with L = log(2 / delta), which is Maurer and Pontil's empirical Bernstein bound (2009, Theorem 4)
  on [0, c]: the last term is sqrt(2 s^2 L / n) with the sample variance s^2. It holds for every n
  and every distribution.
* **Student t**: mean -+ s / sqrt(n) t_{1 - delta, n - 1}. Exact for normal terms, approximate else.
* **BCa** (Efron 1987): the alpha-quantile of B bootstrap replicates, alpha = Phi(z0 + (z0 +
  z_delta) / (1 - a (z0 + z_delta))), z0 = Phi^-1(share of replicates below the estimate, ties
  half), a = sum l_i^3 / (6 (sum l_i^2)^1.5) by the jackknife. Approximate, of second order.

Each of the two ends holds with probability 1 - delta: an interval at level delta uses delta / 2 for
each. Samples without spread, an infinite z0, and weights that are all 0 give no bound: infinite
ends. A sample that does not vary says nothing of how the next one might.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri, stdtrit

from spibb.errors import DataError, SettingsError
from spibb.ope.resampling import resample
from spibb.ope.statistics import Array, Statistic

N_RESAMPLES = 2_000
# So many replicates are expected beyond the quantile, whatever delta.
_BEYOND = 20
# More would take minutes and say little: a quantile that no resample comes near is a guess.
_MOST_RESAMPLES = 200_000
# Of the sample, this share chooses the threshold and is not tested (Thomas et al. 2015).
THRESHOLD_SHARE = 1 / 20

Ends = tuple[float, float]
NO_BOUND: Ends = (-math.inf, math.inf)


def checked_level(delta: float) -> float:
    """Return the level of a test or bound, or refuse it."""
    value = float(delta)
    if not 0.0 < value < 1.0:
        raise SettingsError(f"delta is {delta}", expected="a level in (0, 1), as 0.05")
    return value


def check_resampling(delta: float) -> None:
    """Refuse a level of one end that is too small for BCa."""
    if delta < _BEYOND / _MOST_RESAMPLES:
        raise SettingsError(
            f"BCa is asked for ends at a level of {delta:g} each",
            expected=f"at least {_BEYOND / _MOST_RESAMPLES:g}, which takes {_MOST_RESAMPLES:,} "
            "resamples: tails that are rarer are not in a sample at all",
            hint="use a larger delta, or the bound 'betting', which is exact at any",
        )


def student_t(terms: ArrayLike, delta: float) -> Ends:
    """Return the lower and the upper bound on a mean, each at level delta.

    Example:
        Mean 2, s = 1, n = 3: half the width is 1 / sqrt(3) times 2.92.

        >>> [round(end, 3) for end in student_t([1.0, 2.0, 3.0], 0.05)]
        [0.314, 3.686]
    """
    values = checked_terms(terms, 2)
    delta = checked_level(delta)
    spread = float(values.std(ddof=1))
    mean = float(values.mean())
    if not is_spread(spread, mean):
        return NO_BOUND
    half = spread / math.sqrt(len(values)) * float(stdtrit(len(values) - 1, 1.0 - delta))
    return mean - half, mean + half


def is_spread(spread: float, mean: float) -> bool:
    """Tell a sample that varies from one whose differences are rounding."""
    return spread > 1e-12 * max(abs(mean), 1e-300)


def concentration(terms: ArrayLike, delta: float, rng: np.random.Generator) -> float:
    """Return the lower bound on the mean of non-negative terms, at level delta.

    A twentieth of the terms, drawn by ``rng``, chooses the threshold; the others are tested. Never
    below 0, which is known beforehand.
    """
    values = checked_terms(terms, 3)
    delta = checked_level(delta)
    check_signs(values, "the concentration inequality cuts off large ones",
                hint="use importance sampling on normalised returns, or another bound")  # fmt: skip
    shuffled = rng.permutation(values)
    n_chosen = max(1, round(len(values) * THRESHOLD_SHARE))
    threshold, _ = best_threshold(shuffled[:n_chosen], len(values) - n_chosen, delta)
    return max(0.0, thresholded_bound(shuffled[n_chosen:], threshold, delta))


def thresholded_bound(terms: ArrayLike, threshold: float, delta: float) -> float:
    """Return Thomas' bound on the mean of terms >= 0, for a threshold chosen without them.

    Example:
        Two equal terms: only the second part of the bound is left, 7 log(40) / 3.

        >>> round(1.0 - thresholded_bound([1.0, 1.0], 1.0, 0.05), 4)
        8.6074
        >>> round(7 * math.log(40) / 3, 4)
        8.6074
    """
    cut = np.minimum(terms, threshold)
    return float(_lowered(cut.mean(), cut.var(ddof=1), threshold, len(cut), delta))


def _lowered(mean: Any, variance: Any, threshold: Any, n: int, delta: float) -> Any:
    """Return the bound for terms below a threshold; see the module's docstring."""
    log_term = math.log(2.0 / delta)
    loss = 7.0 * threshold * log_term / (3.0 * (n - 1))
    return mean - loss - np.sqrt(2.0 * variance * log_term / n)


def predicted_concentration(terms: Array, n_tested: int, delta: float) -> float:
    """Return the bound that ``n_tested`` terms like these may be expected to give."""
    n_left = n_tested - max(1, round(n_tested * THRESHOLD_SHARE))
    return max(0.0, best_threshold(terms, n_left, delta)[1])


def best_threshold(terms: Array, n_tested: int, delta: float) -> tuple[float, float]:
    """Return the threshold whose predicted bound on ``n_tested`` other terms is best, and that.

    The predicted bound is the bound with mean and variance of these terms and the other size.
    Beyond the largest term it only falls, so the terms themselves are tried.
    """
    ordered = np.sort(terms)
    n = len(ordered)
    above = np.arange(n - 1, -1, -1)
    mean = (np.cumsum(ordered) + above * ordered) / n
    square = (np.cumsum(ordered**2) + above * ordered**2) / n
    variance = np.maximum(0.0, square - mean**2) * n / max(n - 1, 1)
    bound = _lowered(mean, variance, ordered, max(n_tested, 2), delta)
    best = int(np.argmax(bound))
    return float(ordered[best]), float(bound[best])


def bca(statistic: Statistic, delta: float, rng: np.random.Generator) -> Ends:
    """Return the lower and the upper BCa bound, each at level delta: see `bca_all`."""
    return bca_all([statistic], delta, rng)[0]


def bca_all(statistics: Sequence[Statistic], delta: float, rng: np.random.Generator) -> list[Ends]:
    """Return the lower and the upper BCa bound of each statistic, each at level delta.

    Args:
        statistics: Estimates of the same episodes, with their values on resamples.
        delta: Level of each end.
        rng: Draws the resamples, the more the smaller delta is, so that some lie beyond.
    """
    delta = checked_level(delta)
    check_resampling(delta)
    for one in statistics:
        if len(one) < 2:
            raise DataError(f"{len(one)} episodes", expected="at least two, to resample them")
    able = [one.is_resampled and math.isfinite(one.estimate) for one in statistics]
    n_resamples = max(N_RESAMPLES, math.ceil(_BEYOND / delta))
    drawn = iter(resample([*compress(statistics, able)], n_resamples, rng))
    return [
        bca_ends(one.estimate, next(drawn), one.jackknife(), delta) if is_able else NO_BOUND
        for one, is_able in zip(statistics, able, strict=True)
    ]


def bca_ends(estimate: float, replicates: Array, jackknife: Array, delta: float) -> Ends:
    """Return both bounds from replicates and jackknife values; see the module's docstring."""
    spread = float(np.ptp(jackknife)) * len(jackknife)
    if not np.isfinite(replicates).all() or not is_spread(spread, estimate):
        return NO_BOUND
    below = (replicates < estimate).mean() + 0.5 * (replicates == estimate).mean()
    z0 = float(ndtri(below))
    # It has no scale: in units of the largest value, no square or cube vanishes.
    unit = jackknife / np.abs(jackknife).max()
    acceleration = float((unit**3).sum()) / (6.0 * float((unit**2).sum()) ** 1.5)
    if not math.isfinite(z0):
        return NO_BOUND
    ends = []
    for level in (delta, 1.0 - delta):
        z = z0 + float(ndtri(level))
        stretch = 1.0 - acceleration * z
        # Beyond its pole the formula turns round: there is no such quantile.
        if stretch <= 0.0:
            ends.append(-math.inf if level == delta else math.inf)
        else:
            ends.append(float(np.quantile(replicates, float(ndtr(z0 + z / stretch)))))
    return ends[0], ends[1]


def checked_terms(terms: ArrayLike, at_least: int) -> NDArray[np.float64]:
    """Return terms as an array, or refuse too few of them."""
    values = np.asarray(terms, dtype=np.float64)
    if len(values) < at_least:
        raise DataError(f"{len(values)} episodes", expected=f"at least {at_least} for a bound")
    return values


def check_signs(values: Array, reason: str, hint: str | None = None) -> None:
    """Refuse negative terms, and say why."""
    is_negative = values < 0.0
    if is_negative.any():
        raise DataError(
            f"{int(is_negative.sum())} of {len(values)} terms are negative",
            where=f"episode {int(np.argmax(is_negative)) + 1}",
            expected=f"terms >= 0: {reason}",
            hint=hint,
        )
