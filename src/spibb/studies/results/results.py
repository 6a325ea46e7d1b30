"""A plan with its results, asked by the names of factors and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from spibb.studies.metrics import IntervalEstimate, Measure
from spibb.studies.plan import Plan
from spibb.studies.results.aggregates import Aggregates

Kind = TypeVar("Kind", bound=Plan)


class NotInPlanError(LookupError):
    """Results are asked for what their plan has not."""


@dataclass(frozen=True, eq=False)
class Results(Generic[Kind]):
    """What a study has found.

    Attributes:
        plan: Its plan.
        aggregates: Its statistics.
        folder: Where it lives, with what else it keeps there.
        fixed: Values of factors, where only results with these are meant.
    """

    plan: Kind
    aggregates: Aggregates
    folder: Path
    fixed: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    @classmethod
    def of_folder(cls, folder: Path, plan: Kind) -> Self:
        """Read the results of a study's folder."""
        return cls(plan, Aggregates.of_study(folder, plan), Path(folder))

    def at(self, **cell: Any) -> Self:
        """Return the results with these values of factors alone."""
        return replace(self, fixed={**self.fixed, **cell})

    def of(self, measure: Measure, label: str | int, **cell: Any) -> IntervalEstimate:
        """Return a statistic of a setting, over the factors that ``cell`` leaves free.

        Args:
            measure: The statistic.
            label: The setting's label, or its place in the plan.
            cell: Values of factors.
        """
        where = self.where(label, **cell)
        return IntervalEstimate(*(part[where] for part in self.aggregates.of(measure)))

    def n_runs(self, label: str | int | None = None, **cell: Any) -> NDArray[np.int64]:
        """Return the runs of a setting, or of all, over the factors that ``cell`` leaves free."""
        return np.asarray(self.aggregates.n[self.where(label, **cell)])

    def where(self, label: str | int | None = None, **cell: Any) -> tuple[Any, ...]:
        """Return the place of a setting, or of all, in the arrays of statistics."""
        known = {**self.plan.factors, "setting": self.plan.labels}
        wanted = {**self.fixed, **cell, "setting": label}
        if isinstance(label, int):
            wanted["setting"] = self.plan.labels[label]
        try:
            return tuple(
                slice(None) if wanted.get(name) is None else values.index(wanted[name])
                for name, values in known.items()
            )
        except ValueError as error:
            raise NotInPlanError(str(error)) from None
