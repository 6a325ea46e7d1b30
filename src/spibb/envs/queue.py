"""A queue with a server of three speeds: costs only, and a log that seldom sees it full.

State x = 0 .. 39 customers waiting; start empty. Each step one customer arrives with probability
0.5 (none is let in when the queue is full), and the first in line is served with probability 0.3,
0.55 or 0.8 at speeds slow, medium, fast, which cost 0, 0.5 and 1; every waiting customer costs 0.3.
All rewards are costs, so that ending at value 0 would be the best there is; and slow service saves
at once what a long queue costs later, in states that a log of a careful server hardly holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spibb.envs.mixing import mixed
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy

_SIZE = 40
_ARRIVAL = 0.5
_SERVICE = (0.3, 0.55, 0.8)
_PRICE = (0.0, 0.5, 1.0)
_WAITING = 0.3
ACTIONS = ("slow", "medium", "fast")


@dataclass(frozen=True)
class Queue:
    """The queue.

    Example:
        >>> mdp = Queue().to_mdp(gamma=0.95)
        >>> mdp.n_states, mdp.n_actions, round(float(mdp.reward.min()), 3)
        (40, 3, -12.7)
    """

    def to_mdp(self, gamma: float = 0.95) -> TabularMDP:
        """Return the exact process."""
        transition = np.zeros((_SIZE, len(ACTIONS), _SIZE))
        reward = np.zeros((_SIZE, len(ACTIONS)))
        for x in range(_SIZE):
            for a, (served, price) in enumerate(zip(_SERVICE, _PRICE, strict=True)):
                reward[x, a] = -_WAITING * x - price
                leaves = served if x > 0 else 0.0
                enters = _ARRIVAL if x < _SIZE - 1 else 0.0
                up, down = enters * (1.0 - leaves), leaves * (1.0 - enters)
                transition[x, a, min(x + 1, _SIZE - 1)] += up
                transition[x, a, max(x - 1, 0)] += down
                transition[x, a, x] += 1.0 - up - down
        return TabularMDP(transition, reward, gamma, np.eye(_SIZE)[0])

    def baseline(self, epsilon: float = 0.2) -> TabularPolicy:
        """Return a careful server, mixed with a share epsilon of the uniform policy.

        Medium up to three customers, fast beyond.
        """
        chosen = np.where(np.arange(_SIZE) <= 3, 1, 2)
        return mixed(chosen, len(ACTIONS), epsilon)
