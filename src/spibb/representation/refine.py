"""Four refinements of labels by raw columns, and what a policy gains in each.

* quantiles: labels are halved at the median of the column that explains most of what follows;
* equal widths: they are halved in the middle of its range, which divides the ends of open bins;
* tree: they are cut where what follows differs most, grown on one half of the blocks and used on
  the other, both ways;
* linear: Q is linear in all columns within labels, which extrapolates beyond what the log holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spibb.representation.dependence import dependence
from spibb.representation.linear_gain import linear_gain
from spibb.representation.partition import Partition, grow
from spibb.representation.refined_gain import RefinedGain, label_values, refined_gain
from spibb.representation.splitters import Quantiles, Splitter, Tree, Widths
from spibb.representation.steps import Array, Codes, Steps
from spibb.representation.targets import outcome_targets

# A cell keeps at least so many rows, and so many expected of each action that the policy takes.
_ROWS, _ROWS_OF_ACTION, _MOST_ROWS = 20.0, 5.0, 200.0
# Actions that the policy takes less often do not limit how fine states may be.
_TAKEN = 0.1
_MOST_CELLS = 1_000
# Cells are grown on at most so many rows, whole blocks of them; all rows are used in them.
_GROWN_ROWS = 200_000
# A column that explains nothing is still cut where no other is left.
_LEAST_RELEVANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Refiner:
    """A log whose labels can be refined.

    Attributes:
        steps: Its steps.
        values: Raw columns of each row of the log, shape (rows, K).
        table: The policy in labels, shape (S, A).
        baseline: The baseline in labels, shape (S, A).
        gamma: The discount.
        claim: The gain in labels.
    """

    steps: Steps
    values: Array
    table: Array
    baseline: Array
    gamma: float
    claim: RefinedGain

    @classmethod
    def of(
        cls, steps: Steps, values: Array, table: Array, baseline: Array, gamma: float
    ) -> Refiner:
        """Compute the gain in labels, to which others are compared."""
        claim = refined_gain(steps, steps.label_of, table, baseline, gamma)
        return cls(steps, values, table, baseline, gamma, claim)

    def gains(self) -> Iterator[tuple[str, RefinedGain]]:
        """Yield the gain in each refinement."""
        part = self.steps.sample(_GROWN_ROWS)
        targets, group = self._targets(part)
        least = self._rows_needed(part)
        own = self.values[part.row]
        shares = dependence(own, 2 * part.state + group, part.state, targets).share
        relevance = np.maximum(shares, 0.0) + _LEAST_RELEVANCE
        for name, kind in (("quantiles", Quantiles), ("equal widths", Widths)):
            partition = self._grown(part, least, kind(own, least, relevance))
            yield name, self._gain(partition, self.steps)
        halves = []
        for side in (0, 1):
            is_grown = part.block % 2 == side
            tree = Tree(own[is_grown], least / 2.0, targets[is_grown], group[is_grown])
            partition = self._grown(part.take(is_grown), least / 2.0, tree)
            halves.append(self._gain(partition, self.steps.take(self.steps.block % 2 != side)))
        yield "tree", RefinedGain.average(*halves)
        yield "linear", linear_gain(self.steps, self.values, self.table, self.gamma)

    def _gain(self, partition: Partition, steps: Steps) -> RefinedGain:
        code = partition.assign(self.steps.label_of, self.values)
        tables = self.table[partition.label], self.baseline[partition.label]
        return refined_gain(steps, code, *tables, self.gamma)

    def _grown(self, part: Steps, least: Array, split: Splitter) -> Partition:
        return grow(len(self.table), part.state, least, split)

    def _targets(self, part: Steps) -> tuple[Array, Codes]:
        """Return what cells are to tell apart, and whether the policy takes the action more."""
        v = label_values(self.steps, None, self.table.shape, self.gamma)
        new = label_values(self.steps, self.table, self.table.shape, self.gamma)
        targets = outcome_targets(part, self.table.shape, (v, new), self.gamma)
        is_more = self.table > self.baseline + 1e-9
        return targets, is_more[part.state, part.action].astype(np.int64)

    def _rows_needed(self, part: Steps) -> NDArray[np.float64]:
        """Return how many rows a cell of each label must keep, shape (S,)."""
        is_taken = (self.table >= _TAKEN) & (self.baseline > 0.0)
        rarest = np.where(is_taken, self.baseline, 1.0).min(axis=1)
        least = np.clip(_ROWS_OF_ACTION / rarest, _ROWS, _MOST_ROWS)
        n = np.bincount(part.state, minlength=len(least))
        least *= len(part.row) / len(self.steps.row)
        while np.floor(n / least).sum() > _MOST_CELLS and least.min() < len(part.row):
            least = 1.5 * least
        return np.asarray(least)
