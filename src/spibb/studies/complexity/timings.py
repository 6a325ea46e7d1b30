"""How long the algorithms take: measured alone, after the jobs, and kept in a table of its own.

What is timed begins with the model that was estimated from a log and the values of the baseline in
it, and ends with the converged policy: errors, improvement steps and evaluations. Everything runs
on one thread, after a first call that is not counted, and the median of several calls is kept.
"""

from __future__ import annotations

import gc
import os
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spibb.algorithms.base import Algorithm
from spibb.errors import DataError
from spibb.problem import Problem, ProblemBatch
from spibb.problem.ranges import ValueRange
from spibb.runner.jobs import THREADS_VARIABLE
from spibb.runner.store import as_written, to_bytes
from spibb.studies.complexity.plan import ComplexityPlan, draw_counts, make_baseline
from spibb.studies.results.marked import checked_facts, marked
from spibb.studies.version1 import rename
from spibb.whole_files import write_whole

if TYPE_CHECKING:
    import pyarrow as pa

FILE = "timings.parquet"
_COLUMNS = ("temperature", "n_actions", "setting", "n_problems", "run", "seconds", "n_iterations")


def ensure_timings(plan: ComplexityPlan, folder: Path) -> None:
    """Measure what the folder does not hold yet, and write it there."""
    file = Path(folder) / FILE
    if not file.exists():
        write_timings(measure(plan), file)


def measure(plan: ComplexityPlan) -> pa.Table:
    """Time every setting on the first logs, one at a time and in a batch.

    Returns:
        Columns ``temperature, n_actions, setting, n_problems, run, seconds, n_iterations``: seconds
        for each of ``n_problems`` logs that were solved together, the first of them that of
        ``run``, and the mean of their iterations.
    """
    import pyarrow as pa

    rows: list[tuple[Any, ...]] = []
    with _one_thread():
        for temperature in plan.temperature:
            for n_actions in plan.actions:
                rows += _measure_world(plan, temperature, n_actions)
    table = pa.table(dict(zip(_COLUMNS, map(list, zip(*rows, strict=True)), strict=True)))
    versions = {name: version(name) for name in ("spibb", "numpy", "numba")}
    python = platform.python_version()
    return marked(table, plan, machine=_machine(), python=python, **versions)


def _measure_world(
    plan: ComplexityPlan, temperature: float, n_actions: int
) -> Iterator[tuple[Any, ...]]:
    baseline = make_baseline(plan, temperature, n_actions)
    drawn = []
    for run in range(max(plan.n_timed, plan.n_together)):
        counts = draw_counts(plan, run, temperature, n_actions)
        values = ValueRange.of(counts, plan.gamma, None)
        drawn.append(Problem(counts, baseline, values, unseen=plan.unseen))
    groups = [(run, drawn[run : run + 1]) for run in range(plan.n_timed)]
    if plan.n_together:
        groups.append((0, drawn[: plan.n_together]))
    for run, group in groups:
        problems = ProblemBatch.of(group)
        for setting in plan.settings:
            seconds, n_iterations = _time(setting.build(), problems, plan.n_repeats)
            n, label = len(group), setting.label
            yield temperature, n_actions, label, n, run, seconds / n, float(n_iterations.mean())


def _time(
    algorithm: Algorithm, problems: ProblemBatch, n_repeats: int
) -> tuple[float, NDArray[np.int64]]:
    n_iterations = algorithm.search(problems).n_iterations
    seconds = []
    for _ in range(n_repeats):
        began = time.perf_counter()
        algorithm.search(problems)
        seconds.append(time.perf_counter() - began)
    return median(seconds), n_iterations


def write_timings(table: pa.Table, file: Path) -> None:
    """Write what ``measure`` returned, whole or not at all."""
    write_whole(file, to_bytes(table, write_page_checksum=False))


def read_timings(folder: Path, plan: ComplexityPlan) -> pa.Table:
    """Read the timings of a study."""
    import pyarrow.parquet as pq

    file = Path(folder) / FILE
    if not file.exists():
        raise DataError(
            f"{folder} has no {FILE}",
            hint="run the study to its end with --resume: it measures when its jobs are done",
        )
    hint = "delete it and run the study with --resume to measure again"
    with as_written(file, hint=hint):
        table = pq.read_table(file)
        checked_facts(table, plan, file, what="timings", hint=hint)
    return rename(table, {"eta": "temperature"})  # which it was in version 1


def measured(table: pa.Table, plan: ComplexityPlan, name: str, **meant: Any) -> NDArray[Any]:
    """Return a column of timings, shape (numbers of actions, logs).

    Args:
        table: What ``read_timings`` returns.
        plan: The plan that the timings are of.
        name: The column.
        meant: Values of other columns.
    """
    columns = {key: np.array(table[key].to_pylist()) for key in (name, "n_actions", *meant)}
    is_meant = np.all([columns[key] == value for key, value in meant.items()], axis=0)
    return np.stack([columns[name][is_meant & (columns["n_actions"] == n)] for n in plan.actions])


def _machine() -> str:
    """Return the name of the processor, as far as the system tells it."""
    try:
        lines: Sequence[str] = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = ()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), "") or platform.processor() or platform.machine()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Keep kernels on one thread, and the garbage collector from breaking in."""
    before, was_enabled = os.environ.get(THREADS_VARIABLE), gc.isenabled()
    os.environ[THREADS_VARIABLE] = "1"
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
        del os.environ[THREADS_VARIABLE]
        if before is not None:
            os.environ[THREADS_VARIABLE] = before
