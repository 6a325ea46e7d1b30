"""Slow, obvious twins of the helicopter and of the pseudo-counts: plain loops, float64."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spibb.deep.transitions import Transitions

Array = NDArray[np.float64]


def kernel_counts(
    transitions: Transitions, states: Sequence[Sequence[float]], width: float
) -> Array:
    """Return sum over j with a_j = a of max(0, 1 - d / width), row by row."""
    found = np.zeros((len(states), transitions.n_actions))
    for i, state in enumerate(states):
        for other, action in zip(transitions.state, transitions.action, strict=True):
            distance = math.dist([float(x) for x in state], [float(x) for x in other])
            found[i, action] += max(0.0, 1.0 - distance / width)
    return found


def fly_one_step(
    state: Sequence[float], action: int, noise: Sequence[float]
) -> tuple[list[float], float, bool]:
    """Return next state, reward and end of one helicopter, from the definition of the domain."""
    x, y, vx, vy = (float(part) for part in state)
    ax, ay = action // 3 - 1, action % 3 - 1
    x += vx * 0.1 + 0.5 * ax * abs(ax) * 0.1**2 + 0.025 * float(noise[0])
    y += vy * 0.1 + 0.5 * ay * abs(ay) * 0.1**2 + 0.025 * float(noise[1])
    vx += ax * 0.1 + 0.05 * float(noise[2])
    vy += ay * 0.1 + 0.05 * float(noise[3])
    reward, ended = 0.0, False
    if x <= 0 or x >= 1 or y <= 0 or y >= 1:
        distance = math.hypot(x - 1, y - 1)
        reward = 10.0 if distance == 0 else min(10.0, max(-1.0, 1 / distance - 4))
        ended = True
    if max(abs(vx), abs(vy)) >= 1:
        reward, ended = -1.0, True
    return [x, y, vx, vy], reward, ended
