"""Which generators serve development, and which judge: a lot drawn before any model of risk.

The names are sorted alphabetically and shuffled with a fixed seed. The first half serves
development: models may be changed after a look at it. The other half judges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spibb.studies.generators.registry import GENERATORS

LOT_SEED = 33


class Lot(NamedTuple):
    """The two halves of the generators.

    Attributes:
        development: Names of the generators that models are developed on.
        judgement: Names of the generators that judge the models.
    """

    development: tuple[str, ...]
    judgement: tuple[str, ...]


def draw_lot(seed: int = LOT_SEED) -> Lot:
    """Draw the halves.

    Args:
        seed: Seed of the permutation.
    """
    names = sorted(GENERATORS)
    order = np.random.default_rng(seed).permutation(len(names))
    drawn = tuple(names[place] for place in order)
    return Lot(drawn[: len(names) // 2], drawn[len(names) // 2 :])
