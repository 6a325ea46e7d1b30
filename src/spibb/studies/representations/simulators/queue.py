"""A queue whose arrivals switch between a quiet and a busy phase that nothing records.

Operators open servers by the customers whom they see arriving. Labels that hide recent arrivals
hide the phase: many servers then stand beside long queues, and one server looks best. Labels of
recent arrivals alone hide how long the queue is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.studies.representations.drawing import filled, mixed, near_level, poisson_of, with_gaps
from spibb.studies.representations.encoding import Columns, bins
from spibb.studies.representations.simulator import (
    Hidden,
    Representation,
    Simulator,
    choose,
    runner,
)

# Arrivals a period in either phase, and what one server completes.
_QUIET, _BUSY, _SERVED = 1.2, 5.0, 1.7
_SWITCH, _ROOM = 0.06, 14.0
_HOLDING, _SERVER, _REFUSED = 0.3, 1.0, 3.0
_OLD = 0.6  # weight of the past in smoothed arrivals


class _Queue:
    """Customers wait; opened servers complete them at a cost each period."""

    def start(self, n: int, rng: np.random.Generator) -> Hidden:
        is_busy = (rng.random(n) < 0.5).astype(float)
        mean = np.where(is_busy > 0, _BUSY, _QUIET)
        recent = mean + rng.normal(0.0, 0.8, n)
        return {
            "queue": poisson_of(rng.random(n), mean),
            "busy": is_busy,
            "arrivals": poisson_of(rng.random(n), mean),
            "recent": np.maximum(recent, 0.0),
            "hour": np.floor(rng.random(n) * 24.0),
            "weekday": np.floor(rng.random(n) * 7.0),
        }

    def read(self, hidden: Hidden, rng: np.random.Generator) -> Columns:
        n = len(hidden["queue"])
        return {
            "queue": hidden["queue"].copy(),
            "arrivals": with_gaps(hidden["arrivals"], 0.05, rng),
            "recent": hidden["recent"],
            "hour": hidden["hour"],
            "weekday": hidden["weekday"].astype(np.int64),
            "outdoors": rng.normal(12.0, 6.0, n),
        }

    def step(
        self, hidden: Hidden, action: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        n = len(action)
        switches = rng.random(n) < _SWITCH
        busy = np.where(switches, 1.0 - hidden["busy"], hidden["busy"])
        arrivals = poisson_of(rng.random(n), np.where(busy > 0, _BUSY, _QUIET))
        served = poisson_of(rng.random(n), _SERVED * (action + 1.0))
        waiting = np.maximum(hidden["queue"] - served, 0.0) + arrivals
        refused = np.maximum(waiting - _ROOM, 0.0)
        hour = hidden["hour"] + 1.0
        hidden.update(
            queue=waiting - refused,
            busy=busy,
            arrivals=arrivals,
            recent=_OLD * hidden["recent"] + (1.0 - _OLD) * arrivals,
            hour=hour % 24.0,
            weekday=(hidden["weekday"] + (hour >= 24.0)) % 7.0,
        )
        reward = -(_HOLDING * hidden["queue"] + _SERVER * (action + 1.0) + _REFUSED * refused)
        return reward, np.zeros(n, dtype=bool)


def _behave(columns: Columns, u: NDArray[np.float64]) -> NDArray[np.int64]:
    """Open servers by what is seen arriving, a little by the queue, and with a habit of caution."""
    recent = columns["recent"]
    seen = 0.85 * recent + 0.15 * np.where(
        np.isnan(columns["arrivals"]), recent, columns["arrivals"]
    )
    target = 0.75 * seen + 0.05 * filled(columns["queue"], 5.0) - 0.3
    return choose(mixed(near_level(target, 4, 1.1), 0.15), u)


QUEUE = Simulator(
    name="queue",
    title="Queue with an unrecorded busy phase",
    gamma=0.95,
    n_steps=50,
    actions=("1 server", "2 servers", "3 servers", "4 servers"),
    columns=("queue", "arrivals", "recent", "hour", "weekday", "outdoors"),
    categorical=("weekday",),
    sizes=(24, 80, 300),
    representations=(
        Representation.of(
            "queue-recent",
            "queue length x recent arrivals",
            bins("queue", (2.0, 4.0, 6.0, 8.0, 11.0)),
            bins("recent", (2.0, 3.0, 4.2)),
            is_adequate=True,
        ),
        Representation.of("recent", "recent arrivals alone", bins("recent", (2.0, 3.0, 4.2))),
        Representation.of("queue", "queue length, longest bin open", bins("queue", (2.0, 4.0))),
        Representation.of("hour", "hour of the day", bins("hour", (4.0, 8.0, 12.0, 16.0, 20.0))),
    ),
    behave=_behave,
    run=runner(_Queue()),
)
