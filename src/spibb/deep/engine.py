"""What the engines of the training have in common: what they carry, and how they are asked.

An engine takes the state of a population some steps further. What it cannot do is data, operators
and limits, and is refused by name before anything is trained.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from spibb.deep.population import PopulationState, TrainingBatch
from spibb.errors import SettingsError
from spibb.operators.engine import FROM_COUNTS, Engine

# A number of a training that an engine takes in a range only: what it is called, what it is for
# given trainings, the least and the most that is taken.
Limit = tuple[str, Callable[[TrainingBatch], int], int, int]


class TrainingEngine(ABC):
    """Trains a population.

    Args:
        trainings: What to train.
        device: Where, as torch names devices.
    """

    carries: ClassVar[Engine]
    limits: ClassVar[tuple[Limit, ...]] = ()
    # Whether all members in training must go on to the end of a block.
    ends_blocks: ClassVar[bool] = False
    # Whether fewer blocks are much faster, so that nobody interrupts without need.
    is_whole: ClassVar[bool] = False

    def __init__(self, trainings: TrainingBatch, device: str = "cpu") -> None:
        self.carries.check_carried(trainings.operators)
        found = self.misfit(trainings, device)
        if found is not None:
            hint = 'use engine="torch", which takes networks of any shape'
            raise SettingsError(f"{self.carries.name} cannot train this: {found}", hint=hint)
        self._trainings = trainings

    @classmethod
    def misfit(cls, trainings: TrainingBatch, device: str | None = None) -> str | None:
        """Return the first thing about these trainings that it does not take, or None.

        Args:
            trainings: What to train.
            device: Where; None: wherever.
        """
        for operator in sorted(trainings.operators - cls.carries.operators):
            return f"it does not carry the operator {operator.name}"
        for name, of, least, most in cls.limits:
            if not least <= of(trainings) <= most:
                wanted = f"{least} to {most}" if least < most else f"{most}"
                return f"{name} is {of(trainings)}, and it takes {wanted}"
        return None

    def advance(self, state: PopulationState, n_steps: int) -> PopulationState:
        """Return the state after ``n_steps`` more steps; the old one stays as it is.

        A member that ends earlier stays there, unless the engine ``ends_blocks``.
        """
        copies = {name: part.copy() for name, part in state.arrays.items()}
        after = replace(state, t=state.t + n_steps, **copies)
        if n_steps > 0:
            self._train(after, state.t, n_steps)
        return after

    @abstractmethod
    def _train(self, state: PopulationState, t: int, n_steps: int) -> None:
        """Take ``n_steps`` from step ``t`` on, in place."""


def carrying(name: str) -> Engine:
    """Return what an engine carries that does as the row functions do."""
    return Engine(f"engine {name!r}", FROM_COUNTS, "no training estimates the baseline's Q")
