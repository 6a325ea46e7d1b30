"""Scores of the study and their statistics, with intervals that respect how runs hang together.

The trainings on one data set share its errors, so that 300 runs are 20 clusters of 15 rather than
300 independent draws. Intervals are percentile bootstrap intervals over data sets: a resample draws
data sets with replacement and takes all trainings of each. All settings share the resamples, and so
differences between settings of the same size have intervals too.

An algorithm's best hyper-parameter is that of the largest mean under the long evaluation. Choosing
by the results themselves is a little optimistic, the more so the flatter the curve and the finer
the grid; the paper does the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spibb.errors import DataError
from spibb.runner.store import Store
from spibb.studies.helicopter.plan import BASELINE, LONG, SHIPPED, SHORT, HelicopterPlan
from spibb.studies.metrics import ENDS, Floats, IntervalEstimate, Measure, cvar, has_interval
from spibb.studies.plan import Setting
from spibb.studies.results.aggregates import SHARES, Aggregates, Results
from spibb.studies.results.cells import checked_rows, scores_by_run
from spibb.studies.results.recording import read_rows

N_RESAMPLES = 2_000
# Fewer data sets than these say too little about how data sets differ.
MIN_DATA_SETS = 5
# Sets the resamples of the bootstrap apart from the randomness of the runs.
_BOOTSTRAP = 0xB007
MEAN, CVAR = Measure(), Measure(0.1)

# Mean and 10 %-CVaR of 300 runs as the paper's appendix prints them, by size and by our name.
_SIZES = (1_000, 3_000, 6_000, 10_000)
_PRINTED: dict[str, Sequence[tuple[float, float] | None]] = {
    "Baseline": [(2.30, 1.59)] * 4,
    "Double-DQN": [(-0.91, -1.00), (-0.72, -1.00), (0.07, -1.00), (0.22, -1.00)],
    "RaMDP-DQN": [None, (0.85, -0.70), None, (3.21, 1.65)],
    "Pi_b-SPIBB-DQN": [(2.74, 1.91), (3.19, 2.37), (3.30, 2.41), (3.39, 2.46)],
    "Approx-Soft-SPIBB-DQN": [(2.72, 1.88), (3.23, 2.38), (3.39, 2.54), (3.61, 2.69)],
}
PUBLISHED = {
    size: {name: row[k] for name, row in _PRINTED.items() if row[k]}
    for k, size in enumerate(_SIZES)
}
# Places of the factors' values and of the setting.
Cell = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Scores:
    """Every score of a study.

    Attributes:
        plan: The plan.
        runs: The runs that are there, ascending.
        values: Shape (*plan.shape, runs); NaN where a run is not there.
        diverged: Whether a training diverged, likewise.
    """

    plan: HelicopterPlan
    runs: NDArray[np.int64]
    values: Floats
    diverged: NDArray[np.bool_]
    _kept: dict[tuple[Measure, Cell], Floats] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of_table(cls, table: pa.Table, plan: HelicopterPlan) -> Scores:
        """Sort rows, in any order, into arrays."""
        table = checked_rows(table, plan)
        runs, spots, scores = scores_by_run(table, plan)
        shape = (*plan.shape, len(runs))
        values, diverged = np.full(shape, np.nan), np.zeros(shape, np.bool_)
        values.ravel()[spots] = scores
        diverged.ravel()[spots] = table["diverged"].to_numpy(zero_copy_only=False)
        return cls(plan, runs, values, diverged)

    @cached_property
    def _weights(self) -> NDArray[np.int64]:
        """How often each run counts in each resample; no resamples where data sets are too few."""
        data_sets, owner = np.unique(self.runs // self.plan.n_trainings, return_inverse=True)
        n = len(data_sets)
        rng = np.random.default_rng([self.plan.seed, _BOOTSTRAP])
        n_resamples = N_RESAMPLES if n >= MIN_DATA_SETS else 0
        return rng.multinomial(n, np.full(n, 1 / n), n_resamples)[:, owner]

    def of(self, cell: Cell) -> Floats:
        """Return the scores of a cell, those that are there."""
        found = self.values[cell]
        return np.asarray(found[~np.isnan(found)])

    def estimate(self, measure: Measure, cell: Cell) -> IntervalEstimate:
        """Return a statistic of a cell with its interval; NaN ends where data sets are too few."""
        return _interval(self._value(measure, cell), self._replicates(measure, cell))

    def difference(
        self, measure: Measure, cell: Cell, other: Cell, other_measure: Measure | None = None
    ) -> IntervalEstimate:
        """Return how much a cell is better than another one, with an interval.

        Args:
            measure: The statistic.
            cell: The cell.
            other: The cell to compare with.
            other_measure: The statistic of the other cell; None: the same.
        """
        theirs = other_measure or measure
        value = self._value(measure, cell) - self._value(theirs, other)
        return _interval(value, self._replicates(measure, cell) - self._replicates(theirs, other))

    def _value(self, measure: Measure, cell: Cell) -> float:
        found = self.of(cell)
        if not len(found):
            return np.nan
        return float(found.mean() if measure.share is None else cvar(found, measure.share))

    def _replicates(self, measure: Measure, cell: Cell) -> Floats:
        """Return what a statistic is in each resample; NaN where runs or data sets are too few."""
        is_there, share, key = ~np.isnan(self.values[cell]), measure.share, (measure, cell)
        n_runs = int(is_there.sum())
        is_deep = n_runs > 0 if share is None else has_interval(n_runs, share)
        if not is_deep or not len(self._weights):
            return np.array([np.nan])
        if key not in self._kept:
            weights = self._weights[:, is_there]
            self._kept[key] = weighted_statistic(self.of(cell), weights, share)
        return self._kept[key]


def _interval(value: float, found: Floats) -> IntervalEstimate:
    if np.isnan(found).all():
        return IntervalEstimate(value, np.nan, np.nan)
    return IntervalEstimate(value, *np.nanquantile(found, ENDS).tolist())


def weighted_statistic(scores: Floats, weights: NDArray[np.int64], share: float | None) -> Floats:
    """Return the mean, or the mean of the worst share, of scores that count several times.

    Args:
        scores: Shape (runs,).
        weights: How often each counts, shape (resamples, runs); NaN comes of a row of zeros.
        share: Part of the runs, in (0, 1]; None for the mean.

    Example:
        >>> weighted_statistic(np.array([1.0, 0.0, 5.0]), np.array([[1, 1, 0], [1, 2, 1]]), 0.5)
        array([0., 0.])
    """
    total = weights.sum(axis=1)
    with np.errstate(invalid="ignore"):
        if share is None:
            return np.asarray((weights @ scores) / total)
        order = np.argsort(scores, kind="stable")
        counted = weights[:, order]
        # Less than one run is the worst one.
        tail = np.maximum(share * total, np.minimum(total, 1.0))[:, None]
        reached = counted.cumsum(axis=1)
        # Beyond the longest tail nothing counts.
        n_needed = int((reached < tail).sum(axis=1).max()) + 1
        counted, reached = counted[:, :n_needed], reached[:, :n_needed]
        in_tail = np.clip(tail - (reached - counted), 0.0, counted)
        return np.asarray((in_tail @ scores[order][:n_needed]) / tail[:, 0])


def aggregate_scores(scores: Scores) -> Aggregates:
    """Return the statistics of every cell.

    ``worse`` is the share of runs that score below the baseline's mean under the same evaluation.
    """
    plan, is_there = scores.plan, ~np.isnan(scores.values)
    n, label = is_there.sum(axis=-1), plan.label_of(BASELINE)

    def table(measure: Measure) -> IntervalEstimate:
        cells = [scores.estimate(measure, cell) for cell in np.ndindex(*plan.shape)]
        return IntervalEstimate(*np.array(cells, dtype=np.float32).T.reshape(3, *plan.shape))

    worse = np.full(n.shape, np.nan)  # where that is unknown
    if label is not None:
        place = plan.labels.index(label)
        with np.errstate(invalid="ignore"):
            mean = np.nansum(scores.values[..., place, :], axis=-1) / n[..., place]
            worse = (scores.values < mean[..., None, None]).sum(axis=-1) / n
    tails = {share: table(Measure(share)) for share in SHARES}
    return Aggregates(n=n, mean=table(Measure()), cvar=tails, worse=worse.astype(np.float32))


@dataclass(frozen=True, eq=False)
class HelicopterResults(Results[HelicopterPlan]):
    """What a study has found.

    Attributes:
        scores: Every score; None where a folder has statistics only.
    """

    scores: Scores | None = None

    @classmethod
    def of_folder(cls, folder: Path, plan: HelicopterPlan) -> Self:
        """Read the results of a study's folder, from its rows if it has them."""
        store = Store(Path(folder))
        if not store.files():
            return cls(plan, Aggregates.of_study(folder, plan), Path(folder))
        scores = Scores.of_table(read_rows(store, plan), plan)
        return cls(plan, aggregate_scores(scores), Path(folder), scores)

    def rows(self) -> Scores:
        """Return every score, or say that they are not there."""
        if self.scores is None:
            told = f"{self.folder} has statistics only"
            raise DataError(told, expected="rows, which claims are judged by")
        return self.scores

    def by_baseline(self) -> dict[str, Self]:
        """Return the results over each baseline, by its name."""
        files = self.plan.baseline
        return {Path(file).stem: self.at(baseline=file) for file in files} or {SHIPPED: self}


class Best(NamedTuple):
    """An algorithm at its best hyper-parameter on one size.

    Attributes:
        size: Number of transitions.
        setting: The algorithm with that value.
        is_inside: Whether the grid has worse values on both sides.
        estimates: Mean and 10 %-CVaR by the short and by the long evaluation.
    """

    size: int
    setting: Setting
    is_inside: bool
    estimates: Mapping[tuple[Measure, str], IntervalEstimate]

    @property
    def published(self) -> tuple[float, float] | None:
        """The paper's mean and 10 %-CVaR; None where it has none."""
        return PUBLISHED.get(self.size, {}).get(self.setting.name)


def best_settings(results: HelicopterResults) -> list[Best]:
    """Return every algorithm at its best hyper-parameter, for each size.

    Args:
        results: The results over one baseline.
    """
    found = []
    for size, family in product(results.plan.transitions, results.plan.families.values()):
        part = results.at(transitions=size)
        long = part.at(evaluation=LONG)
        if all(long.n_runs(one.label) for one in family):
            rank = int(np.argmax([long.of(MEAN, one.label).value for one in family]))
            is_inside, best = len(family) == 1 or 0 < rank < len(family) - 1, family[rank]
            estimates = {
                (one, by): IntervalEstimate(*map(float, part.of(one, best.label, evaluation=by)))
                for by, one in product((SHORT, LONG), (MEAN, CVAR))
            }
            found.append(Best(size, best, is_inside, estimates))
    return found
