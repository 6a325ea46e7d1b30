"""Run jobs in processes of this machine.

Results depend neither on the number of workers nor on the order in which they finish. Every worker
has a pipe of its own, over which it gets one job at a time: a worker that dies is known at once,
and so is the job that it died of. Workers leave when this process does, however it ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing import connection, resource_tracker
from typing import Any

from spibb.compiled.threads import n_threads
from spibb.runner.jobs import (
    BLAS_VARIABLE,
    THREADS_VARIABLE,
    Answer,
    Job,
    JobError,
    Listener,
    attempt,
    describe,
    environment,
    settle,
)

# A forked child would inherit the locks of this process's threads; a spawned one starts clean.
_CONTEXT = multiprocessing.get_context("spawn")


def run_local(
    function: Callable[..., Any],
    jobs: Sequence[Job],
    listener: Listener = lambda job, share: None,
    *,
    workers: int | None = None,
) -> Iterator[tuple[Job, Any]]:
    """Yield (job, result) as jobs finish.

    Args:
        function: A function that other processes can import.
        jobs: What to call it with.
        listener: Is told how far jobs are.
        workers: Processes; None: one for each core; 1 runs here, on all cores where a kernel can.
    """
    n_workers = min(n_threads() if workers is None else workers, len(jobs))
    if n_workers > 1:
        yield from _run_in_processes(function, jobs, listener, n_workers)
        return
    for job in jobs:
        yield settle(job, attempt(function, job.arguments, partial(listener, job)))


def _run_in_processes(
    function: Callable[..., Any], jobs: Sequence[Job], listener: Listener, n_workers: int
) -> Iterator[tuple[Job, Any]]:
    waiting = iter(jobs)
    workers: list[_Worker] = []
    try:
        for job in (next(waiting) for _ in range(n_workers)):
            workers.append(_Worker(function, job))
        busy: dict[Any, _Worker] = {worker.pipe: worker for worker in workers}
        while busy:
            for pipe in connection.wait(list(busy)):
                worker = busy[pipe]
                done, answer = worker.job, worker.take()
                if not isinstance(answer, Answer):
                    listener(done, answer)
                    continue
                following = next(waiting, None)
                # The next job goes out before this one is stored, so that the worker need not wait.
                if following is None or answer.reason:
                    del busy[pipe]
                else:
                    worker.give(following)
                yield settle(done, answer)
    finally:
        for worker in workers:
            worker.stop()


class _Worker:
    """A process and the pipe to it."""

    def __init__(self, function: Callable[..., Any], job: Job) -> None:
        self.pipe, theirs = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_serve, args=(theirs, function), daemon=True)
        # More than one BLAS thread in each process would fight over the cores.
        with _without_interrupts(), environment({BLAS_VARIABLE: "1"}):
            self.process.start()
        theirs.close()  # so that the end of the process ends the pipe
        self.give(job)

    def give(self, job: Job) -> None:
        """Hand over a job; the worker is waiting for one, so that this does not block."""
        self.job = job
        try:
            self.pipe.send(job.arguments)
        except OSError:
            raise self._loss() from None

    def take(self) -> Answer | float:
        """Return the answer to the job at hand, or which part of it is done."""
        try:
            answer: Answer | float = self.pipe.recv()
        except (EOFError, OSError):
            raise self._loss() from None
        return answer

    def stop(self) -> None:
        """End the process now: what it computes can be computed again."""
        self.process.kill()
        self.process.join()
        self.pipe.close()

    def _loss(self) -> JobError:
        self.process.join(timeout=5)
        code = self.process.exitcode
        if code is not None and code < 0:
            return JobError(
                self.job,
                f"its process was ended by {signal.Signals(-code).name}, "
                "perhaps because memory ran out",
            )
        return JobError(
            self.job,
            f"its process ended with exit code {code}; a script that runs a study must do so "
            'under `if __name__ == "__main__":`',
        )


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Keep Ctrl-C from processes started meanwhile: this one decides when they end.

    Their mask is this thread's. But any other thread may be handed the signal, and Python would
    raise here all the same, between a process's start and what it is told; so it waits.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # starting it would undo the mask
    with _later(signal.SIGINT):
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _later(number: signal.Signals) -> Iterator[None]:
    """Answer a signal that comes meanwhile afterwards, as it would have been answered."""
    handler = signal.getsignal(number)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # no other thread answers signals
        return
    came: list[Any] = []
    signal.signal(number, lambda _, frame: came.append(frame))
    try:
        yield
    finally:
        signal.signal(number, handler)
    if came:
        handler(number, came[0])


def _serve(pipe: Any, function: Callable[..., Any]) -> None:
    """Answer jobs until the pipe is closed."""
    os.environ[THREADS_VARIABLE] = "1"
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    while True:
        try:
            arguments = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(attempt(function, arguments, pipe.send))
        except OSError:
            return
        except Exception as error:
            pipe.send(Answer(reason=f"its result cannot be sent ({describe(error)})"))


def _leave_with_parent() -> None:
    """End this process when its parent is gone: a killed study leaves no workers behind."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
