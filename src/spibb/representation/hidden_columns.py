"""Which raw columns explain actions and outcomes inside of labels, and where to split these."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spibb.data.features import Features
from spibb.data.log import Log
from spibb.representation.dependence import Dependence, dependence, explained_by_stratum
from spibb.representation.outcome_dependence import outcome_dependence
from spibb.representation.refined_gain import label_values
from spibb.representation.splitters import Tree
from spibb.representation.steps import Array, Codes, Steps
from spibb.representation.targets import outcome_targets

# Fewer rows on a side of a split say little.
_LEAST_ROWS = 20.0
# An open-ended label holds so many of all rows, and is so much wider than a typical one.
_MANY_ROWS, _WIDE = 0.2, 1.5


@dataclass(frozen=True)
class HiddenPart:
    """A label in which a column explains something.

    Attributes:
        label: The label.
        rows: Rows in it.
        weight: Its part in what the column explains over all labels.
        split: Where to split it, in words; empty where too few rows are on a side.
        is_open: Whether it holds many rows and a far wider range of the column than other labels.
    """

    label: int
    rows: int
    weight: float
    split: str
    is_open: bool


class HiddenColumns:
    """Raw columns of a log, and what they explain beyond labels."""

    def __init__(self, log: Log, features: Features, gamma: float) -> None:
        self.log, self.features, self.gamma = log, features, gamma

    @cached_property
    def actions(self) -> Dependence:
        """Of the logged actions, given the label."""
        return dependence(self.features.values, self.log.state, self.log.state, self._taken)

    @cached_property
    def outcomes(self) -> Dependence | None:
        """Of what follows, given label and action; None where rows are not connected."""
        if self._steps is None:
            return None
        own = self.features.values[self._steps.row]
        return outcome_dependence(own, self._steps, self._pair, self._targets)

    def parts(self, column: int, *, of_actions: bool) -> list[HiddenPart]:
        """Return the labels in which a column explains most, the first ones first.

        Args:
            column: The column.
            of_actions: Whether actions are explained, or what follows.
        """
        steps = self._steps
        if of_actions or steps is None:
            rows, targets = np.arange(len(self.log)), self._taken
            label = stratum = self.log.state
        else:
            rows, targets, label, stratum = steps.row, self._targets, steps.state, self._pair
        values = self.features.values[rows]
        by_stratum = explained_by_stratum(values[:, column], stratum, label, targets)
        n_actions = 1 if stratum is label else self.log.n_actions
        weight = np.zeros(self.log.n_states)
        np.add.at(weight, np.arange(len(by_stratum)) // n_actions, by_stratum)
        total = max(float(np.maximum(weight, 0.0).sum()), 1e-300)
        n = np.bincount(self.log.state, minlength=self.log.n_states)
        return [
            HiddenPart(
                label=int(x),
                rows=int(n[x]),
                weight=float(weight[x] / total),
                split=self._split(int(x), column, rows, label, targets),
                is_open=bool(self._is_open(column)[x]),
            )
            for x in np.argsort(-weight, kind="stable")
            if weight[x] > 0.0
        ]

    def _split(self, x: int, column: int, rows: Codes, label: Codes, targets: Array) -> str:
        here = np.flatnonzero(label == x)
        values = self.features.values[rows][:, [column]]
        least = np.full(self.log.n_states, _LEAST_ROWS)
        cut = Tree(values, least, targets, np.zeros(len(rows), dtype=np.int64))(x, here, ())
        return "" if cut is None else self.features.describe(column, cut.threshold)

    def _is_open(self, column: int) -> NDArray[np.bool_]:
        values, state = self.features.values[:, column], self.log.state
        known = np.isfinite(values)
        n = np.maximum(np.bincount(state[known], minlength=self.log.n_states), 1)
        mean = np.bincount(state[known], values[known], self.log.n_states) / n
        off = (values[known] - mean[state[known]]) ** 2
        spread = np.sqrt(np.bincount(state[known], off, self.log.n_states) / n)
        share = np.bincount(state, minlength=self.log.n_states) / len(state)
        typical = float(np.median(spread[share > 0.0]))
        return np.asarray((share >= _MANY_ROWS) & (spread > _WIDE * typical))

    @cached_property
    def _taken(self) -> Array:
        return np.eye(self.log.n_actions)[self.log.action]

    @cached_property
    def _steps(self) -> Steps | None:
        return Steps.of(self.log)

    @cached_property
    def _pair(self) -> Codes:
        assert self._steps is not None
        return self._steps.state * self.log.n_actions + self._steps.action

    @cached_property
    def _targets(self) -> Array:
        assert self._steps is not None
        shape = self.log.n_states, self.log.n_actions
        v = label_values(self._steps, None, shape, self.gamma)
        return outcome_targets(self._steps, shape, (v,), self.gamma)
