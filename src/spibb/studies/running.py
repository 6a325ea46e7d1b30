"""How a study is run: jobs that are not done yet, computed by an engine, recorded as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from spibb.errors import SettingsError
from spibb.runner.engines import find_engine
from spibb.runner.jobs import Engine, Job, JobError, Listener
from spibb.runner.store import PLAN_FILE, Store
from spibb.studies.plan import Plan
from spibb.studies.registry import STUDIES, read_plan
from spibb.studies.results.cells import to_rows
from spibb.studies.results.recording import Recorder, find_piece
from spibb.studies.study import Study


class StudyProgress(NamedTuple):
    """How far a study is.

    Attributes:
        n_done: Jobs done, earlier ones included.
        n_jobs: Jobs in all.
        n_runs_done: Runs computed by this call.
        n_damaged: Parts of an earlier call that are damaged and so computed again.
        seconds: Since this call began.
        job: Name of the job that was done last.
    """

    n_done: int
    n_jobs: int
    n_runs_done: int
    n_damaged: int
    seconds: float
    job: str = ""


def run_job(run: Callable[..., Any], plan: Plan, first: int, last: int, **options: Any) -> pa.Table:
    """Compute runs and return their rows.

    Args:
        run: What the study computes them by.
        plan: The plan.
        first: The first run.
        last: The run after the last.
        options: Further arguments of ``run``: the device.
    """
    runs = range(first, last)
    return to_rows(plan, runs, run(plan, runs, **options))


def compute_rows(plan: Plan, first: int, last: int, **options: Any) -> pa.Table:
    """Compute runs of a plan, here, and return their rows."""
    return run_job(STUDIES[plan.study].run, plan, first, last, **options)


def run_study(
    plan: Plan,
    out: Path,
    *,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
    resume: bool = False,
    piece: str | None = None,
    listener: Listener = lambda job, share: None,
) -> Generator[StudyProgress, None, None]:
    """Run the jobs that are not done yet, and tell the progress after each.

    Args:
        plan: What to run.
        out: The study's folder.
        engine: Who computes: "local" (processes of this machine), "ray" (a cluster) or "cuda"
            (processes of this machine that share its GPU).
        workers: Jobs at a time; None: one for each core.
        address: The cluster of the engine "ray"; None: that of ``RAY_ADDRESS``, or one of its own.
        resume: Go on with an earlier run of the same plan; an absent folder is begun.
        piece: Such as "2/4": the second quarter only, to be merged with the others later.
        listener: Is told how far a job is, where that is known between its begin and its end.
    """
    study = STUDIES[plan.study]
    _check_rules(plan, Path(out))
    if resume and (Path(out) / PLAN_FILE).exists():
        begun = read_plan(Store(Path(out)).plan())
        if begun.study == plan.study:  # but perhaps under other rules
            _check_rules(begun, Path(out))
    is_cuda = engine == "cuda"
    if is_cuda and not study.on_gpu:
        raise SettingsError(
            f"the study {plan.study!r} with the engine 'cuda'",
            expected=", ".join(name for name, one in STUDIES.items() if one.on_gpu),
            hint="use the engine 'local'",
        )
    for setting in plan.settings:
        setting.build()
    study.check(plan)
    n_jobs = study.gpu_workers if is_cuda and workers is None else workers
    compute = find_engine(engine, workers=n_jobs, address=address)
    if is_cuda:
        study.gpu_needs()
    runs = None if piece is None else find_piece(plan, piece)
    with Recorder.open(plan, out, resume=resume, piece=runs) as recorder:
        yield from _run_left(study, recorder, compute, listener)
        study.finish(plan, recorder.store.folder)


def rerun(folder: Path, job: str | int) -> Any:
    """Compute a job of a study again, here, and return its rows; nothing is stored.

    Args:
        folder: The study's folder.
        job: The job's id, which is the name of its part; or the number of a run, for its rows only.
    """
    plan = read_plan(Store(Path(folder)).plan())
    _check_rules(plan, Path(folder))
    if isinstance(job, int):
        if not 0 <= job < plan.n_runs:
            raise SettingsError(f"the study has no run {job}", expected=f"0 to {plan.n_runs - 1}")
        return compute_rows(plan, job, job + 1)
    jobs = {name: runs for name, *runs in plan.jobs()}
    if job not in jobs:
        raise SettingsError(f"the study has no job {job!r}", expected=f"{min(jobs)} to {max(jobs)}")
    return compute_rows(plan, *jobs[job])


def _check_rules(plan: Plan, folder: Path) -> None:
    if plan.rules != plan.present_rules:
        odd = f"follows rules {plan.rules}"
        expected = f"rules {plan.present_rules}, by which this version computes"
    elif plan.version1:
        odd, expected = "is of version 1", "one that was begun by this version"
    else:
        return
    raise SettingsError(
        f"the study {plan.name} in {folder} {odd}",
        expected=expected,
        hint="run it in another folder; this one can still be read, merged and drawn",
    )


def _run_left(
    study: Study, recorder: Recorder, compute: Engine, listener: Listener
) -> Generator[StudyProgress, None, None]:
    """Compute the jobs that are not done, and keep the rows of each as they come."""
    jobs = [_job(recorder.plan, *facts) for facts in recorder.jobs]
    whole, damaged = recorder.finished()
    left = [job for job in jobs if job.name not in whole]
    n_done, n_runs, began = len(jobs) - len(left), 0, time.monotonic()
    yield StudyProgress(n_done, len(jobs), n_runs, len(damaged), 0.0)
    compute_left = partial(compute, partial(run_job, study.run), left, listener)
    with closing(_computed(recorder.store, compute_left)) as results:
        for job, table in results:
            recorder.write(job.name, table)
            _, first, last = job.arguments
            n_done, n_runs = n_done + 1, n_runs + last - first
            seconds = time.monotonic() - began
            yield StudyProgress(n_done, len(jobs), n_runs, len(damaged), seconds, job.name)


def _computed(
    store: Store, compute: Callable[[], Iterator[tuple[Job, Any]]]
) -> Generator[tuple[Job, Any], None, None]:
    """Yield what the engine yields; where a job fails, say how to see it fail alone."""
    try:
        yield from compute()
    except JobError as error:
        call = f"rerun({str(store.folder)!r}, {error.job.name!r})"
        alone = f'python -c "from spibb.studies.running import rerun; {call}"'
        rest = "what is done is kept, and --resume goes on with the rest"
        hint = f"see it fail alone with {alone}; {rest}"
        raise JobError(error.job, error.reason, trace=error.trace, hint=hint) from error


def _job(plan: Plan, name: str, first: int, last: int) -> Job:
    title = f"run {first}" if last == first + 1 else f"runs {first} to {last - 1}"
    return Job(name, title, (plan, first, last))
