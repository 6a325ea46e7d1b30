"""How long the algorithms take: measured alone, after the jobs, and kept in a table of its own.

What is timed begins with the model that was estimated from a log and the values of the baseline in
it, and ends with the converged policy: errors, improvement steps and evaluations. Everything runs
on one thread, after a first call that is not counted, and the median of several calls is kept.
"""

from __future__ import annotations

import platform
import re
import timeit
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from spibb.atomic_files import write_whole
from spibb.errors import DataError
from spibb.problem import Problem, ProblemBatch
from spibb.problem.ranges import ValueRange
from spibb.runner.jobs import THREADS_VARIABLE, environment
from spibb.runner.store import as_written, to_bytes
from spibb.studies.complexity.study import ComplexityPlan, draw_counts, find_world
from spibb.studies.results.cells import checked_facts, marked
from spibb.studies.version1 import rename

Row = dict[str, Any]
FILE = "timings.parquet"


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
    worlds = product(plan.temperature, plan.actions)
    with environment({THREADS_VARIABLE: "1"}):
        rows = [row for world in worlds for row in _measure_world(plan, *world)]
    versions = {name: version(name) for name in ("spibb", "numpy", "numba")}
    about = {"machine": _machine(), "python": platform.python_version(), **versions}
    return marked(pa.Table.from_pylist(rows), plan, **about)


def _measure_world(plan: ComplexityPlan, temperature: float, n_actions: int) -> Iterator[Row]:
    baseline = find_world(plan.gamma, temperature, n_actions).baseline
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
            search = partial(setting.build().search, problems)
            n_iterations = search().n_iterations  # this call is not counted
            calls = timeit.repeat(search, repeat=plan.n_repeats, number=1)
            yield {
                "temperature": temperature, "n_actions": n_actions, "setting": setting.label,
                "n_problems": len(group), "run": run, "seconds": median(calls) / len(group),
                "n_iterations": float(n_iterations.mean()),
            }  # fmt: skip


def write_timings(table: pa.Table, file: Path) -> None:
    """Write what ``measure`` returned, whole or not at all."""
    write_whole(file, to_bytes(table, write_page_checksum=False))


def read_timings(folder: Path, plan: ComplexityPlan) -> pa.Table:
    """Read the timings of a study."""
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
    file = Path("/proc/cpuinfo")
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    named = re.findall(r"^model name\s*: *(.*\S)", text, re.M)
    return next(iter(named), "") or platform.processor() or platform.machine()
