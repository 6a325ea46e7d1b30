"""Which simulators serve development, and which judge: a lot that was drawn before any rule.

The names are sorted alphabetically and shuffled with a fixed seed. The first four serve
development: rules may be changed after a look at them. The other four judge.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spibb.studies.representations.registry import SIMULATORS

LOT_SEED = 31


class Lot(NamedTuple):
    """The two halves of the simulators.

    Attributes:
        development: Names of the simulators that rules were developed on.
        judgement: Names of the simulators that judge the rules.
    """

    development: tuple[str, ...]
    judgement: tuple[str, ...]


def draw_lot(seed: int = LOT_SEED) -> Lot:
    """Draw the halves.

    Args:
        seed: Seed of the permutation.

    Example:
        >>> draw_lot().development
        ('queue', 'machine', 'irrigation', 'shop')
    """
    names = sorted(SIMULATORS)
    order = np.random.default_rng(seed).permutation(len(names))
    drawn = tuple(names[place] for place in order)
    return Lot(drawn[: len(names) // 2], drawn[len(names) // 2 :])
