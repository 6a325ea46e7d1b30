"""The logs of the study as one table, beside the statistics that all studies have."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from spibb.assessment.verdict import Decision
from spibb.errors import DataError, OutputError
from spibb.runner.store import Store, read_checked, to_bytes
from spibb.studies.representations.plan import RepresentationsPlan
from spibb.studies.results.aggregates import Aggregates, Results
from spibb.studies.results.cells import cells_of, checked_facts, checked_rows, marked
from spibb.studies.results.recording import read_rows
from spibb.whole_files import write_whole

# One row for each log and rule; it is published, unlike the parts.
FILE = "logs.parquet"
_ANEW = "publish the study again from the folder in which it was run"
# Codes of verdicts, which files hold: never change one. The first stands for a search that took
# none of its candidates.
KEPT = 0
_CODES = {
    Decision.DEPLOY: 1,
    Decision.MONITOR: 2,
    Decision.PILOT: 3,
    Decision.WAIT: 4,
    Decision.KEEP: 5,
}
_DEPLOYS = [code for one, code in _CODES.items() if one.startswith("Deploy")]
# True gains of fewer standard errors below zero may be none.
LOSS_ERRORS = 2.0


def code_of(decision: Decision) -> int:
    """Return the code of a decision."""
    return _CODES[decision]


def is_deploy(codes: ArrayLike) -> NDArray[np.bool_]:
    """Tell which verdicts begin with Deploy."""
    return np.isin(codes, _DEPLOYS)


def score_of(codes: ArrayLike, gain: ArrayLike) -> NDArray[np.float32]:
    """Return what a rule gains in truth: the true gain where it deploys, and 0 elsewhere."""
    return np.where(is_deploy(codes), gain, 0.0).astype(np.float32)


@dataclass(frozen=True, eq=False)
class RepresentationsResults(Results[RepresentationsPlan]):
    """What the study has found.

    Attributes:
        runs: The runs that are there, ascending.
        columns: Columns of the rows by name, each of shape (runs, *plan.shape).
    """

    runs: NDArray[np.int64]
    columns: dict[str, NDArray[Any]]

    @classmethod
    def of_folder(cls, folder: Path, plan: RepresentationsPlan) -> Self:
        """Read the results of a folder, which may be a published one."""
        folder = Path(folder)
        if Store(folder).files():
            with suppress(OutputError):  # a folder may be there to be read only
                write_logs(plan, folder)
            table = read_rows(Store(folder), plan)
        else:
            table = _read_logs(plan, folder)
        runs, columns = _sorted(table, plan)
        return cls(plan, Aggregates.of_study(folder, plan), folder, runs=runs, columns=columns)

    @property
    def deploys(self) -> NDArray[np.bool_]:
        """Which verdicts begin with Deploy."""
        return is_deploy(self.columns["verdict"])

    @property
    def is_loss(self) -> NDArray[np.bool_]:
        """Which policies are worse than the behaviour, beyond the error of the simulation."""
        return self.columns["gain"] < -LOSS_ERRORS * self.columns["gain_error"]


def write_logs(plan: RepresentationsPlan, folder: Path) -> None:
    """Write the rows of a study as one file, in the order of runs and cells."""
    table = read_rows(Store(Path(folder)), plan)
    order = np.lexsort((cells_of(table, plan), table["run"].to_numpy()))
    content = to_bytes(marked(table.take(order).combine_chunks(), plan))
    write_whole(Path(folder) / FILE, content)


def _read_logs(plan: RepresentationsPlan, folder: Path) -> pa.Table:
    file = folder / FILE
    if not file.exists():
        raise DataError(f"{folder} has no results yet", hint="run the study first")
    table = read_checked(file, hint=_ANEW)
    checked_facts(table, plan, file, what="logs", hint=_ANEW)
    return checked_rows(table, plan, str(file))


def _sorted(table: pa.Table, plan: RepresentationsPlan) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Sort rows into arrays; refuse a run that lacks some of its cells."""
    runs, places = np.unique(table["run"].to_numpy(), return_inverse=True)
    shape = (len(runs), *plan.shape)
    spots = places * int(np.prod(plan.shape)) + cells_of(table, plan)
    if not np.array_equal(np.sort(spots), np.arange(np.prod(shape))):
        raise DataError("some runs lack cells, or have them twice", hint=_ANEW)
    order = np.argsort(spots)
    names = ("score", *plan.columns)
    columns = {name: table[name].to_numpy()[order].reshape(shape) for name in names}
    gained = score_of(columns["verdict"], columns["gain"])
    if not np.array_equal(gained, columns["score"]):
        raise DataError(
            "verdicts and scores contradict each other",
            expected="the true gain where the verdict is Deploy, and 0 elsewhere",
            hint="run the study again in another folder",
        )
    return runs.astype(np.int64), columns
