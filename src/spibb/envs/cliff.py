"""A path along a cliff in wind: the short way is at its edge, and falling is dear.

A grid of 4 rows and 10 columns; start in the lower left corner, goal in the lower right one, and
between them the edge of the cliff. Each step costs 1, falling 50, after which one stands at the
start again. With probability 0.1 the wind moves one a row down beside the step. The baseline walks
in the upper rows, so its log hardly holds the edge, and falls seldom.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spibb.envs.mixing import mixed
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy

_ROWS, _COLUMNS = 4, 10
_WIND, _FALL = 0.1, 50.0
_MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))
ACTIONS = ("up", "right", "down", "left")


@dataclass(frozen=True)
class Cliff:
    """The path.

    Example:
        >>> mdp = Cliff().to_mdp(gamma=1.0)
        >>> mdp.n_states, mdp.n_actions, int(mdp.terminal.sum())
        (40, 4, 1)
    """

    def to_mdp(self, gamma: float = 0.99) -> TabularMDP:
        """Return the exact process; state row * 10 + column, rows from above."""
        n_states = _ROWS * _COLUMNS
        start, goal = (_ROWS - 1) * _COLUMNS, n_states - 1
        transition = np.zeros((n_states, len(ACTIONS), n_states))
        reward = np.zeros((n_states, len(ACTIONS)))
        for x in range(n_states):
            if x == goal:
                continue
            for a, move in enumerate(_MOVES):
                for probability, wind in ((1.0 - _WIND, 0), (_WIND, 1)):
                    row = min(max(x // _COLUMNS + move[0] + wind, 0), _ROWS - 1)
                    column = min(max(x % _COLUMNS + move[1], 0), _COLUMNS - 1)
                    next_state = row * _COLUMNS + column
                    falls = start < next_state < goal
                    transition[x, a, start if falls else next_state] += probability
                    reward[x, a] -= probability * (1.0 + (_FALL if falls else 0.0))
        terminal = np.arange(n_states) == goal
        transition[goal, :, goal] = 1.0
        return TabularMDP(transition, reward, gamma, np.eye(n_states)[start], terminal)

    def baseline(self, epsilon: float = 0.2) -> TabularPolicy:
        """Return a careful walker, mixed with a share epsilon of the uniform policy.

        Up to the top row, along it, and down at the end.
        """
        row, column = np.divmod(np.arange(_ROWS * _COLUMNS), _COLUMNS)
        chosen = np.where(column == _COLUMNS - 1, 2, np.where(row > 0, 0, 1))
        return mixed(chosen, len(ACTIONS), epsilon)
