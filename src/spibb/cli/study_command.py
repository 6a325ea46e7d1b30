"""``spibb study``: list, run, merge."""

from __future__ import annotations

import csv
import shlex
import sys
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Column, Table

from spibb.cli.interrupts import INTERRUPTED
from spibb.cli.printing import console, print_json
from spibb.studies.merging import merge_studies
from spibb.studies.plan import Plan
from spibb.studies.recording import find_piece
from spibb.studies.registry import PLANS, StudyProgress, find_plan, read_plan, run_study

# Seconds after which somebody wonders.
_LONG = 3.0


def list_studies(printed: str) -> None:
    """Print the plans that ship with the package."""
    facts = {
        name: {
            "study": plan.study,
            "runs": plan.n_runs,
            # A plan that cannot be told any has no strengths of a baseline.
            "etas": len(plan.etas) if "etas" in plan.entries() else None,
            "sizes": len(plan.sizes),
            "settings": len(plan.settings),
            "fingerprint": plan.fingerprint,
        }
        for name, plan in PLANS.items()
    }
    if printed == "json":
        print_json(facts)
        return
    if printed == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(["plan", *next(iter(facts.values()))])
        writer.writerows([name, *fact.values()] for name, fact in facts.items())
        return
    columns = ("study", "runs", "etas", "sizes", "settings")
    table = Table(Column("plan", no_wrap=True), *columns)
    for name, fact in facts.items():
        table.add_row(name, *("" if fact[part] is None else str(fact[part]) for part in columns))
    console.print(table)


def run_named_study(
    name: str,
    out: Path,
    *,
    runs: int | None,
    workers: int | None,
    resume: bool,
    engine: str = "local",
    address: str | None = None,
    piece: str | None = None,
) -> None:
    """Run a plan with a bar that tells rate and time left."""
    plan = find_plan(name, runs)
    steps = run_study(
        plan, out, engine=engine, workers=workers, address=address, resume=resume, piece=piece
    )
    try:
        _run_with_bar(plan, steps)
    except KeyboardInterrupt:
        named = engine if engine != "local" else None
        options = {
            "runs": runs, "workers": workers, "engine": named, "address": address, "piece": piece,
        }  # fmt: skip
        given = [f"--{option}={value}" for option, value in options.items() if value is not None]
        command = ["spibb", "study", "run", name, "--out", str(out), *given, "--resume"]
        kept = f"what is done is kept in {out}. Go on with: {shlex.join(command)}"
        print(f"Interrupted: {kept if out.exists() else 'nothing was done yet.'}", file=sys.stderr)
        sys.exit(INTERRUPTED)
    first, last = (0, plan.n_runs) if piece is None else find_piece(plan, piece)
    console.print(f"{last - first} runs are in {out}", markup=False, soft_wrap=True)


def merge_folders(out: Path, folders: Sequence[Path]) -> None:
    """Make one study of pieces, or of plans with other settings, and say what is in it."""
    merged = merge_studies(out, folders, read_plan=read_plan)
    numbers = sorted({len(runs) for runs in merged.runs})
    runs = " to ".join(f"{number:,}" for number in dict.fromkeys((numbers[0], numbers[-1])))
    console.print(
        f"{runs} runs of {len(merged.runs)} settings are in {out}", markup=False, soft_wrap=True
    )


def _run_with_bar(plan: Plan, steps: Generator[StudyProgress, None, None]) -> None:
    with closing(steps):
        with _patience("Trying one process of the plan ..."):
            first = next(steps)
        _mention(first)
        with _bar() as bar:
            # Jobs of an earlier call are no part of this one's speed.
            task = bar.add_task(
                plan.name, total=first.n_jobs, completed=first.n_done, rate="starting"
            )
            for progress in steps:
                rate = f"{progress.n_runs_done / progress.seconds:.1f} runs/s"
                bar.update(task, completed=progress.n_done, rate=rate)


@contextmanager
def _patience(text: str) -> Iterator[None]:
    """Say what is going on, at once on a terminal, elsewhere if it takes long."""
    if console.is_terminal:
        with console.status(text):
            yield
        return
    timer = threading.Timer(_LONG, print, args=(text,), kwargs={"file": sys.stderr, "flush": True})
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _bar() -> Bar:
    return Bar(
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
        TextColumn("jobs, {task.fields[rate]}"), TimeRemainingColumn(), console=console,
    )  # fmt: skip


def _mention(first: StudyProgress) -> None:
    """Say what was found in the folder."""
    if first.n_damaged:
        console.print(f"{first.n_damaged} damaged parts are computed again")
    if first.n_done:
        console.print(f"{first.n_done} of {first.n_jobs} jobs are done already")
