"""What is kept of many runs: of each cell and setting sums, counts and the worst runs.

Sums are exact: every score, and its square, counts as a whole number of units of 2^-60 (a square of
a score below 0.01 is rounded to one), and whole numbers add up to the same in any order. Hence what
is kept depends neither on the order of the runs, nor on how they are grouped, nor on the machine,
and it leads to the mean and its interval; the worst runs lead to the CVaR and its interval, the
same as from all runs.

As files: ``cells.parquet`` has the sums, one row for each cell; ``worst-000.parquet`` and so on
have the worst runs, in the columns of a study's rows, cell by cell. Equal results give equal bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spibb.errors import DataError
from spibb.runner.store import as_written, read_checked, to_bytes
from spibb.studies.plan import Plan
from spibb.studies.results import cells as tables
from spibb.studies.results.run_set import RunSet

Array = NDArray[Any]
_CELLS = "cells.parquet"
# Of eight bytes each before compression: files of 12 MB at most.
_ROWS = 1_500_000
_HINT = "take it from a copy, or run the study again in another folder"
# Scores of a cell rise slowly: their first bytes are alike, and so stand together.
_SPLIT = {"score": "BYTE_STREAM_SPLIT", "run": "BYTE_STREAM_SPLIT"}
# Sums are in units of 2^-60, and made of two steps of so many bits below the whole numbers.
_BITS = 30
UNITS = 2 ** (2 * _BITS)
# Up to here the whole parts of eight million numbers add up within 63 bits.
_LARGE = 2.0**40
# The place of a run where a cell has fewer: after all of them in order.
_NONE = np.uint64(2**64 - 1)
_SIGN = np.uint32(2**31)
_SUMS = ("n", "worse", "total", "squares")


@dataclass(frozen=True)
class Retention:
    """How much of a study is kept.

    >>> [Retention().n_worst(n_runs) for n_runs in (200, 2_000, 5_000, 100_000)]
    [200, 2000, 200, 2000]

    Attributes:
        rows: Up to so many runs every row is kept, and nothing is folded.
        share: Of more runs, the worst share is kept in every cell, ...
        least: ... and at least so many, because a resample of a tail of 20 runs may reach beyond
            twice as many.
        every: Runs that wait, as rows, before they are folded: so many, or as many as are kept.
    """

    rows: int = 2_000
    share: float = 0.02
    least: int = 200
    every: int = 1_000

    def n_worst(self, n_runs: int) -> int:
        """Return how many runs of a cell are kept."""
        if n_runs <= self.rows:
            return n_runs
        return min(n_runs, max(self.least, math.ceil(self.share * n_runs)))

    def n_waiting(self, n_runs: int) -> int:
        """Return how many runs are folded together: writing them costs as much as what is kept."""
        return max(self.every, self.n_worst(n_runs))


@dataclass(frozen=True, eq=False)
class Kept:
    """What is kept of some runs, by cell and setting in the order of the plan.

    Attributes:
        n: Runs of each cell.
        worse: How many of them are worse than the baseline.
        total: Sum of the scores, in units of 2^-60, as Python's integers.
        squares: Sum of their squares, likewise.
        worst: The worst runs of each cell in order of (score, run), as numbers that sort like
            them; filled up where a cell has fewer. Shape (cells, most runs kept).
        runs: The runs of each setting.
    """

    n: NDArray[np.int64]
    worse: NDArray[np.int64]
    total: NDArray[np.object_]
    squares: NDArray[np.object_]
    worst: NDArray[np.uint64]
    runs: tuple[RunSet, ...]

    @classmethod
    def empty(cls, plan: Plan) -> Kept:
        """Return what is kept of no runs."""
        n_cells = math.prod(plan.shape)
        none = np.zeros(n_cells, dtype=np.int64)
        worst = np.empty((n_cells, 0), dtype=np.uint64)
        no_runs = (RunSet(),) * len(plan.settings)
        return cls(none, none, none.astype(object), none.astype(object), worst, no_runs)

    @classmethod
    def of_table(cls, table: pa.Table, plan: Plan, n_worst: int | None = None) -> Kept:
        """Return what is kept of some rows.

        Args:
            table: Rows, in any order; settings may have different numbers of runs, and no run may
                be there twice.
            plan: The plan that the rows are of.
            n_worst: How many of the worst runs of each cell to keep; None for all.
        """
        runs, spots, scores = tables.scores_by_run(tables.checked_rows(table, plan), plan)
        n_cells = math.prod(plan.shape)
        count = np.bincount(spots, minlength=n_cells * len(runs)).reshape(n_cells, len(runs))
        found = np.zeros((n_cells, len(runs)))
        found.ravel()[spots] = scores
        worst = np.full(found.shape, _NONE)
        worst.ravel()[spots] = _sortable(scores, runs[spots % len(runs)])
        worst.sort(axis=1)
        by_setting = count.reshape(-1, len(plan.settings), len(runs)).max(axis=0) > 0
        return cls(
            n=count.sum(axis=1),
            worse=(found < 0).sum(axis=1),
            total=_exact_sum(found),
            squares=_exact_sum(found * found),
            worst=_narrowed(worst[:, :n_worst]),
            runs=tuple(RunSet.of(runs[is_there]) for is_there in by_setting),
        )

    @property
    def n_kept(self) -> NDArray[np.int64]:
        """How many runs of each cell are kept."""
        return np.asarray((self.worst != _NONE).sum(axis=1))

    def merge(self, other: Kept, plan: Plan, n_worst: int) -> Kept:
        """Return what is kept of both.

        Args:
            other: The same cells of other runs; a run in both is an error.
            plan: The plan of the cells.
            n_worst: How many of the worst runs of each cell to keep.
        """
        for setting, ours, theirs in zip(plan.settings, self.runs, other.runs, strict=True):
            run = ours.first_common(theirs)
            if run is not None:
                raise DataError(
                    f"a run is there twice: run {run} of {setting.label}",
                    hint="give each run of a setting once",
                )
        # Where one side kept a part of its runs, nobody knows what would come after that many.
        known = np.minimum(np.minimum(self._n_known(), other._n_known()), n_worst)
        worst = np.sort(np.concatenate([self.worst, other.worst], axis=1), axis=1)
        worst[np.arange(worst.shape[1]) >= known[:, None]] = _NONE
        return Kept(
            **{name: getattr(self, name) + getattr(other, name) for name in _SUMS},
            worst=_narrowed(worst),
            runs=tuple(a | b for a, b in zip(self.runs, other.runs, strict=True)),
        )

    def in_plan(self, plan: Plan, larger: Plan) -> Kept:
        """Return the same for a plan with more settings, or with the same in another order."""
        places = [larger.settings.index(setting) for setting in plan.settings]
        runs = dict(zip(places, self.runs, strict=True))
        n_settings = len(larger.settings)
        cells = np.arange(math.prod(larger.shape)).reshape(-1, n_settings)[:, places].ravel()
        return Kept(
            **{name: tables.spread(getattr(self, name), cells, larger) for name in _SUMS},
            worst=tables.spread(self.worst, cells, larger, _NONE),
            runs=tuple(runs.get(place, RunSet()) for place in range(n_settings)),
        )

    def worst_scores(self, cells: slice | NDArray[Any]) -> NDArray[np.float32]:
        """Return the worst scores of cells with equally many, shape (cells, kept)."""
        return _scores(_narrowed(self.worst[cells]))

    def worst_rows(self, cells: slice) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Return scores and runs of the worst runs of some cells, one cell after the other."""
        worst = self.worst[cells]
        kept = worst[worst != _NONE]
        return _scores(kept), (kept & np.uint64(2**32 - 1)).astype(np.int32)

    def _n_known(self) -> NDArray[np.int64]:
        """Return how many of the worst runs of each cell are known for sure."""
        n_kept = self.n_kept
        return np.where(n_kept == self.n, np.iinfo(np.int64).max, n_kept)


def merge_all(parts: Iterable[Kept], plan: Plan, n_worst: int) -> Kept:
    """Return what is kept of several sets of runs of one plan."""
    return reduce(lambda a, b: a.merge(b, plan, n_worst), parts, Kept.empty(plan))


def to_worst(n_kept: Array, scores: Array, runs: Array) -> NDArray[np.uint64]:
    """Return the worst runs, so many of each cell, given one cell after the other."""
    worst = np.full((len(n_kept), int(n_kept.max(initial=0))), _NONE)
    worst[np.arange(worst.shape[1]) < n_kept[:, None]] = _sortable(scores, runs)
    worst.sort(axis=1)
    return worst


def _exact_sum(values: NDArray[np.float64]) -> NDArray[np.object_]:
    """Return the sum of each row, every value rounded to units of 2^-60."""
    is_large = np.abs(values) >= _LARGE
    rest = np.where(is_large, 0.0, values)
    sums = np.zeros(len(values), dtype=object)
    for step in (0, 1, 2):
        # Cutting off the whole part, towards zero, is exact, and so is a power of two.
        whole = np.trunc(rest) if step < 2 else np.rint(rest)
        sums = (sums << _BITS) + whole.astype(np.int64).sum(axis=1).astype(object)
        rest = (rest - whole) * 2.0**_BITS
    for row, column in np.argwhere(is_large):
        sums[row] += int(float(values[row, column]) * UNITS)
    return sums


def _sortable(scores: NDArray[np.float32], runs: NDArray[Any]) -> NDArray[np.uint64]:
    """Return numbers that are in order like (score, run)."""
    # Adding zero leaves one zero of two. The bits of floats of one sign are in order already.
    bits = (scores + np.float32(0)).view(np.uint32)
    ordered = np.where(bits & _SIGN, ~bits, bits | _SIGN).astype(np.uint64)
    return np.asarray((ordered << np.uint64(32)) | runs.astype(np.uint32))


def _scores(sortable: NDArray[np.uint64]) -> NDArray[np.float32]:
    ordered = (sortable >> np.uint64(32)).astype(np.uint32)
    return np.where(ordered & _SIGN, ordered ^ _SIGN, ~ordered).view(np.float32)


def _narrowed(worst: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Drop the columns at the end in which no cell has a run."""
    width = int((worst != _NONE).any(axis=0).sum())
    # A copy, so that the rest can be let go.
    return worst if width == worst.shape[1] else worst[:, :width].copy()


def to_files(kept: Kept, plan: Plan, *, n_rows: int = _ROWS) -> dict[str, Any]:
    """Return the content of every file by its name.

    Args:
        kept: What to keep.
        plan: Of which plan.
        n_rows: The most rows in a file of worst runs, or those of one cell.
    """
    cells = np.arange(len(kept.n))
    columns = {name: getattr(kept, name) for name in ("n", "worse", "n_kept")}
    columns |= {"total": _decimals(kept.total), "squares": _decimals(kept.squares)}
    facts = {"unit of total and squares": "2^-60", "runs": [runs.ranges for runs in kept.runs]}
    table = pa.table({**tables.keys(plan, cells), **columns})
    files = {_CELLS: to_bytes(tables.marked(table, plan, **facts))}
    for number, some in enumerate(_shards(kept.n_kept, n_rows)):
        scores, runs = kept.worst_rows(some)
        table = _worst_table(plan, runs, np.repeat(cells[some], kept.n_kept[some]), scores)
        files[f"worst-{number:03d}.parquet"] = to_bytes(
            table, use_dictionary=[*plan.factors, "setting"], column_encoding=_SPLIT
        )
    return files


def _worst_table(plan: Plan, runs: Array, cells: Array, scores: Array) -> pa.Table:
    return pa.table({"run": runs, **tables.keys(plan, cells), "score": scores})


def from_files(folder: Path, plan: Plan) -> Kept:
    """Read what ``to_files`` returned for the same plan."""
    with as_written(folder / _CELLS, hint=_HINT):
        table = read_checked(folder / _CELLS, hint=_HINT)
        facts = tables.checked_facts(table, plan, folder, what="results", hint=tables.OTHERS)
        table, cells = tables.checked_cells(table, plan, folder / _CELLS, _HINT)
        columns = {name: table[name].to_numpy() for name in ("n", "worse", "n_kept")}
        for name in ("total", "squares"):
            columns[name] = np.array([int(number) for number in table[name].to_pylist()], object)
        sums = {name: tables.spread(column, cells, plan) for name, column in columns.items()}
        n_kept = sums.pop("n_kept")
        shards = [read_checked(file, hint=_HINT) for file in sorted(folder.glob("worst-*.parquet"))]
        shards = shards or [_worst_table(plan, *np.empty((3, 0), np.int64))]
        rows = tables.checked_rows(pa.concat_tables(shards), plan, str(folder), only_scores=True)
        cells = tables.cells_of(rows, plan)
        if not np.array_equal(np.bincount(cells, minlength=len(n_kept)), n_kept):
            raise DataError(f"{folder} lacks some of its worst runs", hint=_HINT)
        order = np.argsort(cells, kind="stable")
        scores, runs = (rows[name].to_numpy()[order] for name in ("score", "run"))
        return Kept(**sums, worst=to_worst(n_kept, scores, runs), runs=_runs(facts["runs"], plan))


def _runs(ranges: list[Any], plan: Plan) -> tuple[RunSet, ...]:
    """Return the runs of each setting; several of version 1 may be one now."""
    found = {label: RunSet() for label in plan.labels}
    labels = plan.reader1.labels(plan) if plan.version1 else plan.labels
    for label, part in zip(labels, ranges, strict=True):
        found[label] |= RunSet(tuple(map(tuple, part)))
    return tuple(found.values())


def _shards(n_kept: NDArray[np.int64], n_rows: int) -> Iterator[slice]:
    """Yield ranges of cells with at most so many rows, or of one cell."""
    first, rows = 0, 0
    for cell, n in enumerate(n_kept.tolist()):
        if rows and rows + n > n_rows:
            yield slice(first, cell)
            first, rows = cell, 0
        rows += n
    if rows:
        yield slice(first, len(n_kept))


def _decimals(numbers: NDArray[np.object_]) -> pa.Array:
    """Return integers of up to 38 digits, the most that readers of Parquet agree on."""
    try:
        return pa.array([Decimal(number) for number in numbers], pa.decimal128(38, 0))
    except pa.ArrowInvalid:
        raise DataError("the scores are too large to be kept", expected="below 10^7") from None
