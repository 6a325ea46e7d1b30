"""What was paid once, and may have been chance.

Where few rows are alike, nothing tells a single jackpot from what its pair always pays. What pays,
a goal, an action, does so again: to the same pair, or with the same outcome. What a reward is above
the largest of which as much was paid again, it was paid once; where all rewards vary by chance, so
it is with the luckiest. It is taken apart as rewards are (spibb.data.outcomes), so that it says how
much of what a model expects rests on it. Who goes for it should not count on it; who leaves it may
lose it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.data.outcomes import RIDGE, Outcomes, decompose, of_state

Array = NDArray[np.float64]

# Of the largest reward: what rounding alone makes.
_ROUNDING = 1e-12


def paid_twice(outcomes: Outcomes) -> float:
    """Return the largest reward of which as much was paid again, to a pair or with an outcome.

    The least reward where nothing was. A pair and an outcome that were seen more than once paid
    their mean each time.
    """
    rewards, pair = outcomes.rewards, outcomes.pair
    found = [rewards[outcomes.counts > 1.0]]
    for what in (pair, outcomes.indices):
        order = np.lexsort((rewards, what))
        found.append(rewards[order[:-1]][np.diff(what[order]) == 0])
    again = np.concatenate(found)
    return float(again.max() if len(again) else rewards.min(initial=np.inf))


def paid_once(outcomes: Outcomes) -> Outcomes | None:
    """Return outcomes that pay what was paid once and nothing else; None if that is nothing."""
    excess = outcomes.rewards - paid_twice(outcomes)
    if not (excess > _ROUNDING * np.abs(outcomes.rewards).max(initial=0.0)).any():
        return None
    n_sa = outcomes.n_sa
    ridge = np.full(len(n_sa) + 1, RIDGE)
    places = outcomes.indptr, outcomes.indices, outcomes.counts
    u, h = decompose(*places, np.maximum(excess, 0.0), ridge)
    u = u.reshape(n_sa.shape)
    return outcomes._replace(by_pair=u, by_state=of_state(u, n_sa), by_entry=h)
