"""Patients of hidden severity: readings with gaps, doses by severity, survival at the end.

Clinicians dose by severity, as pressure, creatinine and lactate show it. Temperature, heart rate,
white cells and breathing say little of severity: doses then stand beside deaths, and no treatment
looks best.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.studies.representations.drawing import mixed, near_level, sigmoid, with_gaps
from spibb.studies.representations.encoding import Columns, bins
from spibb.studies.representations.simulator import (
    Hidden,
    Representation,
    Simulator,
    choose,
    runner,
)

_LEVELS = 5
_WORST = 1.8
# Reading: value at no severity, change for one unit of it, noise, share of gaps.
_READINGS = {
    "pressure": (88.0, -26.0, 3.5, 0.02),
    "creatinine": (0.8, 1.6, 0.25, 0.2),
    "lactate": (1.0, 3.0, 0.6, 0.4),
    "heart": (76.0, 22.0, 9.0, 0.02),
    "temperature": (37.2, 0.3, 0.7, 0.1),
    "white": (9.0, 2.5, 3.5, 0.3),
    "breathing": (16.0, 4.0, 3.5, 0.05),
}


class _Vitals:
    """Severity rises untreated and falls with a dose that suits it; too much of it harms."""

    def start(self, n: int, rng: np.random.Generator) -> Hidden:
        severity = 0.3 + 0.9 * rng.random(n)
        return {"severity": severity, "age": np.floor(30.0 + 60.0 * rng.random(n))}

    def read(self, hidden: Hidden, rng: np.random.Generator) -> Columns:
        n = len(hidden["age"])
        columns: Columns = {}
        for name, (healthy, slope, noise, gaps) in _READINGS.items():
            value = healthy + slope * hidden["severity"] + rng.normal(0.0, noise, n)
            columns[name] = with_gaps(value, gaps, rng)
        columns["age"] = hidden["age"]
        return columns

    def step(
        self, hidden: Hidden, action: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        n, severity = len(action), hidden["severity"]
        u = rng.random(n)
        dies = u < 0.4 * sigmoid(9.0 * (severity - 1.15))
        leaves = ~dies & (u > 1.0 - 0.8 * sigmoid(25.0 * (0.3 - severity)))
        need = np.minimum(3.2 * severity, _LEVELS - 1.0)
        helped = 0.18 * np.minimum(action, need)
        harmed = 0.08 * np.maximum(action - need - 0.5, 0.0)
        drift = 0.36 * np.minimum(severity / 0.6, 1.0) - 0.07
        moved = severity + drift - helped + harmed + rng.normal(0.0, 0.14, n)
        hidden["severity"] = np.clip(moved, 0.0, _WORST)
        return leaves.astype(float), dies | leaves


def _behave(columns: Columns, u: NDArray[np.float64]) -> NDArray[np.int64]:
    """Dose by what pressure, creatinine and lactate say of severity, and rather too little."""
    weighted, weights = np.zeros(len(u)), np.full(len(u), 1e-9)
    for name, weight in (("pressure", 3.0), ("creatinine", 1.5), ("lactate", 1.0)):
        healthy, slope, _, _ = _READINGS[name]
        severity = (columns[name] - healthy) / slope
        known = ~np.isnan(severity)
        weighted += weight * np.where(known, severity, 0.0)
        weights += weight * known
    target = 2.8 * weighted / weights - 0.25
    return choose(mixed(near_level(target, _LEVELS, 0.6), 0.05), u)


VITALS = Simulator(
    name="vitals",
    title="Doses and survival of patients",
    gamma=0.99,
    n_steps=60,
    actions=tuple(f"dose {level}" for level in range(_LEVELS)),
    columns=(*_READINGS, "age"),
    categorical=(),
    sizes=(150, 600, 2000),
    representations=(
        Representation.of(
            "pressure-creatinine",
            "pressure x creatinine",
            bins("pressure", (58.0, 64.0, 70.0, 76.0, 82.0)),
            bins("creatinine", (1.4, 2.2), typical=1.8),
            is_adequate=True,
        ),
        Representation.of(
            "temperature", "temperature in four bins", bins("temperature", (36.8, 37.4, 38.0))
        ),
        Representation.of(
            "heart", "heart rate in six bins", bins("heart", (74.0, 82.0, 90.0, 98.0, 106.0))
        ),
        Representation.of(
            "white-breathing",
            "white cells x breathing rate",
            bins("white", (9.0, 12.0)),
            bins("breathing", (16.5, 20.0)),
        ),
    ),
    behave=_behave,
    run=runner(_Vitals()),
)
