"""A shop that shows one of five items to each visitor: decisions of one step.

Visitors differ in interest, which shows in their number of visits. The interested click on
anything, and it is they who are shown the flagship. Labels that hide interest, or show two groups
of it alone, make the flagship look best for everyone (Simpson's paradox). Decisions of one step
leave no trace of what is hidden over time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.studies.representations.drawing import filled, mixed, with_gaps
from spibb.studies.representations.encoding import Columns, bins, categories
from spibb.studies.representations.simulator import (
    Hidden,
    Representation,
    Simulator,
    choose,
    runner,
)

_TASTES, _ITEMS = 3, 5
# Clicks of each taste on each item, for a visitor of middling interest. The last item, the
# flagship, is shown to the interested, who click on anything.
_APPEAL = np.array(
    [
        [0.13, 0.05, 0.08, 0.05, 0.04],
        [0.04, 0.12, 0.05, 0.09, 0.04],
        [0.07, 0.04, 0.12, 0.05, 0.04],
    ]
)


class _Shop:
    """A visitor of some taste and interest sees one item, and clicks or does not."""

    def start(self, n: int, rng: np.random.Generator) -> Hidden:
        interest = rng.normal(0.0, 1.0, n)
        return {
            "interest": interest,
            "taste": np.floor(rng.random(n) * _TASTES),
            "device": np.floor(rng.random(n) * 3.0),
            "hour": np.floor(rng.random(n) * 24.0),
            "age": np.clip(40.0 + 5.0 * interest + rng.normal(0.0, 12.0, n), 18.0, 90.0),
        }

    def read(self, hidden: Hidden, rng: np.random.Generator) -> Columns:
        n = len(hidden["age"])
        return {
            "visits": np.exp(1.0 + 0.8 * hidden["interest"] + rng.normal(0.0, 0.15, n)),
            "taste": hidden["taste"].astype(np.int64),
            "device": hidden["device"].astype(np.int64),
            "hour": hidden["hour"],
            "age": with_gaps(hidden["age"], 0.15, rng),
        }

    def step(
        self, hidden: Hidden, action: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        n = len(action)
        appeal = _APPEAL[hidden["taste"].astype(np.int64), action]
        rate = np.clip(appeal * np.exp(1.3 * hidden["interest"]), 0.005, 0.5)
        return (rng.random(n) < rate).astype(float), np.ones(n, dtype=bool)


def _behave(columns: Columns, u: NDArray[np.float64]) -> NDArray[np.int64]:
    """Show the flagship to frequent visitors, and to others what suits them, more or less."""
    interest = np.log(filled(columns["visits"], 2.7)) - 1.0
    flagship = 1.0 / (1.0 + np.exp(-6.0 * (interest - 0.8)))
    suited = np.exp(18.0 * _APPEAL[columns["taste"], :4])
    suited = suited / suited.sum(axis=1, keepdims=True)
    probabilities = np.column_stack([(1.0 - flagship)[:, None] * suited, flagship])
    return choose(mixed(probabilities, 0.1), u)


SHOP = Simulator(
    name="shop",
    title="Items shown in a shop",
    gamma=0.0,
    n_steps=1,
    actions=("boots", "tent", "lamp", "rope", "flagship"),
    columns=("visits", "taste", "device", "hour", "age"),
    categorical=("taste", "device"),
    sizes=(1500, 6000, 25000),
    representations=(
        Representation.of(
            "visits-taste",
            "number of visits x taste",
            bins("visits", (1.3, 2.2, 3.5, 6.0)),
            categories("taste", _TASTES),
            is_adequate=True,
        ),
        Representation.of(
            "device-hour",
            "device x hour",
            categories("device", 3),
            bins("hour", (6.0, 12.0, 18.0)),
        ),
        Representation.of("age", "age in groups", bins("age", (25.0, 35.0, 45.0, 55.0, 65.0))),
        Representation.of(
            "visits-coarse",
            "few or many visits x taste",
            bins("visits", (2.2,)),
            categories("taste", _TASTES),
        ),
        Representation.of("taste", "taste alone", categories("taste", _TASTES)),
    ),
    behave=_behave,
    run=runner(_Shop()),
)
