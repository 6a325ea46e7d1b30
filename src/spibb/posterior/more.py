"""How many more episodes would it take? About so many that the answer turns as often as not.

With N episodes beside n the posterior of a gain narrows: what was noise by the root of n, what was
never seen by n itself; in between, sigma falls by (n / (n + N))^(2/3). Its mean goes up as often as
down, so that mu = z sigma is passed in about half of the cases where

    N = n ((z sigma / mu)^(3/2) - 1).

Measured by drawing models, N episodes in each and the choice anew: between a quarter and three
quarters of the cases on most logs (tests).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from spibb.posterior.choice import Choice
from spibb.posterior.risk import Gain

# How sigma falls with n: see above.
_POWER = 2.0 / 3.0


def more_episodes(gains: Iterable[Gain], caution: float, n_episodes: int) -> int | None:
    """Return about how many more episodes would bring a gain above caution under all priors.

    None where no gain is expected, which more episodes need not change.

    Args:
        gains: What is expected, by prior.
        caution: z.
        n_episodes: How many there are.
    """
    needed = 0.0
    for gain in gains:
        if gain.mean <= 0.0:
            return None
        times = max(1.0, caution * gain.deviation / gain.mean) ** (1.0 / _POWER)
        needed = max(needed, n_episodes * (times - 1.0))
    return math.ceil(needed)


def more_for_choice(choice: Choice, n_episodes: int) -> int | None:
    """Return about how many more episodes would let a choice take a candidate.

    None where one is taken, or no gain is expected of any.

    Args:
        choice: The choice.
        n_episodes: How many episodes it was made of.
    """
    if choice.chosen is not None:
        return None
    found = [
        more_episodes(one.gains.values(), choice.caution, n_episodes) for one in choice.candidates
    ]
    return min((one for one in found if one is not None), default=None)
