"""Run jobs in processes of this machine.

Each job is a pure function of the plan and its own number, so results depend neither on the number
of workers nor on the order in which they finish. A worker's own threads are switched off: the
processes share the cores already.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from typing import Any

from spibb.mdp.parallel import n_threads


def run_local(
    function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]], *, workers: int | None = None
) -> Iterator[tuple[int, Any]]:
    """Yield (place of the job, result) as jobs finish.

    Args:
        function: A function that other processes can import.
        jobs: Its arguments, one tuple for each job.
        workers: Processes; None: one for each core; 1 runs here.
    """
    n_workers = n_threads() if workers is None else workers
    if n_workers == 1 or len(jobs) <= 1:
        for place, job in enumerate(jobs):
            yield place, function(*job)
        return
    # A forked child would inherit the locks of this process's threads; a spawned one starts clean.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        n_workers, mp_context=context, initializer=_settle, initargs=(os.getpid(),)
    ) as pool:
        waiting = iter(enumerate(jobs))
        running = {}
        for _ in range(2 * n_workers):  # a queue short enough that an interrupt is quick
            for place, job in waiting:
                running[pool.submit(function, *job)] = place
                break
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield running.pop(future), future.result()
                for place, job in waiting:
                    running[pool.submit(function, *job)] = place
                    break


def _settle(parent: int) -> None:
    """Use one core, and leave when the parent is gone: a killed study leaves no workers behind."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        number = multiprocessing.current_process()._identity
        os.sched_setaffinity(0, {cores[(number[-1] if number else 0) % len(cores)]})

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
