"""Discrete spaces of Gymnasium: how many there are, and what they are called."""

from __future__ import annotations

from typing import Any

from spibb.errors import DataError
from spibb.tables.label_columns import Labels


def discrete_space(space: Any, what: str, source: str) -> tuple[int, int, Labels]:
    """Return how many values a space has, the first of them, and labels if that is not 0.

    Args:
        space: A space of observations or actions.
        what: Which of the two, in plural.
        source: Whose they are, for messages.
    """
    from gymnasium.spaces import Discrete

    if not isinstance(space, Discrete):
        raise DataError(
            f"the {what} of {source} are {space}",
            expected="Discrete",
            hint="group them first, for example by a wrapper that numbers the groups",
        )
    n, start = int(space.n), int(space.start)
    return n, start, None if start == 0 else tuple(map(str, range(start, start + n)))
