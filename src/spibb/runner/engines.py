"""The only list of engines: who computes the jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from spibb.errors import SettingsError
from spibb.names import nearest
from spibb.runner.jobs import Engine, Job, Listener
from spibb.runner.local import run_local


def _local(workers: int | None, address: str | None) -> Engine:
    _check_address("local", address)
    return partial(run_local, workers=workers)


def _cuda(workers: int | None, address: str | None) -> Engine:
    """Processes of this machine, which draw and keep its one GPU busy between them."""
    from spibb.compiled.gpu import check_gpu

    _check_address("cuda", address)
    check_gpu()

    def engine(
        function: Callable[..., Any], jobs: Sequence[Job], listener: Listener
    ) -> Iterator[tuple[Job, Any]]:
        return run_local(partial(function, device="cuda"), jobs, listener, workers=workers)

    return engine


def _check_address(engine: str, address: str | None) -> None:
    if address is not None:
        raise SettingsError(
            f"the engine {engine!r} with the address {address!r}",
            expected="no address",
            hint="add --engine ray to run on a cluster",
        )


def _ray(workers: int | None, address: str | None) -> Engine:
    from spibb.runner.ray_engine import require_ray, run_ray

    require_ray()
    return partial(run_ray, workers=workers, address=address)


ENGINES: dict[str, Callable[[int | None, str | None], Engine]] = {
    "local": _local,
    "ray": _ray,
    "cuda": _cuda,
}


def find_engine(name: str, *, workers: int | None = None, address: str | None = None) -> Engine:
    """Return an engine, ready to be given a function and jobs.

    Args:
        name: "local", "ray" or "cuda".
        workers: Jobs at a time; None: as many as there are cores.
        address: The cluster of the engine "ray".
    """
    if workers is not None and workers < 1:
        raise SettingsError(f"workers is {workers}", expected="at least 1")
    if name not in ENGINES:
        near = nearest(name, ENGINES)
        raise SettingsError(
            f"no engine is called {name!r}",
            expected=f"one of {', '.join(ENGINES)}",
            hint=f"use {near!r}" if near else None,
        )
    return ENGINES[name](workers, address)
