r"""How often a pair must be seen for a promise: n_wedge and zeta of Pi_b-SPIBB, both ways.

The papers say that with probability 1 - delta Pi_b-SPIBB loses at most zeta = c(n_wedge) - D, where
D is its estimated gain and, for a radius r(N) of the error of a trusted pair,

    c(N) = 4 V_max / (1 - gamma) r(N).

* ``original`` (Laroche et al. 2019): r = sqrt((2 / N) log(2 |X| |A| 2^|X| / delta)), the L1 error.
* ``two-successor`` (Wienhoeft et al. 2023): r = sqrt((2 / N) log(8 |X|^2 |A|^2 / delta)).
* ``two-point``: r = sqrt((2 / N) log(2 |X|^2 |A| / delta)), by the same argument; smaller than both
  wherever there is more than one state and action.
* ``beta`` (Wienhoeft et al. 2023): r = 1 - 2 I^-1(N/2 + 1, N/2 + 1; t / 2) with t = delta / (|X|^2
  |A|^2), computed as sqrt(betainccinv(1/2, N/2 + 1, t)). A *heuristic*: it is a credible bound at
  p^ = 1/2, which is not the worst case at small N. No certificate claims it.

That is false where a policy visits rare pairs otherwise than the baseline does, and the arguments
behind all but the first radius are not proved (docs/guarantees.md has the smallest cases). These
functions compute what the papers print, to compare with; ``--guarantee`` and certificates rest on
the regret test. D depends on n_wedge and is left out (D = 0). V_max is the half-range of values.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import Literal, get_args

import numpy as np
import scipy.special

from spibb.errors import SMALLEST, SettingsError, checked_number
from spibb.uncertainty.error_functions import checked_delta

Bound = Literal["original", "two-successor", "two-point", "beta"]
# Beyond this a threshold is a way of saying "never".
_LARGEST = 10**18


def radius(n: float, *, delta: float, n_states: int, n_actions: int, bound: Bound) -> float:
    """Return the error r(N) of a pair that was seen N >= 1 times."""
    pairs = n_states * n_actions
    if bound == "beta":
        return math.sqrt(float(scipy.special.betainccinv(0.5, n / 2 + 1, delta / pairs**2)))
    log_terms = {
        "original": math.log(2 * pairs / delta) + n_states * math.log(2),
        "two-successor": math.log(8 * pairs**2 / delta),
        "two-point": math.log(2 * pairs * n_states / delta),
    }
    if bound not in log_terms:
        raise SettingsError(f"bound is {bound!r}", expected=f"one of {', '.join(get_args(Bound))}")
    return math.sqrt(2 / n * log_terms[bound])


def zeta(
    *,
    n_wedge: float,
    delta: float,
    n_states: int,
    n_actions: int,
    v_max: float,
    gamma: float,
    bound: Bound = "original",
) -> float:
    """Return the loss that Pi_b-SPIBB with this threshold may cause, its estimated gain left out.

    Example:
        >>> round(zeta(n_wedge=100, delta=0.1, n_states=25, n_actions=4, v_max=0.6, gamma=0.95), 3)
        33.893
    """
    _check(delta, n_states, n_actions, v_max, gamma)
    checked_number(n_wedge, "n_wedge", "a number of observations >= 1", least=1)
    error = radius(n_wedge, delta=delta, n_states=n_states, n_actions=n_actions, bound=bound)
    return 4 * v_max / (1 - gamma) * error


def n_wedge(
    *,
    zeta: float,
    delta: float,
    n_states: int,
    n_actions: int,
    v_max: float,
    gamma: float,
    bound: Bound = "original",
) -> int:
    """Return the smallest threshold that promises a loss of at most ``zeta``.

    Example:
        What the original bound promises with 100 observations, the two-point bound does with 44.

        >>> facts = dict(delta=0.1, n_states=25, n_actions=4, v_max=0.6, gamma=0.95)
        >>> from spibb.uncertainty.thresholds import zeta
        >>> [n_wedge(zeta=zeta(n_wedge=100, **facts), bound=bound, **facts)
        ...  for bound in ("original", "two-successor", "two-point", "beta")]
        [100, 55, 44, 27]
    """
    _check(delta, n_states, n_actions, v_max, gamma)
    checked_number(zeta, "zeta", "a loss > 0", least=SMALLEST)
    # A relative hair of slack makes n -> zeta -> n exact in spite of rounding.
    wanted = zeta * (1 - gamma) / (4 * v_max) * (1 + 1e-12) if v_max > 0 else math.inf

    def enough(n: int) -> bool:
        error = radius(n, delta=delta, n_states=n_states, n_actions=n_actions, bound=bound)
        return error <= wanted

    found = bisect_left(range(1, _LARGEST), True, key=enough) + 1
    if found >= _LARGEST:
        raise SettingsError(
            "no threshold below 1e18 observations gives this promise",
            hint="ask for a larger zeta or delta",
        )
    return found


def _check(delta: float, n_states: int, n_actions: int, v_max: float, gamma: float) -> None:
    checked_delta(delta)
    checked_number(gamma, "gamma", "a discount in [0, 1)", least=0.0, most=math.nextafter(1, 0))
    if n_states < 1 or n_actions < 1 or not 0 <= v_max < np.inf:
        raise SettingsError(
            f"n_states {n_states}, n_actions {n_actions}, v_max {v_max}",
            expected="at least one state and action, and a finite V_max >= 0",
        )
