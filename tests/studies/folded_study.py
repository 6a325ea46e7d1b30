"""A quick study of made-up scores, run here, in processes, or killed at any step that it takes.

As a program: ``folded_study.py run FOLDER WORKERS`` runs it, and ``folded_study.py kill FOLDER``
runs it again and again, killed once and then once more at every step that touches the disk, and
prints how many steps there were and in how many of the studies a file was not as it should be.
"""

import itertools
import json
import os
import sys
import time
from pathlib import Path

import numpy as np

from spibb.runner.jobs import Job
from spibb.runner.local import run_local
from spibb.runner.store import to_bytes
from spibb.studies.plan import Setting
from spibb.studies.random_mdps.plans import RandomMDPPlan
from spibb.studies.results.cell_aggregates import Retention
from spibb.studies.results.cells import to_rows
from spibb.studies.results.recording import Recorder

CONFIG = {"algorithm": "basic-rl"}
SETTINGS = (Setting("Basic RL", CONFIG), Setting("RaMDP", CONFIG, "RaMDP", "kappa", 0.003))
PLAN = RandomMDPPlan(
    name="made-up", seed=1, n_runs=80, runs_per_job=8, eta=(0.9, 0.1),
    trajectories=(10, 100), max_steps=50, second_goal=1.0, settings=SETTINGS,
)  # fmt: skip


class KeptPlan(RandomMDPPlan):
    """A plan of a kind that needs every row."""

    keeps_rows = True


# Small enough that a study of eighty runs is folded several times.
KEEPING = Retention(rows=10, share=0.1, least=5, every=20)


def make_rows(plan, first, last):
    """Return made-up rows of some runs; equal scores are frequent, and some are large."""
    # A setting scores the same in a plan that has others.
    seeds = [sum(map(ord, setting.label)) for setting in plan.settings]
    scores = []
    for run in range(first, last):
        drawn = [np.random.default_rng([plan.seed, run, seed]).normal(size=plan.shape[:-1])
                 for seed in seeds]  # fmt: skip
        scores.append(np.round(np.stack(drawn, axis=-1), run % 3) * 10 ** (run % 7 - 3))
    return to_rows(plan, range(first, last), {"score": np.array(scores, dtype=np.float32)})


def record(plan, folder, *, order=None, piece=None, keeping=KEEPING, resume=True):
    """Run what is left of a study here, its jobs finishing in some order."""
    with Recorder.open(plan, folder, resume=resume, piece=piece, keeping=keeping) as recorder:
        whole, _ = recorder.finished()
        left = [job for job in recorder.jobs if job[0] not in whole]
        for name, first, last in left if order is None else order(left):
            recorder.write(name, make_rows(plan, first, last))
    return folder


def slow_rows(plan, first, last):
    time.sleep(0.03)
    return make_rows(plan, first, last)


def run_in_processes(folder, workers):
    with Recorder.open(PLAN, folder, resume=True, keeping=KEEPING) as recorder:
        whole, _ = recorder.finished()
        jobs = [Job(name, name, (PLAN, *runs)) for name, *runs in recorder.jobs]
        left = [job for job in jobs if job.name not in whole]
        for job, table in run_local(slow_rows, left, workers=workers):
            recorder.write(job.name, table)


def content(folder):
    """Return the bytes of every file below a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def _nearly_in_order(jobs):
    """Let a job finish after one or two that began later, as those of several workers do."""
    late = np.arange(len(jobs)) + np.random.default_rng(3).uniform(0, 3, len(jobs))
    return [jobs[place] for place in np.argsort(late)]


def _in_child(folder, kill_at):
    """Run in a child that ends at a step; return whether it came to the end."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    steps = itertools.count(1)

    def watch(event, arguments):
        changes = event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir")
        if (changes or (event == "open" and arguments[1] == "wb")) and next(steps) == kill_at:
            os._exit(9)

    sys.addaudithook(watch)
    try:
        record(PLAN, folder, order=_nearly_in_order)
        os._exit(0)
    finally:
        os._exit(1)


def kill_at_every_step(folder):
    to_bytes(make_rows(PLAN, 0, 1))  # imports what every child would import anew
    _in_child(folder / "whole", 0)
    expected, n_wrong = content(folder / "whole"), 0
    for step in itertools.count(1):
        out = folder / f"{step}"
        if _in_child(out, step):
            break
        _in_child(out, 1 + 7 * step % 23)
        n_wrong += not _in_child(out, 0) or content(out) != expected
    print(json.dumps({"steps": step - 1, "wrong": n_wrong}))


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run_in_processes(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        kill_at_every_step(Path(sys.argv[2]))
