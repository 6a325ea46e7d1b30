"""Compile the CPU's kernels for a GPU, from the very same source.

A function for the GPU is the CPU's Python function with the compiled functions that it calls
exchanged for their GPU versions. Kernels for lanes call `barrier` where all lanes must be done
before any goes on. Needs the extra ``gpu``.
"""

from __future__ import annotations

import types
from functools import cache
from typing import Any

import numba
import numpy as np
from numba.core.registry import CPUDispatcher

from spibb.compiled.jit import jit
from spibb.errors import SettingsError, import_extra


@jit
def barrier():  # type: ignore[no-untyped-def]
    """Wait until every lane is here: one lane need not; on a GPU, the barrier of a block."""


@cache
def numba_cuda() -> Any:
    """Return numba.cuda, or say what to install."""
    # numba-cuda registers a name that NumPy 2.5 has dropped, not before it compiles: it must stay.
    if not hasattr(np, "row_stack"):
        np.row_stack = np.vstack  # noqa: NPY201
    cuda = import_extra("numba.cuda", "a GPU needs numba-cuda", "gpu")
    # A few rows do not fill a GPU; that is no reason to warn.
    numba.config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # type: ignore[attr-defined]
    return cuda


def check_gpu() -> None:
    """Refuse work for a GPU where there is none."""
    if not numba_cuda().is_available():
        raise SettingsError(
            "no GPU that CUDA can use was found", hint="use the CPU, or check the GPU's driver"
        )


@cache
def device_function(function: Any) -> Any:
    """Compile a CPU function, and those it calls, for use inside GPU kernels."""
    cuda = numba_cuda()
    source = _wait if function is barrier else function.py_func
    names = {**source.__globals__, "cuda": cuda}
    for name in source.__code__.co_names:
        if isinstance(names.get(name), CPUDispatcher):
            names[name] = device_function(names[name])
    twin = types.FunctionType(source.__code__, names, source.__name__, source.__defaults__)
    return cuda.jit(device=True)(twin)


def _wait() -> None:
    """Wait for the other lanes; where a block is one warp, this costs next to nothing."""
    cuda.syncthreads()  # type: ignore[name-defined]  # noqa: F821 - device_function knows it
