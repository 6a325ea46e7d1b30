"""The same row functions on a GPU, one thread a row, for torch tensors that live there.

Numba compiles a row function for the GPU from the very source that it compiles for the CPU; only
the row functions it calls have to be exchanged for their GPU versions. Needs the extra ``gpu``.
"""

from __future__ import annotations

import types
from functools import cache
from typing import Any

import numpy as np
from numba.core.registry import CPUDispatcher

from spibb.errors import MissingDependencyError
from spibb.operators.rows import Operator, step_row

_THREADS = 128


def step_tensors(
    operator: Operator, q: Any, baseline: Any, errors: Any, epsilon: Any, side: Any
) -> Any:
    """Apply an operator to rows on the GPU.

    Args:
        operator: Which operator.
        q: Tensor (N, A) of float64 on a GPU; the others likewise.
        baseline: Probabilities of the baseline.
        errors: Errors.
        epsilon: Budgets, shape (N,).
        side: The baseline's Q, where the operator wants it.

    Returns:
        The new rows, on the same GPU.
    """
    import torch

    n_rows, n_actions = q.shape
    out = torch.empty_like(q)
    if n_rows == 0:
        return out
    # Only one operator needs scratch rows.
    n_work = n_rows if operator is Operator.ADV_EXACT else 1
    work = torch.empty((n_work, 4, n_actions), dtype=q.dtype, device=q.device)
    cuda = _numba_cuda()
    with torch.cuda.device(q.device):
        # The kernel must wait for what torch has queued on its current stream.
        stream = cuda.external_stream(torch.cuda.current_stream().cuda_stream)
        arrays = [cuda.as_cuda_array(part) for part in (q, baseline, errors, epsilon, side)]
        results = [cuda.as_cuda_array(part) for part in (out, work)]
        blocks = (n_rows + _THREADS - 1) // _THREADS
        _kernel()[blocks, _THREADS, stream](int(operator), *arrays, *results)
    return out


@cache
def _numba_cuda() -> Any:
    # numba-cuda asks for a name that NumPy 2.5 has dropped.
    if not hasattr(np, "row_stack"):
        np.row_stack = np.vstack  # noqa: NPY201
    try:
        from numba import config, cuda
    except ImportError:
        raise MissingDependencyError(
            "operators on a GPU need numba-cuda", hint='run: pip install "spibb[gpu]"'
        ) from None
    # A few rows do not fill a GPU; that is no reason to warn.
    config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # type: ignore[attr-defined]
    return cuda


@cache
def _kernel() -> Any:
    cuda = _numba_cuda()
    row = device_function(step_row)

    @cuda.jit
    def kernel(operator, q, baseline, errors, epsilon, side, out, work):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < q.shape[0]:
            row(operator, q[i], baseline[i], errors[i], epsilon[i], side[i], out[i],
                work[min(i, work.shape[0] - 1)])  # fmt: skip

    return kernel


@cache
def device_function(function: Any) -> Any:
    """Compile a CPU row function, and those it calls, for use inside GPU kernels."""
    source = function.py_func
    names = {**source.__globals__}
    for name in source.__code__.co_names:
        if isinstance(names.get(name), CPUDispatcher):
            names[name] = device_function(names[name])
    twin = types.FunctionType(source.__code__, names, source.__name__, source.__defaults__)
    return _numba_cuda().jit(device=True)(twin)
