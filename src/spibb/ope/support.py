"""On how much data the estimates of a model rest, and when they are withheld for it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spibb.mdp.batch import ModelBatch
from spibb.mdp.visits import discounted_visits

# A pair with fewer rows than this has a small sample.
LOW_COUNT = 5
# Estimates are withheld beyond these shares of visits on pairs with few or no rows.
LARGEST_UNOBSERVED, LARGEST_LOW_COUNT = 0.05, 0.5


@dataclass(frozen=True)
class Visits:
    """Which share of a policy's discounted visits in the estimated model rests on how much data.

    Attributes:
        unobserved: On unobserved pairs; NaN where the policy does not end, and visits have no sum.
        low_count: On pairs with fewer than five rows, unobserved ones included.
    """

    unobserved: float
    low_count: float

    @classmethod
    def of(
        cls,
        batch: ModelBatch,
        policy: NDArray[np.float64],
        v: NDArray[np.float64],
        n_sa: NDArray[np.float64] | NDArray[np.int64],
        terminal: NDArray[np.bool_] | None = None,
    ) -> Visits:
        """Count the visits of a policy in the first model of a batch.

        Args:
            batch: Models.
            policy: Shape (S, A).
            v: Its values in the model, shape (S,), which say whether it ends.
            n_sa: How often each pair was seen.
            terminal: States in which nothing is done, if the model goes on from them.
        """
        if not np.isfinite(v).all():
            return cls(math.nan, math.nan)
        visits = discounted_visits(batch, 0, policy.copy())[:, None] * policy
        if terminal is not None:
            visits[terminal] = 0.0
        shares = visits / (visits.sum() or 1.0)  # nothing is visited from a terminal start
        return cls(float(shares[n_sa == 0].sum()), float(shares[n_sa < LOW_COUNT].sum()))


def too_little_data(policy: Visits, baseline: Visits, name: str) -> str | None:
    """Say why estimates of a model mean nothing; None where they may be shown.

    More than 5 % of the visits of policy or baseline rest on unobserved pairs, or more than half of
    the policy's on pairs seen fewer than five times.

    Args:
        policy: Visits of the policy that is estimated.
        baseline: Visits of the baseline.
        name: What the policy is called.
    """
    for who, visits in ((name, policy), ("baseline", baseline)):
        if math.isnan(visits.unobserved):
            return f"the {who} does not end in the estimated model"
        if visits.unobserved > LARGEST_UNOBSERVED:
            return f"{100 * visits.unobserved:.0f} % of the {who}'s visits are to unobserved pairs"
    if policy.low_count > LARGEST_LOW_COUNT:
        return (
            f"{100 * policy.low_count:.0f} % of the {name}'s visits are to pairs seen fewer than "
            f"{LOW_COUNT} times"
        )
    return None
