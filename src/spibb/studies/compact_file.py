"""What is kept of a study, as files: one row for each cell, and rows of the worst runs.

``cells.parquet`` has the sums; ``worst-000.parquet`` and so on have the worst runs, in the columns
of a study's rows, cell by cell. Equal results give equal bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spibb.errors import DataError
from spibb.runner.store import as_written, read_checked, to_bytes
from spibb.studies.compact import Compact, check_rows, find_cells, shape_of
from spibb.studies.plan import Plan
from spibb.studies.run_set import RunSet

if TYPE_CHECKING:
    import pyarrow as pa

_CELLS = "cells.parquet"
_FORMAT = 1
_METADATA = b"spibb"
# Of eight bytes each before compression: files of 12 MB at most.
_ROWS = 1_500_000
_HINT = "take it from a copy, or run the study again in another folder"
# Scores of a cell rise slowly: their first bytes are alike, and so stand together.
_WORST: dict[str, Any] = {
    "use_dictionary": ["eta", "size", "setting"],
    "column_encoding": {"score": "BYTE_STREAM_SPLIT", "run": "BYTE_STREAM_SPLIT"},
}


def to_files(compact: Compact, plan: Plan, *, n_rows: int = _ROWS) -> dict[str, Any]:
    """Return the content of every file by its name.

    Args:
        compact: What to keep.
        plan: Of which plan.
        n_rows: The most rows in a file of worst runs, or those of one cell.
    """
    files = {_CELLS: to_bytes(_cell_table(compact, plan))}
    for number, cells in enumerate(_shards(compact.n_kept, n_rows)):
        table = _worst_table(compact, plan, cells)
        files[f"worst-{number:03d}.parquet"] = to_bytes(table, **_WORST)
    return files


def from_files(folder: Path, plan: Plan) -> Compact:
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
        if len(table) != math.prod(shape_of(plan)):
            raise DataError(f"{folder / _CELLS} lacks some of its cells", hint=_HINT)
        kept = Compact(
            n=table["n"].to_numpy(),
            worse=table["worse"].to_numpy(),
            total=_integers(table["total"]),
            squares=_integers(table["squares"]),
            worst=Compact.empty(plan).worst,
            runs=tuple(RunSet(tuple(map(tuple, ranges))) for ranges in facts["runs"]),
        )
        n_kept = table["n_kept"].to_numpy()
        shards = [read_checked(file, hint=_HINT) for file in sorted(folder.glob("worst-*.parquet"))]
        rows = pa.concat_tables(shards) if shards else _worst_table(kept, plan, slice(0, 0))
        check_rows(rows, plan, str(folder))
        counted = np.bincount(find_cells(rows, plan), minlength=len(n_kept))
        if not np.array_equal(counted, n_kept):
            raise DataError(f"{folder} lacks some of its worst runs", hint=_HINT)
        return kept.with_worst(n_kept, rows["score"].to_numpy(), rows["run"].to_numpy())


def _cell_table(compact: Compact, plan: Plan) -> pa.Table:
    import pyarrow as pa

    columns = _keys(plan, np.arange(len(compact.n)))
    columns |= {"n": compact.n, "worse": compact.worse, "n_kept": compact.n_kept}
    columns |= {"total": _decimals(compact.total), "squares": _decimals(compact.squares)}
    facts = {
        "format": _FORMAT,
        "plan": plan.name,
        "fingerprint": plan.fingerprint,
        "unit of total and squares": "2^-60",
        "runs": [runs.ranges for runs in compact.runs],
    }
    return pa.table(columns).replace_schema_metadata({_METADATA: json.dumps(facts)})


def _worst_table(compact: Compact, plan: Plan, cells: slice) -> pa.Table:
    import pyarrow as pa

    scores, runs = compact.worst_rows(cells)
    numbers = np.arange(len(compact.n))[cells]
    keys = _keys(plan, np.repeat(numbers, compact.n_kept[cells]))
    return pa.table({"run": runs, **keys, "score": scores})


def _keys(plan: Plan, cells: NDArray[np.int64]) -> dict[str, Any]:
    import pyarrow as pa

    etas, sizes, codes = np.unravel_index(cells, shape_of(plan))
    labels = pa.array([setting.label for setting in plan.settings])
    return {
        "eta": np.asarray(plan.etas, dtype=np.float64)[etas],
        "size": np.asarray(plan.sizes, dtype=np.int32)[sizes],
        "setting": pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int16)), labels),
    }


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
