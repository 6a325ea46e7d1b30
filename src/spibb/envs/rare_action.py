"""A patient and a drug that is hardly ever given: the best thing to do, or ruinous now and then.

State: severity 0 .. 9, and lost; start at 5. Each day costs 0.1 for every degree, a lost patient 3
a day for ever. Waiting changes the severity by one, up with probability 0.4, down with 0.3; the
usual care (0.2 a day) up with 0.25, down with 0.35; the drug (0.2 a day) up with 0.1, down with
0.7. Above 8 a patient is lost with probability 0.2 a day. Where the drug is *ruinous*, a day with
it loses one patient in forty: a log that holds it a few times shows how well it works and none, or
one, of those.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spibb.envs.mixing import mixed
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy

_WORST = 9
_LOST = _WORST + 1
_UP, _DOWN, _PRICE = (0.4, 0.25, 0.1), (0.3, 0.35, 0.7), (0.0, 0.2, 0.2)
_DEGREE, _LOSS = 0.1, 3.0
_DYING, _RUIN = 0.2, 1 / 40
ACTIONS = ("wait", "usual", "drug")


@dataclass(frozen=True)
class RareAction:
    """The patient.

    Args:
        is_ruinous: Whether the drug loses patients.

    Example:
        >>> mdp = RareAction().to_mdp(gamma=0.9)
        >>> mdp.n_states, mdp.n_actions, float(mdp.reward.min())
        (11, 3, -3.0)
    """

    is_ruinous: bool = False

    def to_mdp(self, gamma: float = 0.9) -> TabularMDP:
        """Return the exact process; the last state is a lost patient."""
        n_states = _LOST + 1
        transition = np.zeros((n_states, len(ACTIONS), n_states))
        reward = np.zeros((n_states, len(ACTIONS)))
        for x in range(_LOST):
            for a, (up, down, price) in enumerate(zip(_UP, _DOWN, _PRICE, strict=True)):
                lost = _DYING if x == _WORST else 0.0
                if self.is_ruinous and a == 2:
                    lost += _RUIN
                transition[x, a, _LOST] += lost
                transition[x, a, min(x + 1, _WORST)] += (1.0 - lost) * up
                transition[x, a, max(x - 1, 0)] += (1.0 - lost) * down
                transition[x, a, x] += (1.0 - lost) * (1.0 - up - down)
                reward[x, a] = -_DEGREE * x - price
        transition[_LOST, :, _LOST] = 1.0
        reward[_LOST] = -_LOSS
        return TabularMDP(transition, reward, gamma, np.eye(n_states)[5])

    def baseline(self, epsilon: float = 0.2) -> TabularPolicy:
        """Return a doctor who knows no drug, mixed with a share epsilon of the uniform policy.

        Wait up to a severity of 2, usual care beyond.
        """
        return mixed(np.where(np.arange(_LOST + 1) <= 2, 0, 1), len(ACTIONS), epsilon)
