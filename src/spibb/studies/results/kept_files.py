"""What is kept of a study, as files: one row for each cell, and rows of the worst runs.

``cells.parquet`` has the sums; ``worst-000.parquet`` and so on have the worst runs, in the columns
of a study's rows, cell by cell. Equal results give equal bytes.
"""

from __future__ import annotations

import json
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
    checked_rows,
    find_cells,
    has_every_cell,
    in_present_columns,
    keys,
)
from spibb.studies.results.kept import Kept
from spibb.studies.results.run_set import RunSet

if TYPE_CHECKING:
    import pyarrow as pa

_CELLS = "cells.parquet"
_FORMAT = 1
_METADATA = b"spibb"
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
        facts = json.loads((table.schema.metadata or {}).get(_METADATA, b"{}"))
        if facts.get("format") != _FORMAT or facts.get("fingerprint") != plan.fingerprint:
            raise DataError(
                f"{folder} does not belong to the plan beside it",
                expected=f"results of {plan.name} ({plan.fingerprint}) in format {_FORMAT}",
                hint="put plan and results of the same study into the folder",
            )
        table = in_present_columns(table, plan)
        cells, empty = find_cells(table, plan), Kept.empty(plan)
        if not has_every_cell(cells, plan):
            raise DataError(f"{folder / _CELLS} lacks some of its cells", hint=_HINT)

        def column(name: str, values: NDArray[Any]) -> NDArray[Any]:
            found = np.zeros_like(getattr(empty, name, empty.n))
            found[cells] = values
            return found

        kept = Kept(
            n=column("n", table["n"].to_numpy()),
            worse=column("worse", table["worse"].to_numpy()),
            total=column("total", _integers(table["total"])),
            squares=column("squares", _integers(table["squares"])),
            worst=empty.worst,
            runs=_runs(facts["runs"], plan),
        )
        n_kept = column("n", table["n_kept"].to_numpy())
        shards = [read_checked(file, hint=_HINT) for file in sorted(folder.glob("worst-*.parquet"))]
        rows = pa.concat_tables(shards) if shards else _worst_table(kept, plan, slice(0, 0))
        rows = checked_rows(rows, plan, str(folder)) if shards else rows
        cells = find_cells(rows, plan)
        if not np.array_equal(np.bincount(cells, minlength=len(n_kept)), n_kept):
            raise DataError(f"{folder} lacks some of its worst runs", hint=_HINT)
        order = np.argsort(cells, kind="stable")
        scores, runs = (rows[name].to_numpy()[order] for name in ("score", "run"))
        return kept.with_worst(n_kept, scores, runs)


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
    facts = {
        "format": _FORMAT,
        "plan": plan.name,
        "fingerprint": plan.fingerprint,
        "unit of total and squares": "2^-60",
        "runs": [runs.ranges for runs in kept.runs],
    }
    return pa.table(columns).replace_schema_metadata({_METADATA: json.dumps(facts)})


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


def _integers(column: pa.ChunkedArray) -> NDArray[np.object_]:
    numbers = np.empty(len(column), dtype=object)
    numbers[:] = [int(number) for number in column.to_pylist()]
    return numbers
