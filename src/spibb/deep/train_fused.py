"""Train a population in one CUDA kernel: one block trains one member, thousands of steps a launch.

The same steps as spibb.deep.train_cpu, for dense networks with three hidden layers that fit the
shared memory of a multiprocessor (the paper's 4-32-128-32-9 needs 215 KB of 227); `LIMITS` says
what else. fused.cu says how. A member's result does not depend on the population, on the order of
members or on where a training was interrupted, bit for bit: a block sees nothing of the others, and
sums have one fixed order.

Deviations from the other engines, all of the size of float32 rounding: products run on tensor cores
with operands split in two (21 to 22 significant bits), the improvement step is float32 and compares
ratios by cross-multiplication, roots and inverses are the GPU's quick ones (within 2 units in the
last place).

The kernel is compiled when first needed (about two seconds) by NVRTC through cuda-bindings, which
the extra ``gpu`` brings along.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.arrays import checked_device, import_torch
from spibb.deep.engine import Limit, TrainingEngine
from spibb.deep.population import RECIPE, PopulationState, TrainingBatch, TrainingSettings
from spibb.deep.training_data import Records
from spibb.errors import import_extra
from spibb.operators.engine import Engine
from spibb.operators.rows import Operator

Flags = tuple[str, ...]
# Those that fused.cu has in its own words.
_OPERATORS = (
    Operator.GREEDY, Operator.PI_B, Operator.PI_LEQ_B, Operator.SOFT_EXACT, Operator.SOFT_APPROX
)  # fmt: skip
_BATCH, _SPLITS, _N_THREADS = 32, 4, 320
# The kernel counts in 32 bits, and looks two steps ahead.
_MOST_COUNTED = 2**31 - 3
# In this order: shared memory is told for three hidden layers.
LIMITS: tuple[Limit, ...] = (
    ("the number of hidden layers", lambda given: len(given.sizes) - 2, 3, 3),
    ("the number of features", lambda given: given.sizes[0], 1, 4),
    ("the number of actions", lambda given: given.sizes[-1], 1, 9),
    ("batch_size", lambda given: given.settings.batch_size, _BATCH, _BATCH),
    ("target_period", lambda given: given.settings.target_period, 1, _MOST_COUNTED),
    ("annealing_samples", lambda given: given.settings.annealing_samples, 1, _MOST_COUNTED),
    ("the number of steps", lambda given: given.n_steps, 0, _MOST_COUNTED),
    # Of a block on compute capability 9.0; other devices are asked for theirs.
    ("its shared memory in bytes", lambda given: shared_bytes(given.sizes), 0, 232_448),
)


class FusedEngine(TrainingEngine):
    """Trains a population on one GPU, "cuda" or "cuda:0".

    Args:
        trainings: What to train.
        device: Where.
        options: More options for the compiler, for measurements.
    """

    carries = Engine("engine 'fused'", frozenset(_OPERATORS), "engine='cpu' and 'torch' carry more")
    limits = LIMITS
    is_whole = True

    def __init__(self, trainings: TrainingBatch, device: Any = "cuda", options: Flags = ()) -> None:
        super().__init__(trainings, device)
        self._device, recipes = checked_device(device), trainings.recipes
        columns = {name: recipes[name] for name in RECIPE.names or () if name in _KINDS}
        columns |= {"records": packed_records(trainings.records), "last_step": recipes.n_steps}
        # The longest trainings go first, so that none of them is left for the end.
        columns["order"] = np.argsort(-recipes.n_steps, kind="stable")
        self._columns = self._tensors(columns)
        self._kernel = load_function(trainings.sizes, self._device, options)

    @classmethod
    def misfit(cls, trainings: TrainingBatch, device: Any = None) -> str | None:
        """Return the first thing that does not fit, of the trainings or of a GPU; None: it fits."""
        found = super().misfit(trainings)
        if found is not None or device is None:
            return found
        chosen, torch = checked_device(device), import_torch()
        if find_spec("cuda") is None:
            return "cuda-bindings are not installed (spibb[gpu])"
        driver, needed = _binding("driver"), shared_bytes(trainings.sizes)
        torch.cuda.current_stream(chosen)  # makes the context
        place = _ok(driver.cuDeviceGet(chosen.index))
        attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        most = _ok(driver.cuDeviceGetAttribute(attribute, place))
        major, minor = torch.cuda.get_device_capability(chosen)
        if major >= 8 and most >= needed:
            return None
        return (
            f"it needs {needed} bytes of shared memory and tensor cores for tf32, and this GPU has "
            f"{most} bytes and compute capability {major}.{minor}"
        )

    def _tensors(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Return columns on the GPU, in the kinds of number that the kernel reads."""
        torch = import_torch()
        return {
            name: torch.tensor(column.astype(_KINDS[name]), device=self._device)
            for name, column in columns.items()
        }

    def _train(self, state: PopulationState, t: int, n_steps: int) -> None:
        tensors = self._tensors(state.arrays)
        self.launch(tensors, t, n_steps)
        for name, array in state.arrays.items():
            array[:] = tensors[name].cpu().numpy()

    def launch(self, tensors: Mapping[str, Any], t: int, n_steps: int) -> None:
        """Take steps from step ``t`` on with tensors on the GPU, in place.

        Args:
            tensors: params, target and v, shape (R, P), float32, and diverged_at, (R,), int32.
            t: Steps done so far.
            n_steps: Steps to take; a member stops at its own last step.
        """
        columns, trainings = {**self._columns, **tensors}, self._trainings
        places = {name: column.data_ptr() for name, column in columns.items()}
        arguments = Arguments.of(trainings.settings, t, n_steps, places)
        blocks = (len(trainings.members), _N_THREADS)
        launch(self._kernel, blocks, shared_bytes(trainings.sizes), self._device, arguments)


def packed_records(records: Records) -> NDArray[np.float32]:
    """Return one row of 32 numbers for each transition.

    ``[0:d]`` s, ``[d:2d]`` s', ``[8]`` action, ``[9]`` reward, ``[10]`` 1 - terminated, ``[11]``
    N~(s, a), ``[12:12 + A]`` the baseline at s', ``[21:21 + A]`` N~(s', .), the rest 0.
    """
    n_rows, n_features = records.state.shape
    packed = np.zeros((n_rows, 32), dtype=np.float32)
    places = (0, 8, 9, n_features, 10, 11, 12, 21)
    columns = records._replace(terminated=~records.terminated)
    for first, column in zip(places, columns, strict=True):
        table = column.reshape(n_rows, -1)
        packed[:, first : first + table.shape[1]] = table
    return packed


def shared_bytes(sizes: Sequence[int]) -> int:
    """Return the shared memory that one member occupies; fused.cu has the same sums.

    Example:
        >>> shared_bytes((4, 32, 128, 32, 9))
        214512
    """
    rounded = zip(sizes[1:], (32, 64, 32, 8), strict=True)
    first, middle, last, n_q = (-(-size // step) * step for size, step in rounded)
    network = 8 * (first + 4) + (first + 1) * (middle + 4)
    network += (middle + 1) * (last + 4) + (last + 1) * (n_q + 4)
    kept = _BATCH * ((first + 8) + 2 * (middle + 8) + 2 * (last + 8))
    partial = _SPLITS * _BATCH * (max(first, last) + 8)
    small = 3 * _BATCH * 36 + 3 * n_q * 36 + 2 * sizes[-1] * 32 + 2 * 32 + 4
    return 4 * (2 * network + kept + 3 * partial + small)


# What the kernel reads and writes by pointers, and the kinds of number in which it does.
_KINDS = {
    "records": np.float32, "order": np.int32, "first_row": np.int64, "n_rows": np.int32,
    "last_step": np.int32, "seed": np.int64, "operator": np.int32, "is_double": np.int32,
    "kappa": np.float32, "n_wedge": np.float32, "epsilon": np.float32, "params": np.float32,
    "target": np.float32, "v": np.float32, "diverged_at": np.int32,
}  # fmt: skip


class Arguments(ctypes.Structure):
    """The kernel's argument, field by field as fused.cu declares it."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in _KINDS),
        ("learning_rate", ctypes.c_double),
        *((name, ctypes.c_int) for name in ("t0", "n_steps", "target_period", "annealing_samples")),
        *((name, ctypes.c_float) for name in ("gamma", "decay", "fresh", "rms_epsilon", "q_limit")),
    )

    @classmethod
    def of(cls, settings: TrainingSettings, t0: int, n_steps: int, places: dict[str, int]) -> Self:
        """Return the arguments; ``places`` are the pointers, by name."""
        known = [field[0] for field in cls._fields_]
        given = {name: value for name, value in settings.to_config().items() if name in known}
        decay = settings.rms_decay
        return cls(t0=t0, n_steps=n_steps, decay=decay, fresh=1.0 - decay, **given, **places)


def size_macros(sizes: Sequence[int]) -> list[str]:
    """Return the compiler's options that tell fused.cu the sizes."""
    names = ("N_IN", "N_H1", "N_H2", "N_H3", "N_ACT")
    return [f"-D{name}={size}" for name, size in zip(names, sizes, strict=True)]


@cache
def load_function(
    sizes: tuple[int, ...], device: Any, options: Flags = (), name: str = "train", more: str = ""
) -> Any:
    """Return a kernel of fused.cu on a GPU, with the shared memory that networks of a size need.

    Args:
        sizes: Units of each layer.
        device: The GPU.
        options: More options for the compiler.
        name: The kernel's name.
        more: Source that is put at the end.
    """
    driver, nvrtc, torch = _binding("driver"), _binding("nvrtc"), import_torch()
    source = files("spibb.deep").joinpath("fused.cu").read_bytes() + more.encode()
    program = _ok(nvrtc.nvrtcCreateProgram(source, b"fused.cu", 0, [], []))
    major, minor = torch.cuda.get_device_capability(device)
    flags = [f"--gpu-architecture=sm_{major}{minor}", "--std=c++17", *size_macros(sizes), *options]
    encoded = [flag.encode() for flag in flags]
    outcome = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)
    if int(outcome[0]) != 0:
        log = bytes(_ok(nvrtc.nvrtcGetProgramLogSize(program)))
        _ok(nvrtc.nvrtcGetProgramLog(program, log))
        raise RuntimeError(f"fused.cu does not compile:\n{log.decode()}")
    code = bytes(_ok(nvrtc.nvrtcGetCUBINSize(program)))
    _ok(nvrtc.nvrtcGetCUBIN(program, code))
    _ok(nvrtc.nvrtcDestroyProgram(program))
    with torch.cuda.device(device):
        torch.cuda.current_stream(device)  # makes the context
        module = _ok(driver.cuModuleLoadData(code))
        function = _ok(driver.cuModuleGetFunction(module, name.encode()))
        limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        _ok(driver.cuFuncSetAttribute(function, limit, shared_bytes(sizes)))
    return function


def launch(kernel: Any, blocks: tuple[int, int], n_bytes: int, device: Any, arguments: Any) -> None:
    """Launch a kernel that takes one argument, a structure, and wait for it.

    Args:
        kernel: The kernel.
        blocks: Their number, and the threads of each.
        n_bytes: Shared memory of a block.
        device: Where.
        arguments: The structure.
    """
    driver, torch = _binding("driver"), import_torch()
    grid, threads = ((size, 1, 1) for size in blocks)
    places = (ctypes.c_void_p * 1)(ctypes.addressof(arguments))
    with torch.cuda.device(device):
        stream = driver.CUstream(torch.cuda.current_stream(device).cuda_stream)
        given = (n_bytes, stream, ctypes.addressof(places), 0)
        _ok(driver.cuLaunchKernel(kernel, *grid, *threads, *given))
        # What it points to must live until it has been read.
        torch.cuda.synchronize(device)


def _binding(name: str) -> Any:
    """Return a module of cuda-bindings: driver or nvrtc."""
    return import_extra(f"cuda.bindings.{name}", "the fused kernel needs cuda-bindings", "gpu")


def _ok(answer: tuple[Any, ...]) -> Any:
    """Return what a call of cuda-bindings returned besides its status."""
    status, *values = answer
    if int(status) != 0:
        raise RuntimeError(f"a CUDA call failed: {status!r}")
    return values[0] if len(values) == 1 else None
