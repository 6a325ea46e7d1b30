"""Costs in the place of rewards: what ``minimize`` does, and what it refuses.

There is one rule. A log that is read with ``minimize`` has rewards that are its costs with their
sign turned. From there on, everything is about rewards: what is given, as a range of rewards, and
what is told. A gain in reward is the same number as the cost that is saved.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.errors import SettingsError

# What messages, pages and objects say of such a log.
TURNED = "each reward is a cost with its sign turned"


def turned(costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return costs with their sign turned; 0 stays 0, and does not become -0.

    Example:
        >>> turned(np.array([0.0, 2.0])).tolist()
        [0.0, -2.0]
    """
    return 0.0 - costs


def check_range(
    given: tuple[float, float],
    seen: tuple[float, float],
    *,
    name: str,
    what: str,
    minimize: bool,
) -> None:
    """Refuse a range that does not hold what a log holds, or that can be read with either sign.

    Args:
        given: The range.
        seen: The smallest and the largest value in the log.
        name: What the range is called: "reward_range".
        what: What it is a range of: "rewards".
        minimize: Whether the rewards are costs with their sign turned.
    """
    other = (-given[1] + 0.0, -given[0] + 0.0)
    if not _holds(given, seen):
        costs = f", which are costs from {-seen[1] + 0.0:g} to {-seen[0] + 0.0:g}"
        is_mirrored = minimize and _holds(other, seen)
        raise SettingsError(
            f"the log holds {what} from {seen[0]:g} to {seen[1]:g}{costs if minimize else ''}",
            expected=f"{what} inside {name} = {given}",
            hint=f"give {name} = {other}: with minimize, {what} are costs with their sign turned"
            if is_mirrored
            else f"widen {name}, or correct the log",
        )
    check_sign(given, seen, name=name, what=what, minimize=minimize)


def check_sign(
    given: tuple[float, float],
    seen: tuple[float, float],
    *,
    name: str,
    what: str,
    minimize: bool,
) -> None:
    """Refuse a range that holds what a log of costs holds, and would do so with the other sign."""
    other = (-given[1] + 0.0, -given[0] + 0.0)
    if minimize and other != given and _holds(given, seen) and _holds(other, seen):
        raise SettingsError(
            f"{name} = {given} holds the {what} of the log with either sign, and with minimize "
            "they are costs with their sign turned",
            expected="a range that cannot be taken for one of the costs",
            hint=f"widen it until both ends are as far from 0, as "
            f"{(-max(map(abs, given)), max(map(abs, given)))}, or turn the sign of the column "
            "yourself and leave out minimize",
        )


def _holds(ends: tuple[float, float], seen: tuple[float, float]) -> bool:
    return ends[0] <= seen[0] and seen[1] <= ends[1]
