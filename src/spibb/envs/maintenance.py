"""A machine that wears out and may break: costs only, and the large ones are rare.

State: wear 0 .. 11, and broken; start new. Actions: run, service (2, takes three off the wear),
replace (5, new again). Running adds one to the wear with probability 0.6, and an hour at wear w
costs 0.05 w. A machine breaks with probability 0.0005 1.75^w an hour, 0.25 at most; a broken one is
replaced, whatever is done, for 30. The baseline services early, so its log holds few breakdowns and
little wear beyond six: what happens there is a frontier.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spibb.envs.mixing import mixed
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy

_WORN = 12
_BROKEN = _WORN
_WEARS, _HOUR = 0.6, 0.05
_SERVICE, _REPLACEMENT, _BREAKDOWN, _TAKEN_OFF = 2.0, 5.0, 30.0, 3
ACTIONS = ("run", "service", "replace")


@dataclass(frozen=True)
class Maintenance:
    """The machine.

    Example:
        >>> mdp = Maintenance().to_mdp(gamma=0.95)
        >>> mdp.n_states, mdp.n_actions, float(mdp.reward.min())
        (13, 3, -30.0)
    """

    def to_mdp(self, gamma: float = 0.95) -> TabularMDP:
        """Return the exact process; the last state is a broken machine."""
        transition = np.zeros((_WORN + 1, len(ACTIONS), _WORN + 1))
        reward = np.zeros((_WORN + 1, len(ACTIONS)))
        for wear in range(_WORN):
            for a, (start, price) in enumerate(
                ((wear, 0.0), (max(0, wear - _TAKEN_OFF), _SERVICE), (0, _REPLACEMENT))
            ):
                breaks = min(0.25, 0.0005 * 1.75**start)
                more = min(start + 1, _WORN - 1)
                transition[wear, a, _BROKEN] += breaks
                transition[wear, a, more] += (1.0 - breaks) * _WEARS
                transition[wear, a, start] += (1.0 - breaks) * (1.0 - _WEARS)
                reward[wear, a] = -price - _HOUR * start
        transition[_BROKEN, :, 0] = 1.0
        reward[_BROKEN] = -_BREAKDOWN
        return TabularMDP(transition, reward, gamma, np.eye(_WORN + 1)[0])

    def baseline(self, epsilon: float = 0.2) -> TabularPolicy:
        """Return a careful mechanic, mixed with a share epsilon of the uniform policy.

        Run below wear 4, service up to 7, replace beyond.
        """
        wear = np.arange(_WORN + 1)
        chosen = np.where(wear < 4, 0, np.where(wear <= 7, 1, 2))
        return mixed(chosen, len(ACTIONS), epsilon)
