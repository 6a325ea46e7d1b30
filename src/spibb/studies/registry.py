"""The only list of studies, and how one is run."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spibb.compiled.arrays import import_torch
from spibb.errors import SettingsError
from spibb.names import nearest
from spibb.runner.engines import find_engine
from spibb.runner.jobs import Engine, Job, JobError
from spibb.runner.store import PLAN_FILE, Store
from spibb.studies.complexity import plan as complexity
from spibb.studies.complexity.run import run_job as run_complexity
from spibb.studies.complexity.timings import ensure_timings
from spibb.studies.finite import plans as finite
from spibb.studies.finite.plan import FinitePlan
from spibb.studies.finite.run import run_job as run_finite
from spibb.studies.helicopter import plan as helicopter
from spibb.studies.helicopter.run import check_plan as check_helicopter
from spibb.studies.helicopter.run import run_job as run_helicopter
from spibb.studies.plan import Plan, read_toml
from spibb.studies.random_mdps import plans as random_mdps
from spibb.studies.random_mdps.draws import check_plan as check_random_mdps
from spibb.studies.random_mdps.run import run_job as run_random_mdps
from spibb.studies.recording import Recorder, find_piece

# A study of many runs has larger jobs, which keep a GPU busy: about so many jobs, of so many runs.
_N_JOBS, _LARGEST_JOB = 200, 50


@dataclass(frozen=True)
class Study:
    """What the runner knows of a study.

    Attributes:
        run: Computes a job: (plan, first run, run after the last) -> table. Importable, so that
            other processes and machines can be told by name.
        plans: The plans that ship with it, by name.
        kind: How a plan is read.
        on_gpu: Whether ``run`` takes ``device="cuda"``.
        gpu_workers: Jobs at a time with the engine "cuda" where nobody says; None: one for each
            core, where what surrounds the GPU's work needs them.
        gpu_needs: Imports what ``device="cuda"`` needs beyond the engine, or says what it is.
        check: Refuses a plan whose jobs could not run, before a folder is made.
        finish: What is done when all jobs are, with the plan and the folder; safe to repeat.
    """

    run: Callable[..., Any]
    plans: dict[str, Plan]
    kind: type[Plan] = Plan
    on_gpu: bool = False
    gpu_workers: int | None = None
    gpu_needs: Callable[[], Any] | None = None
    check: Callable[[Any], None] | None = None
    finish: Callable[[Any, Path], None] | None = None


STUDIES: dict[str, Study] = {
    "random-mdps": Study(run_random_mdps, random_mdps.PLANS, on_gpu=True, check=check_random_mdps),
    "finite": Study(run_finite, dict(finite.PLANS), FinitePlan, check=Plan.build_settings),
    "complexity": Study(
        run_complexity,
        dict(complexity.PLANS),
        complexity.ComplexityPlan,
        check=Plan.build_settings,
        finish=ensure_timings,
    ),
    "helicopter": Study(
        run_helicopter,
        dict(helicopter.PLANS),
        helicopter.HelicopterPlan,
        on_gpu=True,
        gpu_workers=1,
        gpu_needs=import_torch,
        check=check_helicopter,
    ),
}
PLANS: dict[str, Plan] = {
    name: plan for study in STUDIES.values() for name, plan in study.plans.items()
}


@dataclass(frozen=True)
class StudyProgress:
    """How far a study is.

    Attributes:
        n_done: Jobs done, earlier ones included.
        n_jobs: Jobs in all.
        n_runs_done: Runs computed by this call.
        n_damaged: Parts of an earlier call that are damaged and so computed again.
        seconds: Since this call began.
    """

    n_done: int
    n_jobs: int
    n_runs_done: int
    n_damaged: int
    seconds: float


def find_plan(name: str, n_runs: int | None = None) -> Plan:
    """Return a plan by name, or read it from a TOML file; with another number of runs if given."""
    if name in PLANS:
        plan = PLANS[name]
    elif name.endswith(".toml"):
        try:
            if Path(name).exists() and not Path(name).is_file():
                raise SettingsError(f"cannot read the plan {name}: it is no file")
            plan = read_plan(Path(name).read_text(encoding="utf-8"))
            # A plan to be run is run by the present rules, whenever it was written.
            plan = replace(plan, rules=plan.present_rules)
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise SettingsError(f"cannot read the plan {name}: {reason}") from None
    else:
        near = nearest(name, PLANS)
        raise SettingsError(
            f"no plan is called {name!r}",
            expected=f"one of {', '.join(PLANS)}, or a .toml file",
            hint=f"use {near!r}" if near else None,
        )
    if n_runs is None:
        return plan
    per_job = max(plan.runs_per_job, min(n_runs // _N_JOBS, _LARGEST_JOB))
    return replace(plan, n_runs=n_runs, runs_per_job=per_job)


def read_plan(text: str) -> Plan:
    """Read a plan of any study from TOML."""
    name = read_toml(text).get("study")
    if not isinstance(name, str) or name not in STUDIES:
        raise SettingsError(f"no study is called {name!r}", expected=", ".join(STUDIES))
    return STUDIES[name].kind.from_toml(text)


def run_study(
    plan: Plan,
    out: Path,
    *,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
    resume: bool = False,
    piece: str | None = None,
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
    """
    study = STUDIES[plan.study]
    _check_same_rules(plan, Path(out), resume=resume)
    if engine == "cuda" and not study.on_gpu:
        raise SettingsError(
            f"the study {plan.study!r} with the engine 'cuda'",
            expected=", ".join(name for name, one in STUDIES.items() if one.on_gpu),
            hint="use the engine 'local'",
        )
    if engine == "cuda" and workers is None:
        workers = study.gpu_workers
    if study.check is not None:
        study.check(plan)
    compute = find_engine(engine, workers=workers, address=address)
    if engine == "cuda" and study.gpu_needs is not None:
        study.gpu_needs()
    runs = None if piece is None else find_piece(plan, piece)
    with Recorder.open(plan, out, resume=resume, piece=runs) as recorder:
        yield from _run_left(study, recorder, compute)
        if study.finish is not None:
            study.finish(plan, recorder.store.folder)


def rerun(folder: Path, job: str | int) -> Any:
    """Compute a job of a study again, here, and return its rows; nothing is stored.

    Args:
        folder: The study's folder.
        job: The job's id, which is the name of its part; or the number of a run, for its rows only.
    """
    plan = read_plan(Store(Path(folder)).plan())
    _check_rules(plan, Path(folder))
    run = STUDIES[plan.study].run
    if isinstance(job, int):
        if not 0 <= job < plan.n_runs:
            raise SettingsError(f"the study has no run {job}", expected=f"0 to {plan.n_runs - 1}")
        return run(plan, job, job + 1)
    jobs = {name: (first, last) for name, first, last in plan.jobs()}
    if job not in jobs:
        raise SettingsError(f"the study has no job {job!r}", expected=f"{min(jobs)} to {max(jobs)}")
    return run(plan, *jobs[job])


def _check_same_rules(plan: Plan, out: Path, *, resume: bool) -> None:
    """Refuse to go on with a study that was begun under other rules."""
    _check_rules(plan, out)
    store = Store(out)
    if resume and (out / PLAN_FILE).exists():
        begun = read_plan(store.plan())
        if begun.study == plan.study:
            _check_rules(begun, out)


def _check_rules(plan: Plan, folder: Path) -> None:
    if plan.rules != plan.present_rules:
        raise SettingsError(
            f"the study {plan.name} in {folder} follows rules {plan.rules}",
            expected=f"rules {plan.present_rules}, by which this version computes",
            hint="run it in another folder; this one can still be read, merged and drawn",
        )


def _run_left(
    study: Study, recorder: Recorder, compute: Engine
) -> Generator[StudyProgress, None, None]:
    """Compute the jobs that are not done, and keep the rows of each as they come."""
    jobs = [_job(recorder.plan, *facts) for facts in recorder.jobs]
    whole, damaged = recorder.finished()
    left = [job for job in jobs if job.name not in whole]
    n_done, n_runs, began = len(jobs) - len(left), 0, time.monotonic()
    yield StudyProgress(n_done, len(jobs), n_runs, len(damaged), 0.0)
    with closing(_computed(recorder.store, compute, study.run, left)) as results:
        for job, table in results:
            recorder.write(job.name, table)
            _, first, last = job.arguments
            n_done, n_runs = n_done + 1, n_runs + last - first
            seconds = time.monotonic() - began
            yield StudyProgress(n_done, len(jobs), n_runs, len(damaged), seconds)


def _computed(
    store: Store, compute: Engine, function: Callable[..., Any], jobs: list[Job]
) -> Generator[tuple[Job, Any], None, None]:
    """Yield what the engine yields; where a job fails, say how to see it fail alone."""
    try:
        yield from compute(function, jobs)
    except JobError as error:
        call = f"rerun({str(store.folder)!r}, {error.job.name!r})"
        raise JobError(
            error.job,
            error.reason,
            trace=error.trace,
            hint="see it fail alone with "
            f'python -c "from spibb.studies.registry import rerun; {call}"; '
            "what is done is kept, and --resume goes on with the rest",
        ) from error


def _job(plan: Plan, name: str, first: int, last: int) -> Job:
    title = f"run {first}" if last == first + 1 else f"runs {first} to {last - 1}"
    return Job(name, title, (plan, first, last))
