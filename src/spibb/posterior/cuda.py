"""Models drawn, and policies evaluated in them, on a GPU: the CPU's kernels compiled for it.

A thread draws a pair of a model, a warp evaluates a policy in it, its system in shared memory. What
is drawn is the CPU's to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.gpu import device_function, numba_cuda
from spibb.compiled.random_numbers import MODELS, numbers
from spibb.data.hazards import Hazards
from spibb.data.outcomes import Outcomes
from spibb.mdp.evaluation import eliminate
from spibb.posterior.draws import DrawnHazards, Draws, Surroundings, draw_pair, layout
from spibb.posterior.performance import LARGEST_DISCOUNT, fill

cuda = numba_cuda()

Array = NDArray[np.float64]

_LANES = 32
_THREADS = 128


class Placed:
    """What a log leaves possible, on the GPU.

    Args:
        outcomes: What followed in the log.
        around: What is expected beside it.
    """

    def __init__(self, outcomes: Outcomes, around: Surroundings) -> None:
        self._outcomes, self._around = outcomes, around
        self._there = _placed(outcomes), _placed(around)

    def performances(
        self,
        policies: Array,
        initial: Array,
        gamma: float,
        *,
        numbered: Sequence[int],
        seed: int,
        hazards: Hazards | None,
        is_choosing: bool,
    ) -> Array:
        """Do as `draw_models` and `spibb.posterior.performance.performances` do."""
        shape, n_models = self._outcomes.n_sa.shape, len(numbered)
        indptr = layout(self._outcomes, self._around, is_careful=hazards is not None)
        draws = Draws(
            cuda.to_device(indptr),
            cuda.device_array((n_models, indptr[-1]), np.int32),
            cuda.device_array((n_models, indptr[-1])),
            cuda.device_array((n_models, *shape)),
        )
        worse = _placed(DrawnHazards.of(hazards, shape, numbered, seed, is_choosing))
        states = cuda.to_device(numbers(seed, MODELS, np.asarray(numbered)))
        n_threads = n_models * shape[0] * shape[1]
        own = _zeros(n_threads, shape[0] + 1)
        n_blocks = -(-n_threads // _THREADS)
        _drawing_kernel()[n_blocks, _THREADS](states, *self._there, worse, draws, own)
        found = cuda.device_array((len(policies), n_models))
        given = cuda.to_device(policies), cuda.to_device(initial)
        kernel = _evaluation_kernel(shape[0])
        kernel[found.shape, _LANES](draws, *given, min(gamma, LARGEST_DISCOUNT), found)
        return np.asarray(found.copy_to_host())


def _placed(facts: Any) -> Any:
    """Copy the arrays of a tuple, and of tuples in it, to the GPU."""
    if isinstance(facts, np.ndarray):
        return cuda.to_device(np.ascontiguousarray(facts))
    return type(facts)(*map(_placed, facts)) if hasattr(facts, "_fields") else facts


@cache
def _zeros(n_threads: int, n_outcomes: int) -> Any:
    """Return scratch that every thread leaves as it finds it."""
    return cuda.to_device(np.zeros((n_threads, n_outcomes)))


@cache
def _drawing_kernel() -> Any:
    draw = device_function(draw_pair)

    @cuda.jit
    def kernel(states, outcomes, around, worse, draws, own):  # type: ignore[no-untyped-def]
        thread = cuda.grid(1)
        n_states, n_actions = outcomes.n_sa.shape
        if thread < len(states) * n_states * n_actions:
            rng = cuda.local.array(1, np.uint64)
            place, pair = divmod(thread, n_states * n_actions)
            x, a = divmod(pair, n_actions)
            draw(place, x, a, states, outcomes, around, worse, draws, own[thread], rng)

    return kernel


@cache
def _evaluation_kernel(n_states: int) -> Any:
    """Compile for one number of states, which fixes the shared memory."""
    write, solve = device_function(fill), device_function(eliminate)
    # Rows of odd length lie in different banks: a column is read without waiting.
    shape = (n_states, n_states | 1)

    @cuda.jit
    def kernel(draws, policies, initial, gamma, found):  # type: ignore[no-untyped-def]
        matrix = cuda.shared.array(shape, np.float64)
        v = cuda.shared.array(n_states, np.float64)
        c, place, lane = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x
        write(draws, place, policies[c], gamma, matrix, v, lane, _LANES)
        solve(matrix, v, lane, _LANES)
        cuda.syncthreads()
        if lane == 0:
            total = 0.0
            for x in range(n_states):
                total += initial[place, x] * v[x]
            found[c, place] = total

    return kernel
