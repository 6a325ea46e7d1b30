"""An inventory that is ordered for each day: costs only.

State: the stock at the evening, -10 (customers wait for ten pieces) to 20; start with 10. In the
evening 0, 5 or 10 pieces are ordered, which arrive before the next day's demand of 0 to 8 pieces
(binomial, 8 trials of 0.4). A piece on stock costs 0.1 a night, one that is waited for 1, an order
0.5 and 0.1 a piece. What exceeds 20 is sent back, and of customers beyond ten none waits. Costs
depend on stock and order alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np

from spibb.envs.mixing import mixed
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy

_LEAST, _MOST, _START = -10, 20, 10
_ORDERS = (0, 5, 10)
_TRIALS, _CHANCE = 8, 0.4
_HOLDING, _WAITING, _ORDER, _PIECE = 0.1, 1.0, 0.5, 0.1
ACTIONS = ("none", "five", "ten")


@dataclass(frozen=True)
class Inventory:
    """The inventory.

    Example:
        >>> mdp = Inventory().to_mdp(gamma=0.95)
        >>> mdp.n_states, mdp.n_actions, float(mdp.reward.min())
        (31, 3, -11.5)
    """

    def to_mdp(self, gamma: float = 0.95) -> TabularMDP:
        """Return the exact process; state x stands for a stock of x - 10."""
        stocks = range(_LEAST, _MOST + 1)
        demand = [
            comb(_TRIALS, d) * _CHANCE**d * (1 - _CHANCE) ** (_TRIALS - d)
            for d in range(_TRIALS + 1)
        ]
        transition = np.zeros((len(stocks), len(ACTIONS), len(stocks)))
        reward = np.zeros((len(stocks), len(ACTIONS)))
        for x, stock in enumerate(stocks):
            kept = _HOLDING * max(stock, 0) + _WAITING * max(-stock, 0)
            for a, order in enumerate(_ORDERS):
                reward[x, a] = -kept - (_ORDER + _PIECE * order if order else 0.0)
                for d, probability in enumerate(demand):
                    left = max(_LEAST, min(stock + order, _MOST) - d)
                    transition[x, a, left - _LEAST] += probability
        return TabularMDP(transition, reward, gamma, np.eye(len(stocks))[_START - _LEAST])

    def baseline(self, epsilon: float = 0.2) -> TabularPolicy:
        """Return a cautious buyer, mixed with a share epsilon of the uniform policy.

        Ten pieces up to a stock of 6, five up to 11, none beyond.
        """
        stock = np.arange(_LEAST, _MOST + 1)
        chosen = np.where(stock <= 6, 2, np.where(stock <= 11, 1, 0))
        return mixed(chosen, len(ACTIONS), epsilon)
