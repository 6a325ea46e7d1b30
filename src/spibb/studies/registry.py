"""The only list of studies, and how one is run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spibb.errors import SettingsError
from spibb.runner.local import run_local
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
        seconds: Since this call began.
    """

    n_done: int
    n_jobs: int
    n_runs_done: int
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
    plan: Plan, out: Path, *, workers: int | None = None, resume: bool = False
) -> Iterator[Progress]:
    """Run the jobs that are not done yet, and tell the progress after each.

    Args:
        plan: What to run.
        out: The study's folder.
        workers: Processes; None: one for each core.
        resume: Go on with an earlier run of the same plan; an absent folder is begun.
    """
    if workers is not None and workers < 1:
        raise SettingsError(f"workers is {workers}", expected="at least 1")
    store = Store.create(out, plan.to_toml(), resume=resume)
    jobs = plan.jobs()
    left = [job for job in jobs if not store.has(job[0])]
    n_before, began, n_runs = len(jobs) - len(left), time.monotonic(), 0
    yield Progress(n_before, len(jobs), 0, 0.0)
    arguments = [(plan, first, last) for _, first, last in left]
    for n_done, (place, table) in enumerate(
        run_local(JOBS[plan.study], arguments, workers=workers), start=1
    ):
        name, first, last = left[place]
        store.write(name, table)
        n_runs += last - first
        yield Progress(n_before + n_done, len(jobs), n_runs, time.monotonic() - began)
