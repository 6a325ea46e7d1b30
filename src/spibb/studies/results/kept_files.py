"""What is kept of a study, as files: one row for each cell, and rows of the worst runs.

``cells.parquet`` has the sums; ``worst-000.parquet`` and so on have the worst runs, in the columns
of a study's rows, cell by cell. Equal results give equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spibb.errors import DataError
from spibb.runner.store import as_written, read_checked, to_bytes
from spibb.studies.plan import Plan
from spibb.studies.results.cells import (
    OTHERS,
    checked_cells,
    checked_worst,
    find_cells,
    keys,
    spread,
    to_rows,
)
from spibb.studies.results.kept import Kept, to_worst
from spibb.studies.results.marked import checked_facts, marked
from spibb.studies.results.run_set import RunSet

if TYPE_CHECKING:
    import pyarrow as pa

_CELLS = "cells.parquet"
# Of eight bytes each before compression: files of 12 MB at most.
_ROWS = 1_500_000
_HINT = "take it from a copy, or run the study again in another folder"
# Scores of a cell rise slowly: their first bytes are alike, and so stand together.
_SPLIT = {"score": "BYTE_STREAM_SPLIT", "run": "BYTE_STREAM_SPLIT"}


def to_files(kept: Kept, plan: Plan, *, n_rows: int = _ROWS) -> dict[str, Any]:
    """Return the content of every file by its name.

    Args:
        kept: What to keep.
        plan: Of which plan.
        n_rows: The most rows in a file of worst runs, or those of one cell.
    """
    files = {_CELLS: to_bytes(_cell_table(kept, plan))}
    for number, cells in enumerate(_shards(kept.n_kept, n_rows)):
        table = _worst_table(kept, plan, cells)
        files[f"worst-{number:03d}.parquet"] = to_bytes(
            table, use_dictionary=[*plan.factors, "setting"], column_encoding=_SPLIT
        )
    return files


def from_files(folder: Path, plan: Plan) -> Kept:
    """Read what ``to_files`` returned for the same plan."""
    import pyarrow as pa

    with as_written(folder / _CELLS, hint=_HINT):
        table = read_checked(folder / _CELLS, hint=_HINT)
        facts = checked_facts(table, plan, folder, what="results", hint=OTHERS)
        table, cells = checked_cells(table, plan, folder / _CELLS, _HINT)
        columns = {name: table[name].to_numpy() for name in ("n", "worse", "n_kept")}
        for name in ("total", "squares"):
            columns[name] = np.array([int(number) for number in table[name].to_pylist()], object)
        sums = {name: spread(column, cells, plan) for name, column in columns.items()}
        n_kept = sums.pop("n_kept")
        shards = [read_checked(file, hint=_HINT) for file in sorted(folder.glob("worst-*.parquet"))]
        nothing = to_rows(plan, (), {"score": np.empty(0, np.float32)})
        rows = checked_worst(pa.concat_tables(shards or [nothing]), plan, str(folder))
        cells = find_cells(rows, plan)
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


def _cell_table(kept: Kept, plan: Plan) -> pa.Table:
    import pyarrow as pa

    columns = keys(plan, np.arange(len(kept.n)))
    columns |= {"n": kept.n, "worse": kept.worse, "n_kept": kept.n_kept}
    columns |= {"total": _decimals(kept.total), "squares": _decimals(kept.squares)}
    unit = {"unit of total and squares": "2^-60"}
    return marked(pa.table(columns), plan, **unit, runs=[runs.ranges for runs in kept.runs])


def _worst_table(kept: Kept, plan: Plan, cells: slice) -> pa.Table:
    import pyarrow as pa

    scores, runs = kept.worst_rows(cells)
    numbers = np.arange(len(kept.n))[cells]
    named = keys(plan, np.repeat(numbers, kept.n_kept[cells]))
    return pa.table({"run": runs, **named, "score": scores})


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
    import pyarrow as pa

    try:
        return pa.array([Decimal(number) for number in numbers], pa.decimal128(38, 0))
    except pa.ArrowInvalid:
        raise DataError("the scores are too large to be kept", expected="below 10^7") from None
