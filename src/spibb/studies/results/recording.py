"""The results of a study as they come: rows at first, and of a large study soon what is kept.

Jobs finish in any order and are folded in theirs: as soon as enough runs wait that follow on those
already folded, they are folded together. What is kept of them is the same for any such groups.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from spibb.errors import DataError, OutputError, SettingsError
from spibb.runner.store import Piece, Store
from spibb.studies.plan import Plan
from spibb.studies.results.cell_aggregates import Kept, Retention, from_files, to_files
from spibb.studies.results.cells import checked_rows
from spibb.studies.results.run_set import RunSet

# Name of a job, its first run, the run after its last.
JobRange = tuple[str, int, int]
# Rows that are read at once, to bound the memory: a few hundred megabytes.
_ROWS = 3_000_000


def jobs_of_piece(plan: Plan, piece: Piece | None) -> list[JobRange]:
    """Return the jobs of a plan whose runs belong to a piece; None for all."""
    first, last = piece or (0, plan.n_runs)
    return [job for job in plan.jobs() if first <= job[1] and job[2] <= last]


def find_piece(plan: Plan, text: str) -> Piece:
    """Return the runs of a piece such as "2/4": the second quarter of the jobs.

    Args:
        plan: The plan.
        text: Number of the piece, from 1, and how many there are.
    """
    jobs = plan.jobs()
    is_piece = re.fullmatch("([0-9]{1,9})/([0-9]{1,9})", text)
    number, of = map(int, is_piece.groups()) if is_piece else (0, 0)
    if not 1 <= number <= of:
        raise SettingsError(f"the piece is {text!r}", expected="such as 2/4, from 1/4 to 4/4")
    begin, end = (len(jobs) * place // of for place in (number - 1, number))
    if begin == end:
        raise SettingsError(f"the piece {text} is empty", expected=f"at most {len(jobs)} pieces")
    return jobs[begin][1], jobs[end - 1][2]


class Recorder:
    """Takes the results of a study's jobs, and folds them where the study is large.

    Args:
        plan: The plan.
        store: The study's folder.
        jobs: The jobs that belong here, in order.
        keeping: How much is kept.
    """

    def __init__(self, plan: Plan, store: Store, jobs: list[JobRange], keeping: Retention) -> None:
        self.plan, self.store, self.jobs, self.keeping = plan, store, jobs, keeping
        self._kept = read_folded(store, plan)
        self._n_folded = self._n_ready = self._count_folded()
        self._whole, self._damaged = store.finished()
        self._whole |= {name for name, _, _ in jobs[: self._n_folded]}
        self._fold_if_due()

    @classmethod
    @contextmanager
    def open(
        cls, plan: Plan, folder: Path, *, resume: bool, piece: Piece | None = None,
        keeping: Retention | None = None,
    ) -> Iterator[Recorder]:  # fmt: skip
        """Open a study's folder, or begin one, and fold what an earlier call left to be folded.

        Args:
            plan: The plan.
            folder: Where the study lives.
            resume: Go on with an earlier run.
            piece: The first run that belongs here and the run after the last; None for all.
            keeping: How much is kept.
        """
        jobs = jobs_of_piece(plan, piece)
        with Store.open(folder, plan.to_toml(), resume=resume, piece=piece) as store:
            yield cls(plan, store, jobs, keeping or Retention())

    def finished(self) -> tuple[set[str], set[str]]:
        """Return the names of the jobs that are done, and of those whose parts are damaged."""
        return set(self._whole), set(self._damaged)

    def write(self, job: str, table: pa.Table) -> None:
        """Keep the rows of a job, whole or not at all."""
        self.store.write(job, table)
        self._whole.add(job)
        self._fold_if_due()

    def _count_folded(self) -> int:
        """Return how many of the jobs are folded, and refuse what a study cannot go on with."""
        name = self.store.folded()
        if name is None:
            return 0
        expected = RunSet(((self.jobs[0][1], int(name)),))
        if any(runs != expected for runs in self._kept.runs):
            raise OutputError(
                f"{self.store.folder} was merged from pieces and lacks some",
                hint="run what it lacks in a folder of its own, and merge again",
            )
        return sum(last <= int(name) for _, _, last in self.jobs)

    def _fold_if_due(self) -> None:
        """Fold the jobs that follow on those folded, if enough runs wait or none is to come."""
        while self._n_ready < len(self.jobs) and self.jobs[self._n_ready][0] in self._whole:
            self._n_ready += 1
        ready = self.jobs[self._n_folded : self._n_ready]
        if keeps_all_rows(self.plan, self.keeping) or not ready:
            return
        n_waiting, n_runs = ready[-1][2] - ready[0][1], self.plan.n_runs
        if self._n_ready < len(self.jobs) and n_waiting < self.keeping.n_waiting(n_runs):
            return
        names, n_worst = [name for name, _, _ in ready], self.keeping.n_worst(n_runs)
        self._kept = _merged(self._kept, self.store, self.plan, names, n_worst)
        self.store.fold(f"{ready[-1][2]:07d}", to_files(self._kept, self.plan))
        self._n_folded = self._n_ready


def keeps_all_rows(plan: Plan, keeping: Retention) -> bool:
    """Tell whether a study keeps every row: it must, or it is small."""
    return plan.keeps_rows or plan.n_runs <= keeping.rows


def read_folded(store: Store, plan: Plan) -> Kept:
    """Return what the jobs that are folded away came to; nothing if there are none."""
    name = store.folded()
    return Kept.empty(plan) if name is None else from_files(store.compact / name, plan)


def read_results(store: Store, plan: Plan, keeping: Retention | None = None) -> Kept:
    """Return what a study came to so far, folded or not; it may be running meanwhile.

    Args:
        store: The study's folder.
        plan: Its plan.
        keeping: How much is kept of each cell.
    """
    n_worst = (keeping or Retention()).n_worst(plan.n_runs)
    while True:
        before = store.folded()
        try:
            names = [file.stem for file in store.files()]
            found = _merged(read_folded(store, plan), store, plan, names, n_worst)
        except DataError:
            if store.folded() == before:
                raise
        # What was folded while it was read would be there twice, or not at all.
        if store.folded() == before:
            break
    if not found.n.any():
        raise DataError(f"{store.folder} has no results yet", hint="run the study first")
    return found


def read_rows(store: Store, plan: Plan) -> pa.Table:
    """Return every row of a study that keeps them, with labels that do not depend on its plan."""
    if store.folded() is not None:
        raise DataError(
            f"{store.folder} keeps no rows but the worst",
            expected="all rows, as this kind of study needs",
            hint="run it again in another folder",
        )
    table = store.read(convert=lambda part, where: checked_rows(part, plan, where))
    plain = [
        pa.field(one.name, pa.string()) if pa.types.is_dictionary(one.type) else one
        for one in table.schema
    ]
    return table.cast(pa.schema(plain))


def _merged(kept: Kept, store: Store, plan: Plan, jobs: Sequence[str], n_worst: int) -> Kept:
    """Return what is kept of some runs and of the parts of jobs, which are read many at a time."""
    step = max(1, _ROWS // (math.prod(plan.shape) * plan.runs_per_job))
    for first in range(0, len(jobs), step):
        some = jobs[first : first + step]
        table = store.read(some, convert=lambda part, where: checked_rows(part, plan, where))
        kept = kept.merge(Kept.of_table(table, plan, n_worst), plan, n_worst)
    return kept
