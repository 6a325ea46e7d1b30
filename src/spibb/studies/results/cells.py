"""The rows of a study: tables of runs, cells, settings and scores.

Cells are numbered in the order of the plan's factors, settings last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spibb.errors import DataError
from spibb.studies.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa

_TYPES: dict[type, Any] = {int: np.int32, float: np.float64}
_HOLDS = {int: "whole numbers", float: "numbers", str: "labels"}
OTHERS = "put plan and results of the same study into the folder"


def to_rows(plan: Plan, runs: Sequence[int], columns: Mapping[str, NDArray[Any]]) -> pa.Table:
    """Return a table with a row for each run, cell and setting.

    Args:
        plan: The plan.
        runs: The runs.
        columns: Their scores, and what else rows hold, each of shape (runs, *plan.shape).
    """
    import pyarrow as pa

    n_cells = int(np.prod(plan.shape))
    found: dict[str, Any] = {"run": np.repeat(np.array(runs, dtype=np.int32), n_cells)}
    found |= keys(plan, np.tile(np.arange(n_cells), len(runs)))
    for name, values in columns.items():
        found[name] = np.asarray(values).reshape(len(runs) * n_cells)
    return pa.table(found)


def keys(plan: Plan, cells: NDArray[np.int64]) -> dict[str, Any]:
    """Return the columns that name cells, given by their numbers."""
    import pyarrow as pa

    every: dict[str, Sequence[Any]] = {**plan.factors, "setting": plan.labels}
    found: dict[str, Any] = {}
    for (name, values), places in zip(
        every.items(), np.unravel_index(cells, plan.shape), strict=True
    ):
        if isinstance(values[0], str):
            codes, labels = pa.array(places.astype(np.int16)), pa.array(values, pa.string())
            found[name] = pa.DictionaryArray.from_arrays(codes, labels)
        else:
            found[name] = np.asarray(values, _TYPES[plan.declared()[name].kind])[places]
    return found


def in_present_columns(table: pa.Table, plan: Plan) -> pa.Table:
    """Return a table of rows or cells of a plan of any version under the present names."""
    is_present = set(plan.factors).issubset(table.column_names)
    return table if is_present or not plan.version1 else plan.reader1.rows(table, plan)


def checked_rows(table: pa.Table, plan: Plan, where: str | None = None) -> pa.Table:
    """Return rows with the present columns; refuse those that lack one, or runs of other plans.

    Args:
        table: The rows.
        plan: The plan that they are of.
        where: The file that holds them.
    """
    table = checked_worst(table, plan, where)
    _check_columns(table, plan.columns, where)
    return table


def checked_worst(table: pa.Table, plan: Plan, where: str | None = None) -> pa.Table:
    """Return rows likewise, of which but the score may be kept."""
    table = in_present_columns(table, plan)
    kinds = {name: _HOLDS[plan.declared()[name].kind] for name in plan.factors}
    wanted = {"run": "whole numbers", **kinds, "setting": "labels", "score": "numbers"}
    _check_columns(table, wanted, where)
    runs = table["run"].to_numpy()
    odd = runs[(runs < 0) | (runs >= plan.n_runs)]
    if len(odd):
        told = f"runs from 0 to {plan.n_runs - 1}, as the plan has"
        raise DataError(
            f"the results hold the run {odd[0]}", where=where, expected=told, hint=OTHERS
        )
    return table


def _check_columns(table: pa.Table, wanted: Mapping[str, str], where: str | None) -> None:
    for name, kind in wanted.items():
        if name not in table.column_names:
            raise DataError(f"the results have no column {name!r}", where=where, hint=OTHERS)
        column, told = table[name], f"the column {name!r} of the results holds"
        if column.null_count:
            raise DataError(f"{told} nothing in some rows", where=where, expected=kind, hint=OTHERS)
        if not _holds(column.type, kind):
            raise DataError(f"{told} {column.type}", where=where, expected=kind, hint=OTHERS)


def _holds(found: pa.DataType, kind: str) -> bool:
    from pyarrow import types

    plain = found.value_type if types.is_dictionary(found) else found
    kinds = {
        "flags": types.is_boolean(found),
        "labels": types.is_string(plain) or types.is_large_string(plain),
        "whole numbers": types.is_integer(found),
        "numbers": types.is_integer(found) or types.is_floating(found),
    }
    return bool(kinds[kind])


def find_cells(table: pa.Table, plan: Plan) -> NDArray[np.int64]:
    """Return the number of each row's cell."""
    cells = np.zeros(len(table), dtype=np.int64)
    for name, values in {**plan.factors, "setting": plan.labels}.items():
        coded = table[name].combine_chunks().dictionary_encode()
        known = {value: place for place, value in enumerate(values)}
        found = coded.dictionary.to_pylist()
        odd = [value for value in found if value not in known]
        if odd:
            told = f"the results hold the {name} {odd[0]!r}, which the plan has not"
            raise DataError(told, hint=OTHERS)
        places = np.array([known[value] for value in found], dtype=np.int64)
        cells = cells * len(values) + places[coded.indices.to_numpy()]
    return cells


def checked_cells(
    table: pa.Table, plan: Plan, file: Path, hint: str
) -> tuple[pa.Table, NDArray[np.int64]]:
    """Return a table of cells with the present columns, and their numbers.

    Each must be there once; in version 1 a process could lack some settings.

    Args:
        table: A row for each cell.
        plan: The plan.
        file: Where it was read.
        hint: What to do where it lacks a cell.
    """
    table = in_present_columns(table, plan)
    cells, wanted = find_cells(table, plan), {math.prod(plan.shape)}
    if plan.version1:
        wanted.add(math.prod(plan.shape[-3:-1]) * len(plan.reader1.labels(plan)))
    if len(cells) != len(np.unique(cells)) or len(cells) not in wanted:
        raise DataError(f"{file} lacks some of its cells", hint=hint)
    return table, cells


def spread(column: NDArray[Any], cells: NDArray[np.int64], plan: Plan, rest: Any = 0) -> Any:
    """Return a column of some cells as one of all cells of a plan, with ``rest`` in the others."""
    found = np.full((math.prod(plan.shape), *column.shape[1:]), rest, dtype=column.dtype)
    found[cells] = column
    return found


def scores_by_run(
    table: pa.Table, plan: Plan
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Return the runs of checked rows, each row's place in (cells x runs), and the scores.

    Refused are scores that are not finite, and a run that is there twice.
    """
    scores = np.asarray(table["score"].to_numpy(), dtype=np.float32)
    wrong = ~np.isfinite(scores)
    if wrong.any():
        row = int(np.argmax(wrong))
        is_nan = np.isnan(scores[row])
        raise DataError(
            f"a score is {'not a number' if is_nan else 'infinite'}",
            where=f"row {row}, run {table['run'][row].as_py()}",
            hint="see why with spibb.studies.running.rerun(FOLDER, RUN)",
        )
    runs, columns = np.unique(table["run"].to_numpy(), return_inverse=True)
    spots = find_cells(table, plan) * len(runs) + columns
    count = np.bincount(spots, minlength=1)
    if count.max() > 1:
        cell, column = divmod(int(np.argmax(count > 1)), len(runs))
        label = plan.labels[cell % len(plan.labels)]
        raise DataError(
            f"a run is there twice: run {runs[column]} of {label}",
            hint="keep one of the parts that hold it",
        )
    return runs.astype(np.int64), spots, scores
