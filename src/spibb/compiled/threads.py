"""Spread a batch over the cores with threads.

The compiled kernels release the interpreter's lock, so plain threads suffice: no second
threading runtime, nothing to compile twice, and results that do not depend on the number of
threads because every problem of a batch is computed on its own.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Below this many problems the threads cost more than they save.
_SMALLEST_SHARED_BATCH = 32
# Several chunks a thread even out problems that take different numbers of steps.
_CHUNKS_PER_THREAD = 4
_NAME = "spibb-worker"


def n_threads() -> int:
    """Return the number of cores this process may use; ``SPIBB_THREADS`` may lower it."""
    cores = _n_cores()
    chosen = os.environ.get("SPIBB_THREADS", "")
    return min(cores, max(1, int(chosen))) if chosen.isdecimal() else cores


def _n_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def over_chunks(
    function: Callable[[NDArray[np.int64]], Any],
    items: NDArray[np.int64],
    *,
    are_long: bool = False,
) -> None:
    """Call ``function`` on chunks of ``items``, in threads if there are enough.

    Args:
        function: What is to be done with a chunk.
        items: What is shared out, in consecutive chunks.
        are_long: Each item is worth a thread; they come in the order of their length, and each
            chunk has some of every length.
    """
    workers, n_items = n_threads(), len(items)
    # A thread of the pool that waits for others of it might wait for ever: it works itself.
    is_nested = threading.current_thread().name.startswith(_NAME)
    if workers == 1 or is_nested or n_items < (2 if are_long else _SMALLEST_SHARED_BATCH):
        function(items)
        return
    n_chunks = min(n_items, workers * _CHUNKS_PER_THREAD)
    chunks = np.array_split(items, n_chunks)
    if are_long:
        chunks = [np.ascontiguousarray(items[k::n_chunks]) for k in range(n_chunks)]
    for _ in _pool(os.getpid(), workers).map(function, chunks):
        pass


@lru_cache(maxsize=1)
def _pool(process: int, workers: int) -> ThreadPoolExecutor:
    """Return this process's threads; a forked child, which has none of them, makes its own."""
    return ThreadPoolExecutor(max_workers=workers, thread_name_prefix=_NAME)
