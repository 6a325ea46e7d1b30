"""Run jobs on a Ray cluster (extra ``ray``): many machines, or this one.

Jobs are pure functions, so Ray may compute one again elsewhere when its node is lost: that costs
the unfinished jobs of the node and nothing else. Short jobs travel together, since a task below
about 50 ms costs more to send than to compute. Every node needs the same spibb.

Ray asks for a token. A cluster that is started here listens on 127.0.0.1 only, and has a token of
its own that is never written down; for another, the token is found where Ray itself looks:
``RAY_AUTH_TOKEN``, the file ``RAY_AUTH_TOKEN_PATH``, or ``~/.ray/auth_token``.
"""

from __future__ import annotations

import importlib
import math
import os
import secrets
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from spibb.errors import MissingDependencyError, SettingsError
from spibb.runner.jobs import (
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

# A lost node costs each of its tasks one retry; a job that kills its worker every time must end.
_RETRIES = 4
# Tasks for each core: one to compute, one that waits, so that no core does.
_TASKS_PER_CORE = 2
_SHORTEST_TASK = 0.05
# Seconds that a cluster may take to answer at all.
_PATIENCE = 10
_TOKEN_PLACES = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


def run_ray(
    function: Callable[..., Any],
    jobs: Sequence[Job],
    listener: Listener = lambda job, share: None,
    *,
    workers: int | None = None,
    address: str | None = None,
) -> Iterator[tuple[Job, Any]]:
    """Yield (job, result) as jobs finish.

    Args:
        function: A function that the nodes can import.
        jobs: What to call it with.
        listener: Is told nothing: what happens inside of a job stays on its node.
        workers: Tasks at a time; None: as many as the cluster has cores.
        address: Of a running cluster: HOST:PORT, or "auto" for the one on this machine. None: that
            of ``RAY_ADDRESS``; without it, a cluster is started here and ended afterwards.
    """
    require_ray()
    if not jobs:
        return
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    # Ray reads these when it is imported, and gives them to the processes it starts.
    with environment(_private_cluster() if address == "local" else _found_token()):
        ray = importlib.import_module("ray")
        with _connected(ray, address, workers):
            yield from _run_on_cluster(ray, function, jobs, workers)


def require_ray() -> None:
    """Say how to install the package where it is not."""
    if find_spec("ray") is None:
        raise MissingDependencyError(
            "the engine 'ray' needs the package ray", hint='run pip install "spibb[ray]"'
        )


def jobs_per_task(seconds: float, *, n_left: int, n_tasks: int) -> int:
    """Return how many jobs travel together.

    Args:
        seconds: What one job takes.
        n_left: Jobs not yet sent.
        n_tasks: Tasks that the cluster takes at a time: near the end there is a share for each.

    >>> jobs_per_task(0.01, n_left=1_000, n_tasks=4)
    5
    >>> jobs_per_task(0.01, n_left=8, n_tasks=4)
    2
    """
    enough = math.ceil(_SHORTEST_TASK / max(seconds, 1e-6))
    return max(1, min(enough, math.ceil(n_left / n_tasks)))


def _run_on_cluster(
    ray: Any, function: Callable[..., Any], jobs: Sequence[Job], workers: int | None
) -> Iterator[tuple[Job, Any]]:
    remote = ray.remote(_compute).options(num_cpus=1, max_retries=_RETRIES)
    waiting, running = deque(jobs), dict[Any, list[Job]]()
    # Until the first answer is there nobody knows how long a job takes: it travels alone.
    fastest = _SHORTEST_TASK
    try:
        while waiting or running:
            n_tasks = workers or _TASKS_PER_CORE * _n_cores(ray)
            while waiting and len(running) < n_tasks:
                size = jobs_per_task(fastest, n_left=len(waiting), n_tasks=n_tasks)
                batch = [waiting.popleft() for _ in range(size)]
                running[remote.remote(function, [job.arguments for job in batch])] = batch
            (done,), _ = ray.wait(list(running), num_returns=1)
            batch = running.pop(done)
            answers, seconds = _collect(ray, done, batch)
            fastest = min(fastest, seconds / len(batch))
            # A job that failed is the last of its batch to have been computed.
            for job, answer in zip(batch, answers, strict=False):
                yield settle(job, answer)
    finally:
        for task in running:
            ray.cancel(task, force=True)


def _compute(
    function: Callable[..., Any], batch: list[tuple[Any, ...]]
) -> tuple[list[Answer], float]:
    """Compute some jobs, on a node of the cluster; also return the seconds it took."""
    os.environ[THREADS_VARIABLE] = "1"
    began = time.perf_counter()
    answers = []
    for arguments in batch:
        answers.append(attempt(function, arguments))
        if answers[-1].reason:
            break
    return answers, time.perf_counter() - began


def _collect(ray: Any, task: Any, batch: list[Job]) -> tuple[list[Answer], float]:
    """Fetch what a task returned; what kept it from returning names its first job."""
    try:
        answers, seconds = ray.get(task)
    except ray.exceptions.RayError as error:
        reason = f"no node of the cluster could compute it ({describe(error)})"
        raise JobError(batch[0], reason) from error
    return answers, seconds


def _n_cores(ray: Any) -> int:
    """Return the cores of the nodes that are alive now; nodes may come and go."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


@contextmanager
def _connected(ray: Any, address: str, workers: int | None) -> Iterator[None]:
    """Connect to a cluster or start one; a connection that was there before stays."""
    if ray.is_initialized():
        yield
        return
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address == "local":
        options |= {"num_cpus": workers, "include_dashboard": False}
    try:
        _knock(address)
        ray.init(address=address, **options)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        aim = "start ray here" if address == "local" else f"reach the ray cluster at {address}"
        raise SettingsError(
            f"cannot {aim}: {describe(error).rstrip('.')}",
            hint="check the address; where the cluster asks for a token, set RAY_AUTH_MODE=token "
            "and RAY_AUTH_TOKEN_PATH to the token file of its nodes",
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Fail at once where nobody listens: Ray itself would go on trying for many minutes."""
    host, _, port = address.rpartition(":")
    if host and "/" not in host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()


def _private_cluster() -> dict[str, str]:
    """Return what keeps a cluster on this machine to this machine and to this process.

    Ray would listen on every network, and write its token where all users can read it.
    """
    found = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # its word for 127.0.0.1, on any system
    if not any(os.environ.get(place) for place in _TOKEN_PLACES):
        found["RAY_AUTH_TOKEN"] = _own_token()
    return found | {"RAY_AUTH_MODE": "token"}


@cache
def _own_token() -> str:
    """Return the token of the clusters that this process starts: Ray remembers the first."""
    return secrets.token_hex(32)


def _found_token() -> dict[str, str]:
    """Show a token that is there: Ray does so by itself only on clusters that it finds itself."""
    has_token = any(os.environ.get(place) for place in _TOKEN_PLACES)
    if "RAY_AUTH_MODE" in os.environ:
        return {}
    has_token |= (Path.home() / ".ray" / "auth_token").exists()
    return {"RAY_AUTH_MODE": "token"} if has_token else {}
