"""A study whose third job cannot be computed."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spibb.studies.plan import Plan, factor
from spibb.studies.study import Study


@dataclass(frozen=True, kw_only=True)
class CountingPlan(Plan):
    """A plan of one factor."""

    study: ClassVar[str] = "counting"
    steps: tuple[int, ...] = factor("steps", int)


def run(plan, runs):
    """Return the runs themselves as scores; run 5 fails."""
    if 5 in runs:
        raise ArithmeticError(f"run 5 of seed {plan.seed}\ncannot be counted")
    scores = np.empty((len(runs), *plan.shape), dtype=np.float32)
    scores[...] = np.reshape(runs, (-1, 1, 1))
    return {"score": scores}


COUNTING = Study(CountingPlan, run, (), draw=lambda results: [])
