"""Make one study of several: pieces of a plan, and plans that try other settings on the same draws.

The result is the same, byte for byte, for any order of the folders; and where they are all pieces
of one plan, it is what the plan would have come to in one go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pyarrow as pa

from spibb.atomic_files import replace_whole
from spibb.atomic_folders import check_replaceable, write_folder
from spibb.errors import DataError, SettingsError
from spibb.runner.store import PLAN_FILE, Store
from spibb.studies.plan import Plan, Setting
from spibb.studies.results.cell_aggregates import Kept, Retention, merge_all, to_files
from spibb.studies.results.cells import cells_of, keys
from spibb.studies.results.recording import keeps_all_rows, read_results, read_rows
from spibb.studies.results.run_set import RunSet

# What may differ between plans that draw the same processes, baselines and logs.
_FREE = ("name", "n_runs", "runs_per_job", "settings", "version1")
_AND = " + "
# Makes a plan of TOML.
Reader = Callable[[str], Plan]


class _Source:
    """A study to be merged."""

    def __init__(self, folder: Path, keeping: Retention, read_plan: Reader) -> None:
        self.folder, self.store = folder, Store(folder)
        self.plan = read_plan(self.store.plan())
        self.kept = read_results(self.store, self.plan, keeping)
        # The runs of each setting by its label.
        self.runs = dict(zip(self.plan.labels, self.kept.runs, strict=True))


def merge_studies(
    out: Path, folders: Sequence[Path], *, read_plan: Reader, keeping: Retention | None = None
) -> Kept:
    """Write one study folder from several, and return what is in it.

    Args:
        out: The folder to write; it must not exist.
        folders: Studies, whole or not, rows or folded: pieces of one plan, or plans that differ in
            their settings and numbers of runs only. No run of a setting may be in two of them.
        read_plan: Makes a plan of TOML.
        keeping: How much is kept of each cell.
    """
    check_replaceable(Path(out), overwrite=True, known=())
    keeping = keeping or Retention()
    sources = [_Source(Path(folder), keeping, read_plan) for folder in folders]
    if not sources:
        raise SettingsError("there is nothing to merge", expected="at least one study's folder")
    plan = merge_plans([source.plan for source in sources])
    _check_overlap(sources)
    parts = (source.kept.in_plan(source.plan, plan) for source in sources)
    merged = merge_all(parts, plan, keeping.n_worst(plan.n_runs))

    def fill(folder: Path) -> None:
        store = Store(folder)
        store.parts.mkdir()
        replace_whole(folder / PLAN_FILE, plan.to_toml().encode())
        if _has_rows(plan, sources, merged, keeping):
            _join_rows(store, plan, sources)
        else:
            store.fold(_folded_name(plan, merged), to_files(merged, plan))

    # What has no names that it may hold is replaced where it is empty.
    write_folder(Path(out), fill, overwrite=True, known=())
    return merged


def merge_plans(plans: Sequence[Plan]) -> Plan:
    """Return the plan with the settings of all, which must agree on what they draw.

    It has as many runs as the largest; settings that were given fewer simply have fewer.
    """
    first, *others = ordered = sorted(plans, key=lambda x: (-x.n_runs, x.name, x.to_toml()))
    for other, name in product(others, ["study", *(field.name for field in fields(first))]):
        ours, theirs = getattr(first, name), getattr(other, name, None)
        if name not in _FREE and ours != theirs:
            raise DataError(
                f"the plans do not draw the same: {name} is {ours!r} in {first.name} "
                f"and {theirs!r} in {other.name}",
                expected="plans that differ in settings and numbers of runs only",
                hint="merge studies of the same seed, processes and logs",
            )
    names = sorted({name for plan in plans for name in plan.name.split(_AND)})
    return replace(first, name=_AND.join(names), settings=_united(ordered), version1="")


def _united(plans: Sequence[Plan]) -> tuple[Setting, ...]:
    """Return every setting once; one label for two of them is an error."""
    found: dict[str, Setting] = {}
    for setting in (setting for plan in plans for setting in plan.settings):
        if found.setdefault(setting.label, setting) != setting:
            raise DataError(
                f"two plans mean different settings by {setting.label!r}",
                expected="the same algorithm and settings",
                hint="rename one of them in its plan and run that again",
            )
    return tuple(found.values())


def _check_overlap(sources: Sequence[_Source]) -> None:
    """Refuse a run of a setting that two studies hold, and name the first and the two."""
    found = []
    for one, other in combinations(sorted(sources, key=lambda source: source.folder), 2):
        for label, runs in one.runs.items():
            run = runs.first_common(other.runs.get(label, RunSet()))
            if run is not None:
                found.append((run, label, one.folder, other.folder))
    for run, label, *folders in sorted(found)[:1]:
        raise DataError(
            f"run {run} of {label} is in {folders[0]} and in {folders[1]}",
            expected="each run of a setting in one of the folders",
            hint="give pieces that do not overlap",
        )


def _has_rows(plan: Plan, sources: Sequence[_Source], merged: Kept, keeping: Retention) -> bool:
    """Tell whether rows are needed, or make whole jobs, so that one may go on with the others."""
    are_there = not any(source.store.folded() for source in sources)
    ends = {end for runs in merged.runs for part in runs.ranges for end in part}
    is_whole = all(end % plan.runs_per_job == 0 or end == plan.n_runs for end in ends)
    is_even = len(set(merged.runs)) == 1
    return plan.keeps_rows or (keeps_all_rows(plan, keeping) and are_there and is_whole and is_even)


def _join_rows(store: Store, plan: Plan, sources: Sequence[_Source]) -> None:
    """Write the rows of all, a part for each job, in an order that the folders' has no part in."""
    tables = [read_rows(source.store, source.plan) for source in sources]
    table = pa.concat_tables(tables, promote_options="permissive")
    runs, cells = table["run"].to_numpy(), cells_of(table, plan)
    order = np.lexsort((cells, runs))
    table = table.take(order)
    for name, column in keys(plan, cells[order]).items():
        table = table.set_column(table.column_names.index(name), name, pa.chunked_array([column]))
    table = table.combine_chunks()
    for job, first, last in plan.jobs():
        begin, end = np.searchsorted(runs[order], [first, last])
        if begin < end:
            store.write(job, table.slice(begin, end - begin))


def _folded_name(plan: Plan, merged: Kept) -> str:
    """Return the name of what one go would have kept: the first run that is still to be made."""
    n_runs = len(merged.runs[0])
    is_begin = all(runs.ranges == ((0, n_runs),) for runs in merged.runs)
    return f"{n_runs if is_begin else plan.n_runs:07d}"
