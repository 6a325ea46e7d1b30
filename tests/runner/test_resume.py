"""Studies that are killed, interrupted or fail, and go on."""

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from counting_study import COUNTING, CountingPlan
from running import SMOKE, TINY, content, descendants, run_all, wait_for

from spibb.algorithms.hcpi import HCPI
from spibb.errors import SettingsError
from spibb.runner.jobs import JobError
from spibb.runner.store import Store
from spibb.studies.plan import Setting
from spibb.studies.registry import STUDIES
from spibb.studies.running import rerun, run_study

# Every stage with one worker and with two; ``make kills`` kills far more often.
N_KILLS = 6


def kill_now(process):
    """End a process in the middle of what it does; return those that it had started."""
    process.send_signal(signal.SIGSTOP)
    started = descendants(process.pid)
    assert process.poll() is None, "the study was over before it was killed"
    process.kill()
    process.communicate(timeout=60)
    return started


def test_killed_again_and_again_and_resumed(tiny, tiny_result):
    moments = random.Random(20190711)
    n_seen = set()
    for n_kills in range(N_KILLS):
        n_before = tiny.n_parts()
        process = tiny.start("--resume", workers=1 + n_kills % 2)
        if n_kills % 3 == 0:  # while it starts, reads its folder, starts its workers
            time.sleep(moments.uniform(0.0, 1.5))
        else:
            n_after = n_before + moments.randint(1, 4)
            wait_for(lambda n=n_after: tiny.n_parts() >= n, what="parts")
            time.sleep(moments.uniform(0.0, 0.04))
        for other in kill_now(process):
            wait_for(lambda one=other: not one.is_alive, seconds=20, what=f"the end of {other}")
        n_seen.add(tiny.n_parts())
    assert len(n_seen) > N_KILLS / 2, "the kills came at different stages"
    process = tiny.start("--resume")
    _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, "")
    assert content(tiny.out) == tiny_result


@pytest.mark.parametrize(("workers", "moment"), [(1, "work"), (2, "start")])
def test_ctrl_c_ends_promptly_and_can_be_resumed(tiny, tiny_result, workers, moment):
    process = tiny.start(workers=workers)
    if moment == "work":
        wait_for(lambda: tiny.n_parts() >= 3, what="parts")
    else:
        wait_for(lambda: len(descendants(process.pid)) >= 3, what="workers")
    started = descendants(process.pid)
    began = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to every process of the group
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - began < 10
    assert process.returncode == 130
    command = shlex.join(
        ["spibb", "study", "run", str(tiny.plan), "--out", str(tiny.out), f"--workers={workers}"]
    )
    assert errors == (
        f"Interrupted: what is done is kept in {tiny.out}. Go on with: {command} --resume\n"
    )
    for other in started:
        wait_for(lambda one=other: not one.is_alive, seconds=20, what=f"the end of {other}")
    assert not list(tiny.out.rglob("*.unfinished"))
    assert tiny.n_parts() < len(TINY.jobs())
    again = [sys.executable, "-m", "spibb", *shlex.split(command)[1:], "--resume"]
    done = subprocess.run(again, capture_output=True, text=True, timeout=120, check=True)
    assert "jobs are done already" in done.stdout or moment == "start"
    assert content(tiny.out) == tiny_result


def test_a_process_that_is_killed_leaves_its_lock(tiny):
    process = tiny.start(workers=1)
    wait_for(lambda: tiny.n_parts() >= 1, what="a part")
    process.send_signal(signal.SIGSTOP)  # or it could be over before the other begins
    other = tiny.start("--resume", workers=1)
    _, errors = other.communicate(timeout=60)
    assert other.returncode == 2
    assert errors.startswith(f"Error: another process is at work in {tiny.out}.")
    kill_now(process)
    assert run_all(TINY, tiny.out, workers=1, resume=True)[-1].n_done == len(TINY.jobs())


@pytest.fixture
def counting(monkeypatch):
    monkeypatch.setitem(STUDIES, "counting", COUNTING)
    return CountingPlan(
        name="counted", seed=1, n_runs=8, runs_per_job=2, steps=(3,), settings=SMOKE.settings[:1]
    )


@pytest.mark.parametrize("workers", [1, 2])
def test_a_job_that_fails_is_named_and_the_rest_is_kept(tmp_path, counting, workers):
    out = tmp_path / "study"
    with pytest.raises(JobError) as caught:
        run_all(counting, out, workers=workers)
    message = str(caught.value)
    assert message.startswith(
        "job 0000004 (runs 4 to 5) failed: ArithmeticError: run 5 of seed 1 cannot be counted. "
        "To fix it: see it fail alone with python -c "
    )
    assert message.endswith("what is done is kept, and --resume goes on with the rest.")
    assert (
        f"""python -c "from spibb.studies.running import rerun; rerun('{out}', '0000004')";"""
        in (message)
    )
    with pytest.raises(ArithmeticError, match="cannot be counted"):
        rerun(out, "0000004")
    kept = content(out)
    assert set(kept) <= {
        "plan.toml", *(f"parts/000000{first}.parquet" for first in (0, 2, 6)),
    }  # fmt: skip
    assert workers == 2 or len(kept) == 3
    with pytest.raises(JobError, match="job 0000004"):
        run_all(counting, out, workers=workers, resume=True)
    assert kept.items() <= content(out).items()


def test_a_study_that_fails_on_the_command_line(tiny):
    """One trajectory is not enough to hold some out."""
    plan = replace(TINY, trajectories=(1,), settings=(Setting.of("HCPI", HCPI()),))
    tiny.plan.write_text(plan.to_toml(), "utf-8")
    process = tiny.start()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert len(errors.splitlines()) == 1
    assert "failed: 1 episodes leave 0 to train on; expected at least 2" in errors
    assert "--resume goes on with the rest" in errors


def test_any_job_can_be_made_again(tmp_path):
    out = tmp_path / "study"
    run_all(SMOKE, out, workers=1)
    shutil.copytree(out, tmp_path / "copy")
    table = rerun(tmp_path / "copy", "0000006")
    with Store.open(tmp_path / "again", SMOKE.to_toml(), resume=False) as store:
        store.write("0000006", table)
    name = "parts/0000006.parquet"
    assert content(tmp_path / "again")[name] == content(out)[name]
    assert content(tmp_path / "copy") == content(out)
    with pytest.raises(SettingsError, match="no job '0000007'; expected 0000000 to 0000006"):
        rerun(out, "0000007")


def test_progress_counts_earlier_jobs_but_not_their_runs(tmp_path):
    progress = run_study(SMOKE, tmp_path / "study", workers=1)
    for _ in range(3):
        next(progress)
    progress.close()
    steps = run_all(SMOKE, tmp_path / "study", workers=1, resume=True)
    assert [(step.n_done, step.n_jobs, step.n_runs_done) for step in steps] == [
        (2, 4, 0), (3, 4, 2), (4, 4, 4),
    ]  # fmt: skip
    assert steps[-1].seconds > 0


def test_plans_are_listed(tiny):
    command = [sys.executable, "-m", "spibb", "study", "list", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    listed = json.loads(done.stdout)
    assert listed["random-mdps-smoke"]["fingerprint"] == SMOKE.fingerprint
