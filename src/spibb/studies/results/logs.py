"""The rows of a study as one published table, beside the statistics that all studies have."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spibb.atomic_files import write_whole
from spibb.errors import DataError, OutputError
from spibb.runner.store import Store, read_checked, to_bytes
from spibb.studies.plan import Plan
from spibb.studies.results.aggregates import Aggregates, Results
from spibb.studies.results.cells import cells_of, checked_facts, checked_rows, marked
from spibb.studies.results.recording import read_rows

Kind = TypeVar("Kind", bound=Plan)
# One row for each run, cell and setting; it is published, unlike the parts.
FILE = "logs.parquet"
_ANEW = "publish the study again from the folder in which it was run"


@dataclass(frozen=True, eq=False)
class LogResults(Results[Kind]):
    """What a study that keeps its rows has found.

    Attributes:
        runs: The runs that are there, ascending.
        columns: Columns of the rows by name, each of shape (runs, *plan.shape).
    """

    runs: NDArray[np.int64]
    columns: dict[str, NDArray[Any]]

    @classmethod
    def of_folder(cls, folder: Path, plan: Kind) -> Self:
        """Read the results of a folder, which may be a published one."""
        folder = Path(folder)
        if Store(folder).files():
            with suppress(OutputError):  # a folder may be there to be read only
                write_logs(plan, folder)
            table = read_rows(Store(folder), plan)
        else:
            table = _read_logs(plan, folder)
        runs, columns = _sorted(table, plan)
        cls.check(columns)
        return cls(plan, Aggregates.of_study(folder, plan), folder, runs=runs, columns=columns)

    @classmethod
    def check(cls, columns: dict[str, NDArray[Any]]) -> None:
        """Refuse columns that contradict each other."""


def write_logs(plan: Plan, folder: Path) -> None:
    """Write the rows of a study as one file, in the order of runs and cells."""
    table = read_rows(Store(Path(folder)), plan)
    order = np.lexsort((cells_of(table, plan), table["run"].to_numpy()))
    content = to_bytes(marked(table.take(order).combine_chunks(), plan))
    write_whole(Path(folder) / FILE, content)


def _read_logs(plan: Plan, folder: Path) -> pa.Table:
    file = folder / FILE
    if not file.exists():
        raise DataError(f"{folder} has no results yet", hint="run the study first")
    table = read_checked(file, hint=_ANEW)
    checked_facts(table, plan, file, what="logs", hint=_ANEW)
    return checked_rows(table, plan, str(file))


def _sorted(table: pa.Table, plan: Plan) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Sort rows into arrays; refuse a run that lacks some of its cells."""
    runs, places = np.unique(table["run"].to_numpy(), return_inverse=True)
    shape = (len(runs), *plan.shape)
    spots = places * int(np.prod(plan.shape)) + cells_of(table, plan)
    if not np.array_equal(np.sort(spots), np.arange(np.prod(shape))):
        raise DataError("some runs lack cells, or have them twice", hint=_ANEW)
    order = np.argsort(spots)
    names = ("score", *plan.columns)
    columns = {name: table[name].to_numpy()[order].reshape(shape) for name in names}
    return runs.astype(np.int64), columns
