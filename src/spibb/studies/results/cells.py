"""The rows of a study: tables of runs, cells, settings and scores.

Cells are numbered in the order of the plan's factors, settings last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spibb.errors import DataError
from spibb.studies.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa

_TYPES: dict[type, Any] = {int: np.int32, float: np.float64, str: object}
_HOLDS = {int: "whole numbers", float: "numbers", str: "labels"}
_OTHERS = "put plan and results of the same study into the folder"


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
    *places, codes = np.unravel_index(cells, plan.shape)
    found = {}
    for (name, values), place in zip(plan.factors.items(), places, strict=True):
        kind = plan.declared()[name].kind
        if kind is str:
            found[name] = labels_of(values, place)
        else:
            found[name] = np.asarray(values, dtype=_TYPES[kind])[place]
    return {**found, "setting": labels_of(plan.labels, codes)}


def labels_of(names: Sequence[str], places: NDArray[np.int64]) -> pa.DictionaryArray:
    """Return a column of labels."""
    import pyarrow as pa

    codes = pa.array(places.astype(np.int16))
    return pa.DictionaryArray.from_arrays(codes, pa.array(names, pa.string()))


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
    table = in_present_columns(table, plan)
    kinds = {name: _HOLDS[plan.declared()[name].kind] for name in plan.factors}
    wanted = {"run": "whole numbers", **kinds, "setting": "labels", "score": "numbers"}
    for name, kind in (wanted | dict(plan.columns)).items():
        if name not in table.column_names:
            raise DataError(f"the results have no column {name!r}", where=where, hint=_OTHERS)
        column = table[name]
        if column.null_count or not _holds(column.type, kind):
            found = "nothing in some rows" if column.null_count else f"{column.type}"
            raise DataError(
                f"the column {name!r} of the results holds {found}",
                where=where,
                expected=kind,
                hint=_OTHERS,
            )
    runs = table["run"].to_numpy()
    if len(runs) and not 0 <= runs.min() <= runs.max() < plan.n_runs:
        odd = runs.min() if runs.min() < 0 else runs.max()
        raise DataError(
            f"the results hold the run {odd}",
            where=where,
            expected=f"runs from 0 to {plan.n_runs - 1}, as the plan has",
            hint=_OTHERS,
        )
    return table


def _holds(found: pa.DataType, kind: str) -> bool:
    from pyarrow import types

    if kind == "flags":
        return bool(types.is_boolean(found))
    if kind == "labels":
        plain = found.value_type if types.is_dictionary(found) else found
        return bool(types.is_string(plain) or types.is_large_string(plain))
    is_number = types.is_integer(found) or (kind == "numbers" and types.is_floating(found))
    return bool(is_number)


def find_cells(table: pa.Table, plan: Plan) -> NDArray[np.int64]:
    """Return the number of each row's cell."""
    cells = np.zeros(len(table), dtype=np.int64)
    for name, values in {**plan.factors, "setting": plan.labels}.items():
        column = table[name].combine_chunks()
        if name == "setting" or plan.declared()[name].kind is str:
            coded = column.dictionary_encode()
            names = np.asarray(coded.dictionary.to_pylist(), dtype=object)
            places = _places(names, values, name)[coded.indices.to_numpy()]
        else:
            places = _places(column.to_numpy(), values, name)
        cells = cells * len(values) + places
    return cells


def has_every_cell(cells: NDArray[np.int64], plan: Plan) -> bool:
    """Tell whether each cell is named once; in version 1 a process could lack some settings."""
    wanted = {math.prod(plan.shape)}
    if plan.version1:
        wanted.add(math.prod(plan.shape[-3:-1]) * len(plan.reader1.labels(plan)))
    return len(cells) == len(np.unique(cells)) and len(cells) in wanted


def _places(values: NDArray[Any], known: Sequence[Any], name: str) -> NDArray[np.int64]:
    """Return where each value stands among the known ones."""
    wanted = np.asarray(known, dtype=values.dtype)
    order = np.argsort(wanted, kind="stable")
    places = order[np.minimum(np.searchsorted(wanted, values, sorter=order), len(known) - 1)]
    wrong = wanted[places] != values
    if wrong.any():
        unknown = values[int(np.argmax(wrong))]
        raise DataError(
            f"the results hold the {name} {getattr(unknown, 'item', lambda: unknown)()!r}, "
            "which the plan has not",
            hint=_OTHERS,
        )
    return np.asarray(places, dtype=np.int64)


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
