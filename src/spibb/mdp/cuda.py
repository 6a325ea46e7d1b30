"""Batches of models on a GPU: one warp evaluates a policy, its matrix in shared memory.

The kernels are those of spibb.mdp.evaluation, compiled for 32 lanes. Values agree with the CPU's to
rounding: only the last substitution adds up in another order.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.gpu import barrier, check_gpu, device_function, numba_cuda
from spibb.errors import SettingsError
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import eliminate, fill_system, update_q_rows

cuda = numba_cuda()

_LANES = 32
# The matrix must fit into the shared memory that a block gets without asking: 48 KB.
_LARGEST = 76


@dataclass(frozen=True, eq=False)
class CudaBatch(ModelBatch):
    """A batch whose policies are evaluated, and improved, on a GPU.

    Its arrays stay here too, for whatever a GPU does not do; attributes as in `ModelBatch`.
    """

    is_on_gpu: ClassVar[bool] = True

    @classmethod
    def of(cls, batch: ModelBatch) -> CudaBatch:
        """Take a batch to the GPU."""
        check_gpu()
        if batch.gamma == 1.0:
            raise SettingsError("gamma is 1 on a GPU", expected="gamma < 1", hint="use the CPU")
        if batch.shape[1] > _LARGEST:
            raise SettingsError(
                f"models of {batch.shape[1]} states on a GPU",
                expected=f"at most {_LARGEST}: a block's shared memory holds one system",
                hint="use the CPU",
            )
        return cls(**{item.name: getattr(batch, item.name) for item in fields(batch)})

    def place(self, array: NDArray[Any]) -> Any:
        """Copy an array to the GPU."""
        return cuda.to_device(np.ascontiguousarray(array))

    def keep(self, array: NDArray[np.float64]) -> Any:
        """Copy an array to the GPU, once."""
        if id(array) not in self._kept:
            # The array is kept too: while it is, no other has its id.
            self._kept[id(array)] = (array, self.place(array))
        return self._kept[id(array)][1]

    def place_kept(self, array: NDArray[np.float64]) -> Any:
        """Copy an array that is on the GPU already, there."""
        copy = cuda.device_array(array.shape)
        copy.copy_to_device(self.keep(array))
        return copy

    @cached_property
    def _kept(self) -> dict[int, tuple[Any, Any]]:
        return {}

    def unknown(self, shape: tuple[int, ...]) -> Any:
        """Return memory on the GPU: with gamma < 1 every value is computed."""
        return cuda.device_array(shape)

    def fetch(self, array: Any) -> NDArray[np.float64]:
        """Copy an array back."""
        return np.asarray(array.copy_to_host())

    @cached_property
    def model(self) -> tuple[Any, ...]:
        """What the kernels take of the models, on the GPU."""
        arrays = (self.indptr, self.indices, self.data, self.reward)
        return (*(self.place(array) for array in arrays), self.gamma)


def update_values_on_gpu(
    batch: Any, policy: Any, problems: NDArray[np.int64], v: Any, q: Any
) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
    """Do as `spibb.mdp.evaluation.update_values` does, on the GPU."""
    ends = np.ones(len(problems), dtype=np.bool_)
    if len(problems) == 0:
        return ends, np.zeros(0), np.zeros(0)
    norms = cuda.device_array((len(problems), 2))
    kernel = _evaluation_kernel(batch.shape[1])
    kernel[len(problems), _LANES](batch.place(problems), *batch.model, policy, v, q, norms)
    change, scale = norms.copy_to_host().T
    return ends, change, scale


@cache
def _evaluation_kernel(n_states: int) -> Any:
    """Compile for one number of states, which fixes the shared memory."""
    fill, solve, write_q, wait = (
        device_function(part) for part in (fill_system, eliminate, update_q_rows, barrier)
    )
    # Rows of odd length lie in different banks: a column is read without waiting.
    shape = (n_states, n_states | 1)

    @cuda.jit
    def kernel(  # type: ignore[no-untyped-def]
        problems, indptr, indices, data, reward, gamma, policy, v, q, norms
    ):
        matrix = cuda.shared.array(shape, np.float64)
        rhs = cuda.shared.array(n_states, np.float64)
        sums = cuda.shared.array((2, _LANES), np.float64)
        place, lane = cuda.blockIdx.x, cuda.threadIdx.x
        problem = problems[place]
        fill(indptr, indices, data, reward[problem], policy[problem], gamma, problem, matrix, rhs,
             lane, _LANES)  # fmt: skip
        solve(matrix, rhs, lane, _LANES)
        wait()
        moved, size = write_q(indptr, indices, data, reward[problem], gamma, problem, rhs,
                              q[problem], lane, _LANES)  # fmt: skip
        for x in range(lane, n_states, _LANES):
            v[problem, x] = rhs[x]
        sums[0, lane] = moved
        sums[1, lane] = size
        wait()
        if lane < 2:
            total = 0.0
            for other in range(_LANES):
                total += sums[lane, other]
            norms[place, lane] = total**0.5

    return kernel
