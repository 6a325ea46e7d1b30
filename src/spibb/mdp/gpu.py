"""Compile the CPU's kernels for a GPU, from the very same source.

A function for the GPU is the CPU's Python function with the compiled functions that it calls
exchanged for their GPU versions. Needs the extra ``gpu``.
"""

from __future__ import annotations

import types
from functools import cache
from typing import Any

import numpy as np
from numba.core.registry import CPUDispatcher

from spibb.errors import MissingDependencyError, SettingsError

# Functions whose GPU version is another function altogether.
TWINS: dict[Any, Any] = {}


@cache
def numba_cuda() -> Any:
    """Return numba.cuda, or say what to install."""
    # numba-cuda asks for a name that NumPy 2.5 has dropped.
    if not hasattr(np, "row_stack"):
        np.row_stack = np.vstack  # noqa: NPY201
    try:
        from numba import config, cuda
    except ImportError:
        raise MissingDependencyError(
            "a GPU needs numba-cuda", hint='run: pip install "spibb[gpu]"'
        ) from None
    # A few rows do not fill a GPU; that is no reason to warn.
    config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # type: ignore[attr-defined]
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
    if function in TWINS:
        return TWINS[function]
    source = function.py_func
    names = {**source.__globals__}
    for name in source.__code__.co_names:
        if isinstance(names.get(name), CPUDispatcher):
            names[name] = device_function(names[name])
    twin = types.FunctionType(source.__code__, names, source.__name__, source.__defaults__)
    return numba_cuda().jit(device=True)(twin)
