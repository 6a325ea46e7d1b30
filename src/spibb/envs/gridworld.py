"""The 5 x 5 gridworld of the SPIBB papers.

Four actions, north, east, south, west: the intended move happens with probability 0.75, the
opposite with 0.05, each side with 0.10; a blocked move stays. Walls stand between columns 2 and 3
in rows 0 to 2, and between columns 3 and 4 in rows 2 and 3. State x + 5 y; start 0, goal 24;
entering the goal pays 1 and ends the episode.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spibb.errors import SettingsError
from spibb.mdp.model import TabularMDP
from spibb.mdp.planning import solve
from spibb.mdp.policy import TabularPolicy

_SIZE = 5
_MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))  # north, east, south, west
# By how many quarter turns a move may miss, and how often.
_TURNS = ((0, 0.75), (1, 0.10), (2, 0.05), (3, 0.10))
_WALLS = frozenset({(2, 0), (2, 1), (2, 2), (3, 2), (3, 3)})  # east of (column, row)
ACTIONS = ("north", "east", "south", "west")


@dataclass(frozen=True)
class GridWorld:
    """The gridworld, with its actions multiplied if wanted.

    Args:
        n_copies: How many copies of each action there are: the paper's study of run time against
            the number of actions multiplies them.

    Example:
        >>> mdp = GridWorld().to_mdp(gamma=0.95)
        >>> mdp.n_states, mdp.n_actions, float(mdp.dense[0, 1, 1])
        (25, 4, 0.75)
    """

    n_copies: int = 1

    def __post_init__(self) -> None:
        if self.n_copies < 1:
            raise SettingsError(f"n_copies is {self.n_copies}", expected="at least 1")

    def to_mdp(self, gamma: float = 0.95) -> TabularMDP:
        """Return the exact process."""
        n_states = _SIZE * _SIZE
        transition = np.zeros((n_states, len(_MOVES), n_states))
        for x in range(n_states):
            for a in range(len(_MOVES)):
                for turn, probability in _TURNS:
                    transition[x, a, _step(x, (a + turn) % len(_MOVES))] += probability
        transition = np.tile(transition, (1, self.n_copies, 1))
        terminal = np.arange(n_states) == n_states - 1
        entry = terminal.astype(np.float64)
        return TabularMDP(
            transition, None, gamma, np.eye(n_states)[0], terminal, entry_reward=entry
        )

    def baseline(self, temperature: float = 0.1, gamma: float = 0.95) -> TabularPolicy:
        """Return the softmax of the optimal Q: a softened optimum."""
        if not temperature > 0:
            raise SettingsError(f"temperature is {temperature}", expected="a number > 0")
        return softmax_policy(solve(self.to_mdp(gamma)).q, temperature)


def softmax_policy(q: NDArray[np.float64], temperature: float) -> TabularPolicy:
    """Return the policy proportional to exp(q / temperature)."""
    weights = np.exp((q - q.max(axis=1, keepdims=True)) / temperature)
    return TabularPolicy(weights / weights.sum(axis=1, keepdims=True))


def _step(state: int, move: int) -> int:
    column, row = state % _SIZE, state // _SIZE
    dx, dy = _MOVES[move]
    to_column, to_row = column + dx, row + dy
    inside = 0 <= to_column < _SIZE and 0 <= to_row < _SIZE
    wall = dx != 0 and (min(column, to_column), row) in _WALLS
    return to_column + _SIZE * to_row if inside and not wall else state
