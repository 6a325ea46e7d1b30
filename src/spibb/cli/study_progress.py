"""A bar that tells how far a study is, its rate and the time left."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from spibb.cli.printing import console
from spibb.runner.jobs import Job, Listener
from spibb.studies.plan import Plan
from spibb.studies.running import StudyProgress

# Seconds after which somebody wonders.
_LONG = 3.0
_Steps = Generator[StudyProgress, None, None]


def run_with_bar(plan: Plan, run: Callable[[Listener], _Steps]) -> None:
    """Let a study run to its end, and show how far it is.

    Args:
        plan: The plan.
        run: Begins the study, given who is told how far single jobs are.
    """
    shares: dict[str, float] = {}  # of jobs that are under way
    n_done = 0

    def listen(job: Job, share: float) -> None:
        shares[job.name] = share
        bar.update(task, completed=n_done + sum(shares.values()))

    with closing(run(listen)) as steps:
        with _patience("Trying one process of the plan ..."):
            first = next(steps)
        _mention(first)
        with _bar() as bar:
            # Jobs of an earlier call are no part of this one's speed.
            n_done = first.n_done
            task = bar.add_task(plan.name, total=first.n_jobs, completed=n_done, rate="starting")
            for progress in steps:
                n_done = progress.n_done
                shares.pop(progress.job, None)
                rate = f"{progress.n_runs_done / progress.seconds:.1f} runs/s"
                bar.update(task, completed=n_done + sum(shares.values()), rate=rate)


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


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False), BarColumn(),
        TextColumn("{task.completed:.3g} of {task.total} jobs, {task.fields[rate]}"),
        TimeRemainingColumn(), console=console,
    )  # fmt: skip


def _mention(first: StudyProgress) -> None:
    """Say what was found in the folder."""
    if first.n_damaged:
        console.print(f"{first.n_damaged} damaged parts are computed again")
    if first.n_done:
        console.print(f"{first.n_done} of {first.n_jobs} jobs are done already")
