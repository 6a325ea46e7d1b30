"""A plan with its results, asked by the names of factors and settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from spibb.studies.metrics import IntervalEstimate, Measure
from spibb.studies.plan import Plan
from spibb.studies.results.aggregates import Aggregates

Kind = TypeVar("Kind", bound=Plan)


@dataclass(frozen=True, eq=False)
class Results(Generic[Kind]):
    """What a study has found.

    Attributes:
        plan: Its plan.
        aggregates: Its statistics.
        folder: Where it lives, with what else it keeps there.
    """

    plan: Kind
    aggregates: Aggregates
    folder: Path

    @classmethod
    def of_folder(cls, folder: Path, plan: Kind) -> Self:
        """Read the results of a study's folder."""
        return cls(plan, Aggregates.of_study(folder, plan), Path(folder))

    def of(self, measure: Measure, label: str | int, **cell: Any) -> IntervalEstimate:
        """Return a statistic of a setting, over the factors that ``cell`` leaves free.

        Args:
            measure: The statistic.
            label: The setting's label, or its place in the plan.
            cell: Values of factors.
        """
        where = self.where(label, **cell)
        return IntervalEstimate(*(part[where] for part in self.aggregates.of(measure)))

    def n_runs(self, label: str | int, **cell: Any) -> NDArray[np.int64]:
        """Return the runs of a setting, over the factors that ``cell`` leaves free."""
        return np.asarray(self.aggregates.n[self.where(label, **cell)])

    def where(self, label: str | int, **cell: Any) -> tuple[Any, ...]:
        """Return the place of a setting in the arrays of statistics."""
        factors = self.plan.factors.items()
        places = [
            values.index(cell[name]) if name in cell else slice(None) for name, values in factors
        ]
        return *places, label if isinstance(label, int) else self.plan.labels.index(label)

    def has(self, *labels: str) -> bool:
        """Tell whether the plan has these settings."""
        return set(self.plan.labels).issuperset(labels)
