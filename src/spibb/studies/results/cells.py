"""The tables of a study: rows of runs, cells, settings and scores, and what tables say they are of.

Cells are numbered in the order of the plan's factors, settings last.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spibb.errors import DataError
from spibb.studies.plan import Plan

Cells = NDArray[np.int64]
_FORMAT = 1
_METADATA = b"spibb"
_TYPES: dict[type, Any] = {int: np.int32, float: np.float64}
_HOLDS = {int: "whole numbers", float: "numbers", str: "labels"}
OTHERS = "put plan and results of the same study into the folder"


def marked(table: pa.Table, plan: Plan, **facts: Any) -> pa.Table:
    """Return a table that says its plan, and further facts."""
    said = {"format": _FORMAT, "plan": plan.name, "fingerprint": plan.fingerprint, **facts}
    return table.replace_schema_metadata({_METADATA: json.dumps(said)})


def facts_of(table: pa.Table) -> dict[str, Any]:
    """Return what a table says about itself."""
    return dict(json.loads((table.schema.metadata or {}).get(_METADATA, b"{}")))


def checked_facts(table: pa.Table, plan: Plan, file: Path, what: str, hint: str) -> dict[str, Any]:
    """Return what a table says about itself; refuse one of another plan.

    Args:
        table: The table.
        plan: The plan that it should be of.
        file: Where it was read.
        what: What it holds.
        hint: What to do about one of another plan.
    """
    facts = facts_of(table)
    if facts.get("format") != _FORMAT or facts.get("fingerprint") != plan.fingerprint:
        raise DataError(
            f"{file} does not belong to the plan beside it",
            expected=f"{what} of {plan.name} ({plan.fingerprint}) in format {_FORMAT}",
            hint=hint,
        )
    return facts


def to_rows(plan: Plan, runs: Sequence[int], columns: Mapping[str, NDArray[Any]]) -> pa.Table:
    """Return a table with a row for each run, cell and setting.

    Args:
        plan: The plan.
        runs: The runs.
        columns: Their scores, and what else rows hold, each of shape (runs, *plan.shape).
    """
    n_cells = int(np.prod(plan.shape))
    found: dict[str, Any] = {"run": np.repeat(np.array(runs, dtype=np.int32), n_cells)}
    found |= keys(plan, np.tile(np.arange(n_cells), len(runs)))
    for name, values in columns.items():
        found[name] = np.asarray(values).reshape(len(runs) * n_cells)
    return pa.table(found)


def keys(plan: Plan, cells: Cells) -> dict[str, Any]:
    """Return the columns that name cells, given by their numbers."""
    found: dict[str, Any] = {}
    every = zip(plan.axes.items(), np.unravel_index(cells, plan.shape), strict=True)
    for (name, values), places in every:
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


def checked_rows(
    table: pa.Table, plan: Plan, where: str | None = None, *, only_scores: bool = False
) -> pa.Table:
    """Return rows with the present columns; refuse those that lack one, or runs of other plans.

    Args:
        table: The rows.
        plan: The plan that they are of.
        where: The file that holds them.
        only_scores: Whether it is enough that they hold scores, and nothing else.
    """

    def odd(what: str, expected: str | None = None) -> DataError:
        return DataError(what, where=where, expected=expected, hint=OTHERS)

    table = in_present_columns(table, plan)
    kinds = {name: _HOLDS[plan.declared()[name].kind] for name in plan.factors}
    wanted = {"run": "whole numbers", **kinds, "setting": "labels", "score": "numbers"}
    for name, kind in (wanted if only_scores else {**wanted, **plan.columns}).items():
        if name not in table.column_names:
            raise odd(f"the results have no column {name!r}")
        is_gap, found = table[name].null_count, table[name].type
        if is_gap or not _holds(found, kind):
            told = "nothing in some rows" if is_gap else found
            raise odd(f"the column {name!r} of the results holds {told}", kind)
    runs = table["run"].to_numpy()
    others = runs[(runs < 0) | (runs >= plan.n_runs)]
    if len(others):
        expected = f"runs from 0 to {plan.n_runs - 1}, as the plan has"
        raise odd(f"the results hold the run {others[0]}", expected)
    return table


def _holds(found: pa.DataType, kind: str) -> bool:
    tests = {
        "flags": (pa.types.is_boolean,),
        "labels": (pa.types.is_string, pa.types.is_large_string),
        "whole numbers": (pa.types.is_integer,),
        "numbers": (pa.types.is_integer, pa.types.is_floating),
    }
    plain = found.value_type if kind == "labels" and pa.types.is_dictionary(found) else found
    return any(test(plain) for test in tests[kind])


def cells_of(table: pa.Table, plan: Plan) -> Cells:
    """Return the number of each row's cell."""
    cells = np.zeros(len(table), dtype=np.int64)
    for name, values in plan.axes.items():
        coded = table[name].combine_chunks().dictionary_encode()
        known = {value: place for place, value in enumerate(values)}
        found = coded.dictionary.to_pylist()
        for odd in (value for value in found if value not in known):
            told = f"the results hold the {name} {odd!r}, which the plan has not"
            raise DataError(told, hint=OTHERS)
        places = np.array([known[value] for value in found], dtype=np.int64)
        cells = cells * len(values) + places[coded.indices.to_numpy()]
    return cells


def checked_cells(table: pa.Table, plan: Plan, file: Path, hint: str) -> tuple[pa.Table, Cells]:
    """Return a table of cells with the present columns, and their numbers.

    Each must be there once; in version 1 a process could lack some settings.

    Args:
        table: A row for each cell.
        plan: The plan.
        file: Where it was read.
        hint: What to do where it lacks a cell.
    """
    table = in_present_columns(table, plan)
    cells, wanted = cells_of(table, plan), {math.prod(plan.shape)}
    if plan.version1:
        wanted.add(math.prod(plan.shape[-3:-1]) * len(plan.reader1.labels(plan)))
    if len(cells) != len(np.unique(cells)) or len(cells) not in wanted:
        raise DataError(f"{file} lacks some of its cells", hint=hint)
    return table, cells


def spread(column: NDArray[Any], cells: Cells, plan: Plan, rest: Any = 0) -> Any:
    """Return a column of some cells as one of all cells of a plan, with ``rest`` in the others."""
    found = np.full((math.prod(plan.shape), *column.shape[1:]), rest, dtype=column.dtype)
    found[cells] = column
    return found


def scores_by_run(table: pa.Table, plan: Plan) -> tuple[Cells, Cells, NDArray[np.float32]]:
    """Return the runs of checked rows, each row's place in (cells x runs), and the scores.

    Refused are scores that are not finite, and a run that is there twice.
    """
    scores = np.asarray(table["score"].to_numpy(), dtype=np.float32)
    wrong = ~np.isfinite(scores)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"a score is {'not a number' if np.isnan(scores[row]) else 'infinite'}",
            where=f"row {row}, run {table['run'][row].as_py()}",
            hint="see why with spibb.studies.running.rerun(FOLDER, RUN)",
        )
    runs, columns = np.unique(table["run"].to_numpy(), return_inverse=True)
    spots = cells_of(table, plan) * len(runs) + columns
    count = np.bincount(spots, minlength=1)
    if count.max() > 1:
        cell, column = divmod(int(np.argmax(count > 1)), len(runs))
        label = plan.labels[cell % len(plan.labels)]
        raise DataError(
            f"a run is there twice: run {runs[column]} of {label}",
            hint="keep one of the parts that hold it",
        )
    return runs.astype(np.int64), spots, scores
