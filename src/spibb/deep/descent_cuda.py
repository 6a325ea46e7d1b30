"""One step of RMSProp for a population on a GPU, in one pass over its memory.

As torch operations it is eight passes, a quarter of a training step. Needs the extra ``gpu``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from spibb.compiled.gpu import numba_cuda

cuda = numba_cuda()

_THREADS = 256


def descend(tensors: Sequence[Any], *, decay: float, epsilon: float) -> None:
    """Change parameters and mean squares, shape (R, P), in place; members that diverged stay.

    Args:
        tensors: Parameters, running means of squared gradients, gradients, shape (R, P); learning
            rates, shape (R,); where a member diverged, shape (R,), -1: nowhere.
        decay: Weight of the old mean square.
        epsilon: Added to the root.
    """
    import torch

    # The kernel must wait for what torch has queued, and be captured where torch captures.
    stream = cuda.external_stream(torch.cuda.current_stream().cuda_stream)
    arrays = [cuda.as_cuda_array(part) for part in tensors]
    launch(arrays, decay=decay, epsilon=epsilon, stream=stream)


def launch(arrays: Sequence[Any], *, decay: float, epsilon: float, stream: Any) -> None:
    """Launch the kernel on arrays in the order of `descend`."""
    n_members, n_parameters = arrays[0].shape
    blocks = (n_members, (n_parameters + _THREADS - 1) // _THREADS)
    numbers = np.float32(decay), np.float32(1.0 - decay), np.float32(epsilon)
    _kernel[blocks, _THREADS, stream](*arrays, *numbers)


@cuda.jit
def _kernel(params, v, gradient, rate, diverged_at, decay, fresh, epsilon):  # type: ignore[no-untyped-def]
    m = cuda.blockIdx.x
    i = cuda.blockIdx.y * cuda.blockDim.x + cuda.threadIdx.x
    if i < params.shape[1] and diverged_at[m] < 0:
        g = gradient[m, i]
        mean = decay * v[m, i] + fresh * g * g
        v[m, i] = mean
        params[m, i] -= rate[m] * g / (math.sqrt(mean) + epsilon)
