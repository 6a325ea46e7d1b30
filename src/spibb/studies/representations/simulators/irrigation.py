"""A field whose yield depends on soil moisture, salt, and the stage of the crop.

Growers water when the soil is dry, and sandy soil is dry more often. Labels without soil moisture
hide why they water: water then stands beside poor growth, and none at all looks best.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.studies.representations.drawing import filled, mixed, near_level, with_gaps
from spibb.studies.representations.encoding import Columns, bins, categories
from spibb.studies.representations.simulator import (
    Hidden,
    Representation,
    Simulator,
    choose,
    runner,
)

_WATER = np.array([0.0, 0.08, 0.16, 0.24])
_SEASON, _STAGES = 40, 4
_NEED = np.array([0.05, 0.08, 0.10, 0.06])  # what the crop takes up a day, by stage
_PRICE = 1.2


class _Irrigation:
    """Moisture falls with uptake and rises with rain and water; growth needs it in between."""

    def start(self, n: int, rng: np.random.Generator) -> Hidden:
        return {
            "moisture": 0.2 + 0.4 * rng.random(n),
            # Sandy soil dries faster; nothing records it.
            "sand": 0.5 + 1.2 * rng.random(n),
            "salt": 0.2 + 0.3 * rng.random(n),
            "day": np.zeros(n),
            "rain": rng.random(n),
            "pump": np.floor(rng.random(n) * 3.0),
        }

    def read(self, hidden: Hidden, rng: np.random.Generator) -> Columns:
        n = len(hidden["day"])
        seen = hidden["moisture"] + rng.normal(0.0, 0.02, n)
        return {
            "moisture": with_gaps(seen, 0.06, rng),
            "forecast": np.clip(hidden["rain"] + rng.normal(0.0, 0.1, n), 0.0, 1.0),
            "stage": (hidden["day"] * _STAGES // _SEASON).astype(np.int64),
            "salt": hidden["salt"] + rng.normal(0.0, 0.03, n),
            "wind": with_gaps(rng.gamma(2.0, 2.0, n), 0.1, rng),
            "pump": hidden["pump"].astype(np.int64),
        }

    def step(
        self, hidden: Hidden, action: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        n = len(action)
        stage = (hidden["day"] * _STAGES // _SEASON).astype(np.int64)
        rains = rng.random(n) < 0.5 * np.maximum(hidden["rain"] - 0.4, 0.0)
        amount = 0.25 * rng.random(n)
        wet = hidden["moisture"] + _WATER[action] + rains * amount
        drained = np.maximum(wet - 0.8, 0.0)
        uptake = _NEED[stage] * hidden["sand"] * (0.7 + 0.6 * rng.random(n))
        moisture = np.clip(np.minimum(wet, 0.8) - uptake * np.minimum(wet / 0.4, 1.0), 0.02, 1.0)
        stress = np.maximum(0.4 - moisture, 0.0) / 0.4
        soaked = np.maximum(moisture - 0.6, 0.0) / 0.4
        salt = np.clip(hidden["salt"] + 0.15 * _WATER[action] - 0.5 * drained - 0.01, 0.0, 1.0)
        growth = 1.0 - 2.5 * stress - 2.0 * soaked - 0.4 * salt
        day = hidden["day"] + 1.0
        pull = 0.7 * (hidden["rain"] - 0.45) + rng.normal(0.0, 0.22, n)
        hidden.update(moisture=moisture, salt=salt, day=np.minimum(day, _SEASON - 1.0),
                      rain=np.clip(0.45 + pull, 0.0, 1.0))  # fmt: skip
        return growth - _PRICE * _WATER[action], day >= _SEASON


def _behave(columns: Columns, u: NDArray[np.float64]) -> NDArray[np.int64]:
    """Water when the soil is dry, less when rain is forecast, and by habit rather too late."""
    moisture = filled(columns["moisture"], 0.36)
    target = 10.0 * (0.36 - moisture) - 0.8 * (columns["forecast"] - 0.5) + 0.2
    return choose(mixed(near_level(target, 4, 0.5), 0.1), u)


IRRIGATION = Simulator(
    name="irrigation",
    title="Irrigation of a field",
    gamma=0.97,
    n_steps=_SEASON,
    actions=("none", "little", "medium", "much"),
    columns=("moisture", "forecast", "stage", "salt", "wind", "pump"),
    categorical=("stage", "pump"),
    sizes=(25, 100, 400),
    representations=(
        Representation.of(
            "moisture-stage",
            "soil moisture x crop stage",
            bins("moisture", (0.22, 0.29, 0.36, 0.44, 0.55), typical=0.36),
            categories("stage", _STAGES),
            is_adequate=True,
        ),
        Representation.of(
            "stage-forecast",
            "crop stage x rain forecast",
            categories("stage", _STAGES),
            bins("forecast", (0.4, 0.6)),
        ),
        Representation.of(
            "stage-salt",
            "crop stage x salt",
            categories("stage", _STAGES),
            bins("salt", (0.25, 0.38)),
        ),
        Representation.of(
            "stage-pump",
            "crop stage x pump",
            categories("stage", _STAGES),
            categories("pump", 3),
        ),
    ),
    behave=_behave,
    run=runner(_Irrigation()),
)
