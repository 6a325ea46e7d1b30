"""Train a population in one CUDA kernel: one block trains one member, thousands of steps a launch.

The same steps as spibb.deep.train_cpu, for dense networks with three hidden layers that fit the
shared memory of a multiprocessor (the paper's 4-32-128-32-9 needs 215 KB of 227), batches of 32, at
most 4 features and 9 actions. fused.cu says how. A member's result does not depend on the
population, on the order of members or on where a training was interrupted, bit for bit: a block
sees nothing of the others, and sums have one fixed order.

Deviations from the other engines, all of the size of float32 rounding: products run on tensor cores
with operands split in two (21 to 22 significant bits), the improvement step is float32 and compares
ratios by cross-multiplication, roots and inverses are the GPU's quick ones (within 2 units in the
last place).

The kernel is compiled when first needed (about two seconds) by NVRTC through cuda-bindings, which
the extra ``gpu`` brings along.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.arrays import checked_device, import_torch, is_tensor
from spibb.deep.network import n_parameters
from spibb.deep.population import (
    PopulationState,
    Recipes,
    Records,
    Trainings,
    TrainingSettings,
)
from spibb.errors import MissingDependencyError, SettingsError
from spibb.operators.engine import Engine
from spibb.operators.rows import Operator

# Those that fused.cu has in its own words.
_OPERATORS = (
    Operator.GREEDY, Operator.PI_B, Operator.PI_LEQ_B, Operator.SOFT_EXACT, Operator.SOFT_APPROX
)  # fmt: skip
ENGINE = Engine("engine 'fused'", frozenset(_OPERATORS), "engine='cpu' and 'torch' carry more")
RECORD = 32
BATCH_SIZE = 32
MOST_FEATURES, MOST_ACTIONS = 4, 9
# Of a block on compute capability 9.0; other devices are asked for theirs.
_SHARED_BYTES = 232_448
_SPLITS, _MMA_WARPS = 4, 8
_N_THREADS = 32 * (_MMA_WARPS + 2)
# The kernel counts in 32 bits, and looks two steps ahead.
_MOST_COUNTED = 2**31 - 3


class Trained(NamedTuple):
    """What :func:`train_fused` returns; torch tensors on the GPU.

    Attributes:
        params: Online parameters, shape (R, P), float32.
        target: Target parameters, likewise.
        v: RMSProp's mean squares, likewise.
        diverged_at: Step at which a member was stopped, or -1, shape (R,), int32.
        curves: Loss and mean max Q of the minibatches of steps 0, record_every, ...; shape
            (R, points, 2), NaN where a member took no step. Empty without ``record_every``.
    """

    params: Any
    target: Any
    v: Any
    diverged_at: Any
    curves: Any


class FusedEngine:
    """Trains a population on one GPU.

    Args:
        trainings: What to train.
        device: "cuda" or "cuda:0".
    """

    def __init__(self, trainings: Trainings, device: str = "cuda") -> None:
        ENGINE.check_carried(trainings.operators)
        self._device = _checked_device(device)
        check_fit(trainings.sizes, trainings.settings, trainings.n_steps)
        records = packed_records(trainings.records)
        self._records = import_torch().as_tensor(records, device=self._device)

    def advance(
        self, trainings: Trainings, state: PopulationState, n_steps: int
    ) -> PopulationState:
        """Return the state after ``n_steps`` more steps; a member that ends earlier stays there."""
        done = train_fused(
            self._records,
            trainings.recipes,
            (state.params, state.target, state.v),
            sizes=trainings.sizes,
            settings=trainings.settings,
            t0=state.t,
            n_steps=n_steps,
            diverged_at=state.diverged_at,
        )
        params, target, v, diverged_at = (part.cpu().numpy() for part in done[:4])
        return PopulationState(params, target, v, state.t + n_steps, diverged_at.astype(np.int64))


def train_fused(
    records: Any,
    recipes: Recipes,
    state: tuple[Any, Any, Any],
    *,
    sizes: Sequence[int],
    settings: TrainingSettings,
    t0: int,
    n_steps: int,
    diverged_at: Any = None,
    record_every: int = 0,
    options: tuple[str, ...] = (),
) -> Trained:
    """Take up to ``n_steps`` gradient steps with every member.

    Args:
        records: All data sets one after the other, shape (rows, 32), float32, as
            :func:`packed_records` makes them; a tensor on the GPU that shall do the work.
        recipes: The members as columns.
        state: params, target and v of the members, shape (R, P) each, arrays or tensors; they are
            not changed.
        sizes: Units of each layer.
        settings: How to train.
        t0: Steps done so far.
        n_steps: Steps to take; a member stops at its own last step.
        diverged_at: Members with a step >= 0 here are left alone; None: all are trained.
        record_every: Steps between points of the curves; 0: no curves.
        options: More options for the compiler, for measurements.
    """
    ENGINE.check_carried(Operator(number) for number in recipes.operator)
    check_fit(sizes, settings, t0 + n_steps)
    torch = import_torch()
    device = _checked_device(records.device)
    n_members = len(recipes.seed)

    def there(array: Any, kind: Any) -> Any:
        return _copied(array, device, kind)

    shape = (n_members, n_parameters(sizes))
    for part in state:
        if tuple(part.shape) != shape:
            raise SettingsError(f"a state of shape {tuple(part.shape)}", expected=f"{shape}")
    tensors = [there(part, torch.float32) for part in state]
    nobody = np.full(n_members, -1)
    stopped = there(nobody if diverged_at is None else diverged_at, torch.int32)
    first = -(-t0 // record_every) if record_every else 0
    n_points = max(0, -(-(t0 + n_steps) // record_every) - first) if record_every else 0
    curves = torch.full((n_members, n_points, 2), float("nan"), device=device)
    # The longest trainings go first, so that none of them is left for the end.
    order = np.argsort(-recipes.n_steps, kind="stable")
    columns = {
        "order": there(order, torch.int32),
        "first_row": there(recipes.first_row, torch.int64),
        "n_rows": there(recipes.n_rows, torch.int32),
        "last_step": there(recipes.n_steps, torch.int32),
        "seed": there(recipes.seed.view(np.int64), torch.int64),
        "operator": there(recipes.operator, torch.int32),
        "is_double": there(recipes.is_double, torch.int32),
        "kappa": there(recipes.kappa, torch.float32),
        "n_wedge": there(recipes.n_wedge, torch.float32),
        "epsilon": there(recipes.epsilon, torch.float32),
        "params": tensors[0],
        "target": tensors[1],
        "v": tensors[2],
        "diverged_at": stopped,
        "curves": curves,
        "records": records,
    }
    arguments = Arguments.of(settings, t0, n_steps, record_every, n_points)
    for name, tensor in columns.items():
        setattr(arguments, name, tensor.data_ptr())
    with torch.cuda.device(device):
        kernel = _kernel(tuple(sizes), options, device.index)
        stream = torch.cuda.current_stream(device).cuda_stream
        _launch(kernel, n_members, shared_bytes(sizes), stream, arguments)
        # The columns must live until the kernel has read them.
        torch.cuda.synchronize(device)
    return Trained(tensors[0], tensors[1], tensors[2], stopped, curves)


def packed_records(records: Records) -> NDArray[np.float32]:
    """Return one row of 32 numbers for each transition.

    ``[0:d]`` s, ``[d:2d]`` s', ``[8]`` action, ``[9]`` reward, ``[10]`` 1 - terminated, ``[11]``
    N~(s, a), ``[12:12 + A]`` the baseline at s', ``[21:21 + A]`` N~(s', .), the rest 0.
    """
    n_rows, n_features = records.state.shape
    n_actions = records.n_next.shape[1]
    packed = np.zeros((n_rows, RECORD), dtype=np.float32)
    packed[:, :n_features] = records.state
    packed[:, n_features : 2 * n_features] = records.next_state
    packed[:, 8] = records.action
    packed[:, 9] = records.reward
    packed[:, 10] = ~records.terminated
    packed[:, 11] = records.n_here
    packed[:, 12 : 12 + n_actions] = records.baseline_next
    packed[:, 21 : 21 + n_actions] = records.n_next
    return packed


def fits(sizes: Sequence[int], settings: TrainingSettings, n_steps: int = 0) -> bool:
    """Say whether the kernel can train such networks, for so many steps.

    Example:
        >>> fits((4, 32, 128, 32, 9), TrainingSettings()), fits((4, 64, 9), TrainingSettings())
        (True, False)
    """
    return _misfit(sizes, settings, n_steps) is None


def check_fit(sizes: Sequence[int], settings: TrainingSettings, n_steps: int = 0) -> None:
    """Raise unless the kernel can train such networks, for so many steps."""
    found = _misfit(sizes, settings, n_steps)
    if found is not None:
        raise SettingsError(
            f"the fused kernel cannot train this: {found[0]}",
            expected=found[1],
            hint='use engine="torch"',
        )


def shared_bytes(sizes: Sequence[int]) -> int:
    """Return the shared memory that one member occupies; fused.cu has the same sums.

    Example:
        >>> shared_bytes((4, 32, 128, 32, 9))
        214640
    """
    _, first, middle, last, n_actions = sizes
    first, middle, last, n_q = (
        -(-size // step) * step
        for size, step in ((first, 32), (middle, 64), (last, 32), (n_actions, 8))
    )
    network = 8 * (first + 4) + (first + 1) * (middle + 4)
    network += (middle + 1) * (last + 4) + (last + 1) * (n_q + 4)
    kept = BATCH_SIZE * ((first + 8) + 2 * (middle + 8) + 2 * (last + 8))
    partial = _SPLITS * BATCH_SIZE * (max(first, last) + 8)
    small = 3 * BATCH_SIZE * 36 + 3 * n_q * 36 + 2 * n_actions * 32 + 3 * 32 + 4
    return 4 * (2 * network + kept + 3 * partial + small)


def _misfit(
    sizes: Sequence[int], settings: TrainingSettings, n_steps: int
) -> tuple[str, str] | None:
    """Return what is wrong and what would fit, or None."""
    if len(sizes) != 5:
        return f"{len(sizes) - 2} hidden layers", "three"
    if sizes[0] > MOST_FEATURES or sizes[-1] > MOST_ACTIONS:
        found = f"{sizes[0]} features and {sizes[-1]} actions"
        return found, f"at most {MOST_FEATURES} and {MOST_ACTIONS}"
    if settings.batch_size != BATCH_SIZE:
        return f"batch_size is {settings.batch_size}", str(BATCH_SIZE)
    for name, value in (
        ("target_period", settings.target_period),
        ("annealing_samples", settings.annealing_samples),
        ("the number of steps", n_steps),
    ):
        if value > _MOST_COUNTED:
            return f"{name} is {value}", f"at most {_MOST_COUNTED}"
    needed = shared_bytes(sizes)
    if needed > _SHARED_BYTES:
        return f"a network {tuple(sizes)} takes {needed} bytes", f"at most {_SHARED_BYTES}"
    return None


def _checked_device(device: Any) -> Any:
    chosen = checked_device(device)
    if chosen.type != "cuda":
        raise SettingsError(
            f"the fused kernel is asked for on {str(chosen)!r}",
            expected="a CUDA device",
            hint='use engine="cpu"',
        )
    return chosen


def _copied(array: Any, device: Any, kind: Any) -> Any:
    """Return an array or a tensor as a new tensor on a device."""
    if not is_tensor(array):
        # Of an array that is read-only torch would warn.
        array = import_torch().from_numpy(np.array(array))
    return array.to(device=device, dtype=kind, copy=True).contiguous()


_POINTERS = (
    "records", "order", "first_row", "n_rows", "last_step", "seed", "operator", "is_double",
    "kappa", "n_wedge", "epsilon", "params", "target", "v", "diverged_at", "curves",
)  # fmt: skip
_INTEGERS = (
    "t0", "n_steps", "record_every", "n_points", "target_period", "annealing_samples",
)  # fmt: skip
_FLOATS = ("gamma", "decay", "fresh", "rms_epsilon", "q_limit")


class Arguments(ctypes.Structure):
    """The kernel's argument, field by field as fused.cu declares it."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in _POINTERS),
        ("learning_rate", ctypes.c_double),
        *((name, ctypes.c_int) for name in _INTEGERS),
        *((name, ctypes.c_float) for name in _FLOATS),
    )

    @classmethod
    def of(
        cls, settings: TrainingSettings, t0: int, n_steps: int, record_every: int, n_points: int
    ) -> Arguments:
        """Return the arguments without the pointers."""
        return cls(
            learning_rate=settings.learning_rate,
            t0=t0,
            n_steps=n_steps,
            record_every=max(1, record_every),
            n_points=n_points,
            target_period=settings.target_period,
            annealing_samples=settings.annealing_samples,
            gamma=settings.gamma,
            decay=settings.rms_decay,
            fresh=1.0 - settings.rms_decay,
            rms_epsilon=settings.rms_epsilon,
            q_limit=settings.q_limit,
        )


def size_macros(sizes: Sequence[int]) -> list[str]:
    """Return the compiler's options that tell fused.cu the sizes."""
    names = ("N_IN", "N_H1", "N_H2", "N_H3", "N_ACT")
    return [f"-D{name}={size}" for name, size in zip(names, sizes, strict=True)]


def compile_kernel(sizes: Sequence[int], architecture: str, options: Sequence[str] = ()) -> bytes:
    """Return fused.cu as machine code for an architecture such as "sm_90"; needs no GPU."""
    _, nvrtc = _bindings()
    source = files("spibb.deep").joinpath("fused.cu").read_bytes()
    program = _ok(nvrtc.nvrtcCreateProgram(source, b"fused.cu", 0, [], []))
    flags = [f"--gpu-architecture={architecture}", "--std=c++17", *size_macros(sizes), *options]
    encoded = [flag.encode() for flag in flags]
    outcome = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)
    if int(outcome[0]) != 0:
        log = bytes(_ok(nvrtc.nvrtcGetProgramLogSize(program)))
        _ok(nvrtc.nvrtcGetProgramLog(program, log))
        raise RuntimeError(f"fused.cu does not compile:\n{log.decode()}")
    code = bytes(_ok(nvrtc.nvrtcGetCUBINSize(program)))
    _ok(nvrtc.nvrtcGetCUBIN(program, code))
    _ok(nvrtc.nvrtcDestroyProgram(program))
    return code


@cache
def _bindings() -> tuple[Any, Any]:
    """Return cuda-bindings' driver and nvrtc."""
    try:
        return import_module("cuda.bindings.driver"), import_module("cuda.bindings.nvrtc")
    except ImportError:
        raise MissingDependencyError(
            "the fused kernel needs cuda-bindings", hint='run: pip install "spibb[gpu]"'
        ) from None


@cache
def _kernel(sizes: tuple[int, ...], options: tuple[str, ...], index: int) -> Any:
    """Compile for a device, load, and raise the limit of shared memory."""
    torch = import_torch()
    driver, _ = _bindings()
    torch.cuda.current_stream(index)  # makes the context
    major, minor = torch.cuda.get_device_capability(index)
    attributes = driver.CUdevice_attribute
    most = _ok(
        driver.cuDeviceGetAttribute(
            attributes.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
            _ok(driver.cuDeviceGet(index)),
        )
    )
    needed = shared_bytes(sizes)
    if major < 8 or needed > most:
        raise SettingsError(
            f"the fused kernel needs {needed} bytes of shared memory and tensor cores for tf32; "
            f"this GPU has {most} bytes and compute capability {major}.{minor}",
            hint='use engine="torch"',
        )
    module = _ok(driver.cuModuleLoadData(compile_kernel(sizes, f"sm_{major}{minor}", options)))
    function = _ok(driver.cuModuleGetFunction(module, b"train"))
    limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    _ok(driver.cuFuncSetAttribute(function, limit, needed))
    return function


def _launch(kernel: Any, n_blocks: int, n_bytes: int, stream: int, arguments: Arguments) -> None:
    driver, _ = _bindings()
    places = (ctypes.c_void_p * 1)(ctypes.addressof(arguments))
    _ok(
        driver.cuLaunchKernel(
            kernel, n_blocks, 1, 1, _N_THREADS, 1, 1, n_bytes, driver.CUstream(stream),
            ctypes.addressof(places), 0,
        )
    )  # fmt: skip


def _ok(answer: tuple[Any, ...]) -> Any:
    """Return what a call of cuda-bindings returned besides its status."""
    status, *values = answer
    if int(status) != 0:
        raise RuntimeError(f"a CUDA call failed: {status!r}")
    return values[0] if len(values) == 1 else None
