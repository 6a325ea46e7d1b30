"""Blood glucose on a ward: meals raise it, insulin lowers it for hours.

Nurses dose by glucose and trend, and forget what is still acting: there is a gain to make. Patients
differ in how much insulin they need, which nothing records. Hours of the day, or glucose in two
bins, hide how high it is: doses then stand beside bad values, and no insulin looks best.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.studies.representations.drawing import filled, mixed, near_level, with_gaps
from spibb.studies.representations.encoding import Columns, bins
from spibb.studies.representations.simulator import (
    Hidden,
    Representation,
    Simulator,
    choose,
    runner,
)

_DOSES = np.array([0.0, 2.0, 4.0, 7.0])
_MEALS = np.array([8.0, 13.0, 19.0])
_KEPT = 0.6  # share of insulin and carbohydrates that is still there an hour later
_PER_GRAM, _PER_UNIT = 2.6, 18.0  # what they move in all, in mg/dl


class _Glucose:
    """Insulin acts over hours, so that doses given soon after one another add up."""

    def start(self, n: int, rng: np.random.Generator) -> Hidden:
        glucose = np.clip(rng.normal(190.0, 55.0, n), 70.0, 380.0)
        return {
            "glucose": glucose,
            "before": glucose + rng.normal(0.0, 20.0, n),
            "insulin": 2.0 * rng.random(n),
            "carbs": np.zeros(n),
            "meal": np.zeros(n),
            "hour": np.floor(rng.random(n) * 24.0),
            # How strongly a patient answers to insulin, which nothing records.
            "answer": 0.75 + 0.5 * rng.random(n),
            # What the liver adds each hour: more in the very ill, who need more insulin.
            "liver": 6.0 + 24.0 * rng.random(n),
            "activity": rng.random(n),
        }

    def read(self, hidden: Hidden, rng: np.random.Generator) -> Columns:
        n = len(hidden["hour"])
        return {
            "glucose": hidden["glucose"] + rng.normal(0.0, 5.0, n),
            "trend": hidden["glucose"] - hidden["before"] + rng.normal(0.0, 7.0, n),
            "insulin": hidden["insulin"].copy(),
            "meal": with_gaps(hidden["meal"], 0.08, rng),
            "hour": hidden["hour"],
            "activity": with_gaps(hidden["activity"], 0.15, rng),
            "pulse": rng.normal(75.0, 9.0, n),
        }

    def step(
        self, hidden: Hidden, action: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        n = len(action)
        insulin = hidden["insulin"] + _DOSES[action]
        acts, raises = (1.0 - _KEPT) * insulin, (1.0 - _KEPT) * hidden["carbs"]
        lowered = _PER_UNIT * hidden["answer"] * acts * np.minimum(hidden["glucose"] / 100.0, 1.5)
        change = _PER_GRAM * raises - lowered + hidden["liver"] - 8.0 * hidden["activity"]
        glucose = np.clip(hidden["glucose"] + change + rng.normal(0.0, 7.0, n), 35.0, 420.0)
        hour = (hidden["hour"] + 1.0) % 24.0
        eats = np.isin(hour, _MEALS) & (rng.random(n) < 0.9)
        meal = np.where(eats, 25.0 + 45.0 * rng.random(n), 0.0)
        hidden.update(
            before=hidden["glucose"],
            glucose=glucose,
            insulin=_KEPT * insulin,
            carbs=_KEPT * hidden["carbs"] + meal,
            meal=np.where(eats, meal, 0.5 * hidden["meal"]),
            hour=hour,
            activity=np.clip(0.7 * hidden["activity"] + 0.3 * rng.random(n), 0.0, 1.0),
        )
        high, low = np.maximum(glucose - 140.0, 0.0) / 80.0, np.maximum(80.0 - glucose, 0.0) / 15.0
        return 1.0 - high - low, np.zeros(n, dtype=bool)


def _behave(columns: Columns, u: NDArray[np.float64]) -> NDArray[np.int64]:
    """Dose by glucose and its trend, as nurses do who forget what is still acting."""
    seen = columns["glucose"] + 0.3 * columns["trend"] + 0.4 * filled(columns["meal"], 5.0)
    target = (seen - 165.0) / 50.0
    return choose(mixed(near_level(target, 4, 0.55), 0.06), u)


GLUCOSE = Simulator(
    name="glucose",
    title="Insulin on a ward",
    gamma=0.95,
    n_steps=48,
    actions=("no insulin", "2 units", "4 units", "7 units"),
    columns=("glucose", "trend", "insulin", "meal", "hour", "activity", "pulse"),
    categorical=(),
    sizes=(24, 80, 320),
    representations=(
        Representation.of(
            "glucose-insulin",
            "glucose x insulin on board",
            bins("glucose", (90.0, 120.0, 155.0, 190.0, 240.0)),
            bins("insulin", (1.0, 2.5, 5.0)),
            is_adequate=True,
        ),
        Representation.of(
            "hour", "hour of the day", bins("hour", (7.5, 9.5, 12.5, 14.5, 18.5, 20.5))
        ),
        Representation.of("low", "glucose low or not", bins("glucose", (110.0,))),
        Representation.of(
            "activity-pulse",
            "activity x pulse",
            bins("activity", (0.4, 0.6)),
            bins("pulse", (70.0, 80.0)),
        ),
    ),
    behave=_behave,
    run=runner(_Glucose()),
)
