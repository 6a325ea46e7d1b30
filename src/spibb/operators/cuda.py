"""The same row functions on a GPU, one thread a row: for torch tensors, and in policy iteration.

Each thread has scratch of its own, so where rows have many actions a thread takes several rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.gpu import device_function, numba_cuda
from spibb.operators.rows import Operator, improve_row, step_row
from spibb.operators.sorting import FEW

cuda = numba_cuda()

_THREADS = 128
# Threads that have scratch for many actions: 4 GB of it at 5,000 actions.
_SORTING_THREADS = 16_384


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
    # A pointer to something, also for operators without scratch.
    n_work = max(1, operator.needs.scratch(n_actions))
    n_threads = _number_of_threads(n_rows, n_actions)
    work = torch.empty((n_threads, n_work, n_actions), dtype=q.dtype, device=q.device)
    with torch.cuda.device(q.device):
        # The kernel must wait for what torch has queued on its current stream.
        stream = cuda.external_stream(torch.cuda.current_stream().cuda_stream)
        arrays = [cuda.as_cuda_array(part) for part in (q, baseline, errors, epsilon, side)]
        results = [cuda.as_cuda_array(part) for part in (out, work)]
        launch(operator, arrays, results, stream=stream)
    return out


def launch(
    operator: Operator, arrays: Sequence[Any], results: Sequence[Any], *, stream: Any
) -> None:
    """Launch the kernel on arrays in the order of `step_tensors`; results are rows and scratch."""
    _kernel()[_blocks(results[1]), _THREADS, stream](int(operator), *arrays, *results)


def _number_of_threads(n_rows: int, n_actions: int) -> int:
    return n_rows if n_actions <= FEW else min(n_rows, _SORTING_THREADS)


def _blocks(work: Any) -> int:
    """Return blocks of threads, one for each that has scratch."""
    return int((work.shape[0] + _THREADS - 1) // _THREADS)


@cache
def _kernel() -> Any:
    row = device_function(step_row)

    @cuda.jit
    def kernel(operator, q, baseline, errors, epsilon, side, out, work):  # type: ignore[no-untyped-def]
        thread = cuda.grid(1)
        if thread < work.shape[0]:
            for i in range(thread, q.shape[0], work.shape[0]):
                row(operator, q[i], baseline[i], errors[i], epsilon[i], side[i], out[i],
                    work[thread])  # fmt: skip

    return kernel


def improve_problems_on_gpu(
    operator: Operator, problems: NDArray[np.int64], *arrays: Any
) -> NDArray[np.bool_]:
    """Do as `spibb.operators.rows.improve_problems` does.

    Arrays are q, baseline, errors, epsilon, side and policy; those of (B, S, A) are on the GPU.
    """
    _, n_states, n_actions = arrays[-1].shape
    n_threads = _number_of_threads(len(problems) * n_states, n_actions)
    work = cuda.device_array((n_threads, 1 + operator.needs.scratch(n_actions), n_actions))
    changed = cuda.to_device(np.zeros(len(problems), dtype=np.bool_))
    _improvement_kernel()[_blocks(work), _THREADS](
        int(operator), cuda.to_device(problems), *arrays, work, changed
    )
    return np.asarray(changed.copy_to_host())


@cache
def _improvement_kernel() -> Any:
    improve = device_function(improve_row)

    @cuda.jit
    def kernel(  # type: ignore[no-untyped-def]
        operator, problems, q, baseline, errors, epsilon, side, policy, work, changed
    ):
        thread = cuda.grid(1)
        if thread < work.shape[0]:
            for i in range(thread, len(problems) * policy.shape[1], work.shape[0]):
                place = i // policy.shape[1]
                x = i - place * policy.shape[1]
                k = problems[place]
                if improve(operator, q[k, x], baseline[k, x], errors[k, x], epsilon, side[k, x],
                           policy[k, x], work[thread, 0], work[thread, 1:]):  # fmt: skip
                    changed[place] = True

    return kernel
