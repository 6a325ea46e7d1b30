"""A heated plant with a lagging valve, held by a proportional controller below its target.

About 39 % of the rows lie below 72 degrees. In a coldest bin that is open there, the controller
heats more when it is colder, so that heating looks harmful; a policy that heats less leaves for
temperatures that the log never had. The load alone hides the temperature altogether.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.studies.representations.drawing import mixed, near_level, with_gaps
from spibb.studies.representations.encoding import Columns, bins
from spibb.studies.representations.simulator import (
    Hidden,
    Representation,
    Simulator,
    choose,
    runner,
)

_LEVELS, _TARGET, _OUTSIDE = 6, 78.0, 20.0
_HEAT, _LOSS, _LAG = 1.35, 0.06, 0.5
_ENERGY, _DISTANCE = 0.15, 0.12


class _Plant:
    """Temperature follows the valve, which follows the heating level; the load cools."""

    def start(self, n: int, rng: np.random.Generator) -> Hidden:
        load = rng.normal(0.0, 1.0, n)
        return {
            "temperature": 73.0 - 2.5 * load + rng.normal(0.0, 1.5, n),
            "valve": 2.9 + 0.3 * load,
            "load": load,
            "humidity": rng.normal(0.0, 1.0, n),
            "shift": np.floor(rng.random(n) * 3.0),
        }

    def read(self, hidden: Hidden, rng: np.random.Generator) -> Columns:
        n = len(hidden["load"])
        return {
            "temperature": hidden["temperature"] + rng.normal(0.0, 0.3, n),
            "load": with_gaps(10.0 + 2.0 * hidden["load"] + rng.normal(0.0, 0.4, n), 0.04, rng),
            "valve": hidden["valve"] + rng.normal(0.0, 0.1, n),
            "humidity": with_gaps(50.0 + 8.0 * hidden["humidity"], 0.1, rng),
            "shift": hidden["shift"].astype(np.int64),
        }

    def step(
        self, hidden: Hidden, action: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        n = len(action)
        valve = hidden["valve"] + _LAG * (action - hidden["valve"])
        lost = _LOSS * (hidden["temperature"] - _OUTSIDE) + 0.75 * (1.0 + hidden["load"])
        drift = _HEAT * valve - lost + rng.normal(0.0, 0.5, n)
        moves = rng.random(n) < 0.05
        hidden.update(
            temperature=np.clip(hidden["temperature"] + drift, _OUTSIDE, 120.0),
            valve=valve,
            load=0.95 * hidden["load"] + 0.31 * rng.standard_normal(n),
            humidity=0.9 * hidden["humidity"] + 0.44 * rng.standard_normal(n),
            shift=np.where(moves, (hidden["shift"] + 1.0) % 3.0, hidden["shift"]),
        )
        cost = _DISTANCE * np.abs(hidden["temperature"] - _TARGET) + _ENERGY * action
        return -cost, np.zeros(n, dtype=bool)


def _behave(columns: Columns, u: NDArray[np.float64]) -> NDArray[np.int64]:
    """Heat in proportion to how cold it is; such a controller stays below its target."""
    target = 2.7 + 0.4 * (73.0 - columns["temperature"])
    return choose(mixed(near_level(target, _LEVELS, 0.9), 0.03), u)


PLANT = Simulator(
    name="plant",
    title="Heated plant",
    gamma=0.97,
    n_steps=100,
    actions=tuple(f"level {level}" for level in range(_LEVELS)),
    columns=("temperature", "load", "valve", "humidity", "shift"),
    categorical=("shift",),
    sizes=(12, 40, 150),
    representations=(
        Representation.of(
            "temperature-load",
            "temperature in fine bins x load",
            bins("temperature", (66.0, 68.0, 70.0, 71.5, 73.0, 75.0, 77.0, 79.0, 82.0)),
            bins("load", (10.0,)),
            is_adequate=True,
        ),
        Representation.of(
            "cold-open",
            "temperature, coldest bin open, x load",
            bins("temperature", (72.0, 75.0, 78.0, 81.0)),
            bins("load", (8.5, 10.0, 11.5)),
        ),
        Representation.of("load", "load alone", bins("load", (8.0, 9.3, 10.7, 12.0))),
    ),
    behave=_behave,
    run=runner(_Plant()),
)
