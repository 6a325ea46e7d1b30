"""Jobs in processes of this machine: order, failures, and processes that end."""

import math
import multiprocessing
import operator
import os
import signal
import threading
import time

import pytest

from spibb.errors import SettingsError
from spibb.runner import local
from spibb.runner.engines import ENGINES, find_engine
from spibb.runner.jobs import Job, JobError, tell_progress
from spibb.runner.local import run_local


def jobs_of(*arguments):
    return [Job(f"{n:03d}", f"number {n}", args) for n, args in enumerate(arguments)]


@pytest.mark.parametrize("workers", [1, 2, 5, None])
def test_every_job_is_answered_once(workers):
    jobs = jobs_of(*((float(n),) for n in range(12)))
    found = list(run_local(math.sqrt, jobs, workers=workers))
    assert sorted((job.name, result) for job, result in found) == [
        (job.name, math.sqrt(*job.arguments)) for job in jobs
    ]


def told_in_quarters(number):
    """Tell how far it is, as a job that takes long does."""
    for quarter in (1, 2, 3):
        tell_progress(quarter / 4)
    return -number


@pytest.mark.parametrize("workers", [1, 2])
def test_jobs_tell_how_far_they_are(workers):
    jobs, heard = jobs_of((1,), (2,), (3,)), []
    found = run_local(
        told_in_quarters, jobs, lambda job, share: heard.append((job.name, share)), workers=workers
    )
    assert sorted(result for _, result in found) == [-3, -2, -1]
    for job in jobs:
        assert [share for name, share in heard if name == job.name] == [0.25, 0.5, 0.75]


def test_nobody_need_listen():
    assert told_in_quarters(1) == -1
    assert [result for _, result in run_local(told_in_quarters, jobs_of((2,)), workers=1)] == [-2]


def test_no_jobs():
    assert list(run_local(math.sqrt, [], workers=2)) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_a_job_that_raises_is_named(workers):
    with pytest.raises(JobError) as caught:
        list(run_local(math.sqrt, jobs_of((4.0,), (1.0,), (-1.0,)), workers=workers))
    assert str(caught.value) == "job 002 (number 2) failed: ValueError: math domain error."
    assert caught.value.job.name == "002"
    assert "math domain error" in caught.value.trace
    assert "Traceback" in caught.value.trace
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize(
    ("function", "argument", "reason"),
    [
        (os._exit, 3, "its process ended with exit code 3"),
        (signal.raise_signal, signal.SIGKILL, "its process was ended by SIGKILL"),
    ],
)
def test_a_worker_that_dies_names_its_job(function, argument, reason):
    with pytest.raises(JobError, match=rf"job 00[01] \(number [01]\) failed: {reason}"):
        list(run_local(function, jobs_of((argument,), (argument,)), workers=2))
    assert multiprocessing.active_children() == []


def test_a_result_that_cannot_be_sent():
    with pytest.raises(JobError, match="its result cannot be sent"):
        list(run_local(operator.call, jobs_of((threading.Lock,), (threading.Lock,)), workers=2))


def test_leaving_early_ends_the_workers():
    results = run_local(time.sleep, jobs_of((0.0,), *((60.0,) for _ in range(3))), workers=2)
    began = time.monotonic()
    next(results)
    workers = multiprocessing.active_children()
    assert len(workers) == 2
    results.close()
    assert time.monotonic() - began < 30
    assert multiprocessing.active_children() == []


def test_engines_are_found_by_name():
    assert set(ENGINES) >= {"local", "ray"}
    with pytest.raises(SettingsError, match=r"no engine is called 'locl'.*To fix it: use 'local'"):
        find_engine("locl")
    with pytest.raises(SettingsError, match="workers is 0; expected at least 1"):
        find_engine("local", workers=0)
    with pytest.raises(SettingsError, match="add --engine ray to run on a cluster"):
        find_engine("local", address="127.0.0.1:6379")


def test_an_interrupt_waits_until_a_worker_has_started():
    """Where there is another thread, it gets the signal that this one has blocked."""
    is_over = threading.Event()
    threading.Thread(target=is_over.wait, daemon=True).start()
    stages = []

    def start():
        with local._without_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            stages.append("started")

    try:
        with pytest.raises(KeyboardInterrupt):
            start()
    finally:
        is_over.set()
    assert stages == ["started"]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
