"""CartPole with counts: the second benchmark of the authors' SPIBB-DQN code.

Gymnasium's CartPole, a share of whose actions is replaced by random ones (0.5), in episodes of at
most 200 steps (``spibb/CartPole-v0``); discount 0.9, baselines softmax at temperature 0.2, kernel
of the pseudo-counts 0.2 wide. Logs hold the chosen actions: to the learner the replacement is part
of the dynamics.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from numpy.typing import NDArray

from spibb.errors import PolicyError, SettingsError, checked_number

GAMMA, TEMPERATURE, WIDTH = 0.9, 0.2, 0.2
# Radians at which the pole has fallen.
_FALLEN = 0.2095


class CartPole(CartPoleEnv):
    """CartPole with random replacements.

    Args:
        extra_stochasticity: Probability that a uniformly random action is played instead.
        settings: Settings of Gymnasium's CartPole, as ``render_mode``.
    """

    def __init__(self, extra_stochasticity: float = 0.5, **settings: Any) -> None:
        share = checked_number(extra_stochasticity, "extra_stochasticity")
        if not 0 <= share <= 1:
            raise SettingsError(f"extra_stochasticity is {share}", expected="a share in [0, 1]")
        super().__init__(**settings)
        self.extra_stochasticity = share

    def step(self, action: Any) -> Any:
        """Play the action, or a random one."""
        if not self.action_space.contains(action):
            raise PolicyError(f"action is {action!r}", expected="0 (push left) or 1 (push right)")
        if self.np_random.random() < self.extra_stochasticity:
            action = self.np_random.integers(2)
        return super().step(action)


def controller(states: NDArray[Any]) -> NDArray[np.float32]:
    """Return the probabilities of a simple baseline: push to where the pole falls.

    A softmax of the pole's angle plus a quarter of its angular velocity, in units of the angle at
    which it has fallen.

    Args:
        states: Position, velocity, angle, angular velocity; shape (..., 4).
    """
    lean = (states[..., 2] + 0.25 * states[..., 3]) / _FALLEN
    right = 1 / (1 + np.exp(-np.clip(lean / TEMPERATURE, -30, 30)))
    return np.stack((1 - right, right), axis=-1).astype(np.float32)
