"""The only list of studies, and how one is run."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spibb.errors import SettingsError
from spibb.runner.engines import find_engine
from spibb.runner.jobs import Engine, Job, JobError
from spibb.runner.store import Store
from spibb.studies.plan import Plan
from spibb.studies.random_mdps import plans as random_mdps
from spibb.studies.random_mdps.run import run_job as run_random_mdps
from spibb.tables import nearest

# What computes a job: (plan, first run, run after the last) -> table. Importable, so that other
# processes and machines can be told by name.
JOBS: dict[str, Callable[[Plan, int, int], Any]] = {"random-mdps": run_random_mdps}
PLANS: dict[str, Plan] = {**random_mdps.PLANS}


@dataclass(frozen=True)
class Progress:
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
            plan = Plan.from_toml(Path(name).read_text(encoding="utf-8"))
        except OSError as error:
            raise SettingsError(f"cannot read the plan {name}: {error.strerror}") from None
    else:
        near = nearest(name, PLANS)
        raise SettingsError(
            f"no plan is called {name!r}",
            expected=f"one of {', '.join(PLANS)}, or a .toml file",
            hint=f"use {near!r}" if near else None,
        )
    if plan.study not in JOBS:
        raise SettingsError(f"no study is called {plan.study!r}", expected=", ".join(JOBS))
    return plan if n_runs is None else replace(plan, n_runs=n_runs)


def run_study(
    plan: Plan,
    out: Path,
    *,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
    resume: bool = False,
) -> Generator[Progress, None, None]:
    """Run the jobs that are not done yet, and tell the progress after each.

    Args:
        plan: What to run.
        out: The study's folder.
        engine: Who computes: "local" (processes of this machine) or "ray" (a cluster).
        workers: Jobs at a time; None: one for each core.
        address: The cluster of the engine "ray"; None: that of ``RAY_ADDRESS``, or one of its own.
        resume: Go on with an earlier run of the same plan; an absent folder is begun.
    """
    compute = find_engine(engine, workers=workers, address=address)
    with Store.open(out, plan.to_toml(), resume=resume) as store:
        yield from _run_left(plan, store, compute)


def rerun(folder: Path, job: str) -> Any:
    """Compute a job of a study again, here, and return its rows; nothing is stored.

    Args:
        folder: The study's folder.
        job: The job's id, which is the name of its part.
    """
    plan = Plan.from_toml(Store(Path(folder)).plan())
    jobs = {name: (first, last) for name, first, last in plan.jobs()}
    if job not in jobs:
        raise SettingsError(f"the study has no job {job!r}", expected=f"{min(jobs)} to {max(jobs)}")
    return JOBS[plan.study](plan, *jobs[job])


def _run_left(plan: Plan, store: Store, compute: Engine) -> Generator[Progress, None, None]:
    """Compute the jobs without a whole part, and store each as it comes."""
    jobs = [_job(plan, *facts) for facts in plan.jobs()]
    whole, damaged = store.finished()
    left = [job for job in jobs if job.name not in whole]
    n_done, n_runs, began = len(jobs) - len(left), 0, time.monotonic()
    yield Progress(n_done, len(jobs), n_runs, len(damaged), 0.0)
    with closing(_computed(store, compute, JOBS[plan.study], left)) as results:
        for job, table in results:
            store.write(job.name, table)
            _, first, last = job.arguments
            n_done, n_runs = n_done + 1, n_runs + last - first
            seconds = time.monotonic() - began
            yield Progress(n_done, len(jobs), n_runs, len(damaged), seconds)


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
