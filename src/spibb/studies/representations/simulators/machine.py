"""A machine whose wear is hidden, and seen through a noisy gauge.

Operators run fast while readings of several hours are low, and repair when they are high. The
current gauge, or the product, hides wear: running fast then looks free of breakdowns, and a repair
looks like a cost without a use. Hours since repair alone leave a gain, smaller than is claimed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.studies.representations.drawing import filled, mixed, sigmoid, with_gaps
from spibb.studies.representations.encoding import Columns, bins, categories
from spibb.studies.representations.simulator import (
    Hidden,
    Representation,
    Simulator,
    choose,
    runner,
)

_FAST, _SLOW, _REPAIR = 0, 1, 2
_WEAR = np.array([0.075, 0.03, 0.0])
_EARNED = np.array([2.0, 1.1, -3.0])
_BREAKDOWN = -16.0
_NOISE, _OLD = 0.35, 0.7  # of the gauge; weight of the past in the smoothed gauge


class _Machine:
    """Wear grows with use until a repair; a worn machine breaks down, which also resets it."""

    def start(self, n: int, rng: np.random.Generator) -> Hidden:
        wear = rng.random(n)
        return {
            "wear": wear,
            "gauge": wear + rng.normal(0.0, _NOISE, n),
            "smoothed": wear + rng.normal(0.0, 0.17, n),
            "hours": np.floor(wear * 20.0 * (0.7 + 0.6 * rng.random(n))),
            "product": np.floor(rng.random(n) * 3.0),
            "room": rng.normal(21.0, 2.0, n),
        }

    def read(self, hidden: Hidden, rng: np.random.Generator) -> Columns:
        return {
            "gauge": with_gaps(hidden["gauge"], 0.04, rng),
            "smoothed": hidden["smoothed"],
            "hours": hidden["hours"],
            "product": hidden["product"].astype(np.int64),
            "room": with_gaps(hidden["room"], 0.03, rng),
            "vibration": hidden["wear"] + rng.normal(0.0, 0.35, len(hidden["wear"])),
        }

    def step(
        self, hidden: Hidden, action: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        n = len(action)
        is_repair = action == _REPAIR
        risk = 0.5 * sigmoid(9.0 * (hidden["wear"] - 1.15)) * (1.0 + 0.5 * (action == _FAST))
        breaks = (rng.random(n) < risk) & ~is_repair
        is_new = breaks | is_repair
        grown = hidden["wear"] + _WEAR[action] * 2.0 * rng.random(n)
        wear = np.where(is_new, 0.0, np.minimum(grown, 2.5))
        gauge = wear + rng.normal(0.0, _NOISE, n)
        smoothed = _OLD * hidden["smoothed"] + (1.0 - _OLD) * gauge
        changes = rng.random(n) < 0.1
        hidden.update(
            wear=wear,
            gauge=gauge,
            # The average starts anew with a repair.
            smoothed=np.where(is_new, 0.3 * gauge, smoothed),
            hours=np.where(is_new, 0.0, hidden["hours"] + 1.0),
            product=np.where(changes, np.floor(rng.random(n) * 3.0), hidden["product"]),
            room=21.0 + 0.9 * (hidden["room"] - 21.0) + rng.normal(0.0, 0.8, n),
        )
        return _EARNED[action] + breaks * _BREAKDOWN, np.zeros(n, dtype=bool)


def _behave(columns: Columns, u: NDArray[np.float64]) -> NDArray[np.int64]:
    """Slow down and repair by the smoothed gauge and the sound, and now and then for no reason."""
    sound = columns["vibration"]
    seen = 0.8 * columns["smoothed"] + 0.15 * sound + 0.05 * filled(columns["gauge"], 0.5)
    repair = sigmoid(9.0 * (seen - 0.85))
    slow = (1.0 - repair) * sigmoid(7.0 * (seen - 0.55))
    probabilities = np.stack([1.0 - repair - slow, slow, repair], axis=1)
    return choose(mixed(probabilities, 0.15), u)


MACHINE = Simulator(
    name="machine",
    title="Machine with hidden wear",
    gamma=0.95,
    n_steps=60,
    actions=("run fast", "run slow", "repair"),
    columns=("gauge", "smoothed", "hours", "product", "room", "vibration"),
    categorical=("product",),
    sizes=(20, 80, 300),
    representations=(
        Representation.of(
            "smoothed-hours",
            "smoothed gauge x hours since repair",
            bins("smoothed", (0.25, 0.5, 0.7, 0.9)),
            bins("hours", (5.0, 10.0, 16.0)),
            is_adequate=True,
        ),
        Representation.of("hours", "hours since repair alone", bins("hours", (5.0, 10.0, 16.0))),
        Representation.of("gauge", "current gauge in bins", bins("gauge", (0.2, 0.7), typical=0.5)),
        Representation.of(
            "product-room",
            "product x room temperature",
            categories("product", 3),
            bins("room", (20.0, 22.0)),
        ),
    ),
    behave=_behave,
    run=runner(_Machine()),
)
