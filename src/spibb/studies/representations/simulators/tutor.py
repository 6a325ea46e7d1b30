"""A tutor who helps the weak: a student's mastery is hidden, and shows in what is solved.

Tutors help those whose level is low for the difficulty, and give harder items to the others. Labels
without the level hide who is helped (confounding by indication): a policy for them ignores whether
an item suits the student, and students who fail leave.
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

_HINT, _EASIER, _HARDER, _EXAMPLE = 0, 1, 2, 3
_HARDEST, _STEEP = 3.0, 1.6
_HELP = np.array([0.9, 0.0, 0.0, 1.6])  # in logits of solving the item
_TAUGHT = np.array([0.03, 0.02, 0.02, 0.04])
_WORTH = np.array([0.65, 1.0, 1.0, 0.4])  # an item that was helped with counts for less
_OLD = 0.75
# The platform shows tutors a level, cut from the rating at these.
_LEVELS = np.array([0.0, 0.7, 1.4, 2.1, 2.8])
_MIDDLE = np.array([-0.4, 0.35, 1.05, 1.75, 2.45, 3.3])


class _Tutor:
    """Students solve items, learn most from those of their level, and leave when they fail."""

    def start(self, n: int, rng: np.random.Generator) -> Hidden:
        mastery = rng.normal(1.2, 1.2, n)
        recent = sigmoid(mastery - 1.0) + rng.normal(0.0, 0.12, n)
        return {
            "mastery": mastery,
            "rating": mastery + rng.normal(0.0, 0.25, n),
            "recent": np.clip(recent, 0.0, 1.0),
            "difficulty": np.floor(rng.random(n) * 3.0),
            "streak": np.zeros(n),
            "day": np.floor(rng.random(n) * 7.0),
            "device": np.floor(rng.random(n) * 3.0),
        }

    def read(self, hidden: Hidden, rng: np.random.Generator) -> Columns:
        n = len(hidden["day"])
        slow = 0.25 * (hidden["difficulty"] - hidden["mastery"])
        return {
            "rating": hidden["rating"],
            "level": np.searchsorted(_LEVELS, hidden["rating"]).astype(np.int64),
            "recent": hidden["recent"],
            "seconds": with_gaps(np.exp(3.0 + slow + rng.normal(0.0, 0.4, n)), 0.1, rng),
            "streak": hidden["streak"],
            "difficulty": hidden["difficulty"].astype(np.int64),
            "day": hidden["day"].astype(np.int64),
            "device": hidden["device"].astype(np.int64),
        }

    def step(
        self, hidden: Hidden, action: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        n = len(action)
        moved = hidden["difficulty"] + (action == _HARDER) - (action == _EASIER)
        difficulty = np.clip(moved, 0.0, _HARDEST)
        chance = sigmoid(_STEEP * (hidden["mastery"] - difficulty) + _HELP[action])
        solved = (rng.random(n) < chance).astype(float)
        learns = _TAUGHT[action] * (0.4 + 4.0 * chance * (1.0 - chance))
        recent = _OLD * hidden["recent"] + (1.0 - _OLD) * solved
        leaves = rng.random(n) < 0.005 + 0.4 * np.maximum(0.4 - chance, 0.0)
        surprise = solved - sigmoid(_STEEP * (hidden["rating"] - difficulty) + _HELP[action])
        sleeps = rng.random(n) < 0.15
        hidden.update(
            mastery=np.minimum(hidden["mastery"] + learns, 4.0),
            rating=hidden["rating"] + 0.2 * surprise + learns,
            recent=recent,
            difficulty=difficulty,
            streak=np.where(solved > 0, hidden["streak"] + 1.0, 0.0),
            day=(hidden["day"] + sleeps) % 7.0,
        )
        return solved * _WORTH[action] * (0.5 + 0.5 * difficulty), leaves


def _behave(columns: Columns, u: NDArray[np.float64]) -> NDArray[np.int64]:
    """Help those who fail and are slow, and give harder items to those who do well."""
    slow = np.log(filled(columns["seconds"], 20.0)) - 3.0
    weak = columns["difficulty"] - _MIDDLE[columns["level"]] + 0.2 * slow + 0.3
    logits = np.stack([weak - 0.2, weak, -1.5 * weak, 1.5 * weak - 0.2], axis=1)
    weight = np.exp(np.clip(logits, -8.0, 8.0))
    return choose(mixed(weight / weight.sum(axis=1, keepdims=True), 0.15), u)


TUTOR = Simulator(
    name="tutor",
    title="Tutor of students with hidden mastery",
    gamma=0.95,
    n_steps=50,
    actions=("hint", "easier", "harder", "example"),
    columns=("rating", "level", "recent", "seconds", "streak", "difficulty", "day", "device"),
    categorical=("level", "difficulty", "day", "device"),
    sizes=(40, 150, 600),
    representations=(
        Representation.of(
            "level-difficulty",
            "level x difficulty",
            categories("level", len(_MIDDLE)),
            categories("difficulty", 4),
            is_adequate=True,
        ),
        Representation.of(
            "day-device", "weekend or not x device", bins("day", (5.0,)), categories("device", 3)
        ),
        Representation.of("streak", "streak of two or not", bins("streak", (2.0,))),
        Representation.of(
            "seconds-device",
            "response time x device",
            bins("seconds", (15.0, 27.0), typical=20.0),
            categories("device", 3),
        ),
    ),
    behave=_behave,
    run=runner(_Tutor()),
)
