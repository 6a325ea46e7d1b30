r"""Ends for one-step logs whose rewards are rare: clicks, failures, purchases.

The terms X_i = w_i (r_i - low) of such a log are nearly all 0, and the few others differ by their
weights. A sample need not hold the heaviest of them, so that Student's t and the bootstrap, which
know nothing but the sample, are too narrow above; put about the largest reward instead, terms
w_i (high - r_i) are all weight, and too wide. But in one step the largest weight W is known before
any data are seen, and no term exceeds k = W (high - low).

**Approximate: the gamma interval** (Fay and Feuer 1997), for sums of weighted Poisson counts. With
y = sum_i X_i and v = sum_i X_i^2, each end at level delta, G a quantile of the gamma distribution
of this mean and variance,

    lower n E[X]: G_delta(mean y, variance v),
    upper n E[X]: G_{1 - delta}(mean y + k, variance v + k^2):

one more term, the largest that there may be, might have been seen. Where all weights are equal it
is the exact interval of a Poisson count. Its variance is n E[X^2], so it is for terms with
E[X]^2 well below E[X^2], which a tenth is taken to be.

**Exact: terms k - X_i >= 0** have mean k - E[X], and their spread is that of X: a lower bound on
their mean, by betting or the concentration inequality, is an upper bound on E[X]. Which of the two
kinds of terms says more is not known beforehand: the plain ones get three quarters of delta, these
one, and the better end counts (a union bound). Exact ends use them where it was said that nothing
follows a row (gamma = 0, or a given W), not where the log happens to show it: docs/evaluation.md.

Rare failures are rare successes of the costs -r: the same, about the largest reward.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import gammaincinv

from spibb.ope.bounds import Ends
from spibb.ope.statistics import Array

# Terms are rare if their squared mean is at most this share of their mean square.
_RARE = 0.1
# What terms below a known largest one get of delta, beside the plain ones.
CAPPED_SHARE = 0.25


@dataclass(frozen=True)
class RareTerms:
    """Terms of a one-step log of which few matter.

    Attributes:
        terms: w (r - low) or, where the lack of rewards is rare, w (high - r).
        origin: The end they are about, low or high.
        sign: 1 or, for those about high, -1.
        largest: The largest that one can be.
    """

    terms: Array
    origin: float
    sign: float
    largest: float

    @classmethod
    def of(cls, above: Array, below: Array, ends: Ends, largest: float) -> RareTerms | None:
        """Take the terms about the one end or the other that spread less, if any are rare."""
        if not (is_rare(above) or is_rare(below)):
            return None
        if (above**2).sum() <= (below**2).sum():
            return cls(above, ends[0], 1.0, largest)
        return cls(below, ends[1], -1.0, largest)

    @property
    def n_telling(self) -> float:
        """As how many equal terms those count that are not 0."""
        square = float((self.terms**2).sum())
        return float(self.terms.sum()) ** 2 / square if square > 0.0 else 0.0

    def ends(self, delta: float) -> Ends:
        """Return both ends of the value that the terms estimate, each at level delta."""
        found = [self.origin + self.sign * x for x in gamma_ends(self.terms, self.largest, delta)]
        return min(found), max(found)


def is_rare(terms: Array) -> bool:
    """Tell terms >= 0 of which a few matter from others.

    Example:
        >>> import numpy as np
        >>> is_rare(np.array([0.0] * 99 + [1.0])), is_rare(np.array([0.4, 0.5, 0.6]))
        (True, False)
    """
    return float(terms.mean()) ** 2 <= _RARE * float((terms**2).mean())


def gamma_ends(terms: Array, largest: float, delta: float) -> Ends:
    """Return the lower and the upper bound on the mean of rare terms >= 0, each at level delta.

    Args:
        terms: The terms.
        largest: The largest that a term can be, > 0.
        delta: Level of each end.

    Example:
        None of 100 terms of at most 1: the rule of three, -log(0.05) / 100.

        >>> import numpy as np
        >>> [round(100 * end, 3) for end in gamma_ends(np.zeros(100), 1.0, 0.05)]
        [0.0, 2.996]
    """
    total, square = float(terms.sum()), float((terms**2).sum())
    lower = 0.0 if total == 0.0 else _quantile(total, square, delta)
    upper = _quantile(total + largest, square + largest**2, 1.0 - delta)
    return lower / len(terms), upper / len(terms)


def _quantile(mean: float, variance: float, level: float) -> float:
    """Return a quantile of the gamma distribution with this mean and variance."""
    found = float(gammaincinv(mean / variance * mean, level)) * variance / mean
    return found if math.isfinite(found) else math.inf
