"""How many more episodes would it take until a gain is beyond doubt?

With N more episodes beside n, the deviation of a gain falls: noise by the root of n, what was never
observed by n itself. In between, it falls by (n / (n + N))^(2/3). The expected gain rises as often
as it falls. So mean = z deviations is reached in about half of the cases where

    N = n ((z deviation / mean)^(3/2) - 1).
"""

from __future__ import annotations

import math

from spibb.posterior.choice import Choice
from spibb.posterior.gain import Gain

# How the deviation falls with n: see above.
_POWER = 2.0 / 3.0


def more_episodes(gain: Gain, caution: float, n_episodes: int) -> int | None:
    """Return about how many more episodes would bring a gain above caution.

    None where no gain is expected, which more episodes need not change.

    Args:
        gain: The gain.
        caution: Standard deviations.
        n_episodes: How many episodes there are.
    """
    if gain.mean <= 0.0:
        return None
    times = float(max(1.0, caution * gain.deviation / gain.mean) ** (1.0 / _POWER))
    return math.ceil(n_episodes * (times - 1.0))


def more_for_choice(choice: Choice, n_episodes: int) -> int | None:
    """Return about how many more episodes would let a choice take a candidate.

    None where one is taken, or no gain is expected of any.

    Args:
        choice: The choice.
        n_episodes: How many episodes it was made of.
    """
    if choice.chosen is not None:
        return None
    found = [more_episodes(one.gain, choice.caution, n_episodes) for one in choice.candidates]
    return min((one for one in found if one is not None), default=None)
