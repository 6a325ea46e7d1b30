"""Wet Chicken, discrete (Hans and Udluft 2009): a canoe before a waterfall.

State (x, y), x along the river (the fall lies beyond x = 4), y across, both 0 to 4; index 5 x + y;
start (0, 0). Actions: drift, hold (x - 1), paddle back (x - 2), left (y - 1), right (y + 1). The
stream runs at v = 3 y / 5 with turbulence of amplitude s = 3.5 - v: x moves by dx + v + tau s, tau
uniform on [-1, 1], and is rounded; beyond 4 the canoe falls and starts again. The reward is the new
x, 0 after a fall. The process never ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spibb.errors import SettingsError
from spibb.mdp.model import TabularMDP
from spibb.mdp.policy import TabularPolicy

_SIZE = 5
_MOVES = ((0, 0), (-1, 0), (-2, 0), (0, -1), (0, 1))
ACTIONS = ("drift", "hold", "paddle-back", "left", "right")


@dataclass(frozen=True)
class WetChicken:
    """The discrete Wet Chicken benchmark.

    Example:
        >>> mdp = WetChicken().to_mdp(gamma=0.95)
        >>> mdp.n_states, mdp.n_actions, bool(mdp.terminal.any())
        (25, 5, False)
    """

    def to_mdp(self, gamma: float = 0.95) -> TabularMDP:
        """Return the exact process: overlaps of the turbulence with the cells of the river."""
        n_states = _SIZE * _SIZE
        transition = np.zeros((n_states, len(_MOVES), n_states))
        for x in range(_SIZE):
            for y in range(_SIZE):
                for a, (dx, dy) in enumerate(_MOVES):
                    row = transition[_SIZE * x + y, a]
                    column = min(max(y + dy, 0), _SIZE - 1)
                    reached, fall = _reach(x + dx, y)
                    row[_SIZE * np.arange(_SIZE) + column] = reached
                    row[0] += fall
        # A fall leads to state 0, where x is 0 as well.
        entry = np.repeat(np.arange(_SIZE, dtype=np.float64), _SIZE)
        return TabularMDP(transition, None, gamma, np.eye(n_states)[0], entry_reward=entry)

    def baseline(self, epsilon: float = 0.1) -> TabularPolicy:
        """Return the heuristic canoeist, mixed with a share epsilon of the uniform policy."""
        if not 0 <= epsilon <= 1:
            raise SettingsError(f"epsilon is {epsilon}", expected="a share in [0, 1]")
        table = np.full((_SIZE * _SIZE, len(_MOVES)), epsilon / len(_MOVES))
        for x in range(_SIZE):
            for y in range(_SIZE):
                table[_SIZE * x + y, _heuristic(x, y)] += 1 - epsilon
        return TabularPolicy(table)


def _reach(x: int, y: int) -> tuple[NDArray[np.float64], float]:
    """Return the distribution of the new x, and the probability of a fall."""
    stream = 3 * y / 5
    amplitude = 3.5 - stream
    low, high = x + stream - amplitude, x + stream + amplitude
    edges = np.arange(_SIZE + 1) - 0.5  # cells of the rounded positions
    edges[0] = -np.inf  # whatever is before the first cell is in it
    upper = np.minimum(edges[1:], high)
    lower = np.maximum(edges[:-1], low)
    reached = np.maximum(0.0, upper - lower) / (high - low)
    return reached, float(max(0.0, 1.0 - reached.sum()))


def _heuristic(x: int, y: int) -> int:
    """Keep to the middle of the river and away from the fall."""
    if x > 2:
        return ACTIONS.index("paddle-back")
    if y < 2:
        return ACTIONS.index("right")
    if y > 2:
        return ACTIONS.index("left")
    return (ACTIONS.index("drift"), ACTIONS.index("hold"), ACTIONS.index("paddle-back"))[x]
