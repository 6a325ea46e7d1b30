"""Random numbers by counter: the i-th number of a stream is a function of (seed, stream, i).

    number(seed, stream, i) = mix64(mix64(seed + stream * C) + (i + 1) * G)   modulo 2^64

which is the i-th output of splitmix64 (Steele, Lea, Flood, OOPSLA 2014) started from the mixed
seed. Nothing has to be carried from one draw to the next, so a training may be stopped, resumed or
spread over threads without changing what it draws, and every engine draws the same: compiled loops
call the functions below one number at a time, NumPy calls the very same source on arrays, and torch
has its own version because it knows neither unsigned integers nor logical shifts. So has
spibb/deep/fused.cu; tests hold all of them to each other.

Each use has a stream of its own: minibatches, first weights, starts of episodes, flights, the
seeds of trainings that are begun anew, models drawn from a posterior, and resamples of episodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.arrays import is_tensor
from spibb.compiled.jit import inlined_jit
from spibb.errors import SettingsError

MINIBATCHES, FIRST_WEIGHTS, STARTS, FLIGHTS, RESTARTS, MODELS = range(6)
RESAMPLES, STATE_HAZARDS, BASELINES, ACTION_HAZARDS, ENTRIES = range(6, 11)

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_STREAM = np.uint64(0xD1342543DE82EF95)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
# Shifts are unsigned too: a signed operand would turn the expression into floating point.
_SHIFT_27, _SHIFT_30, _SHIFT_31, _SHIFT_32, _ONE = (np.uint64(k) for k in (27, 30, 31, 32, 1))


@inlined_jit
def mix64(z):  # type: ignore[no-untyped-def]
    """Return splitmix64's finaliser of an unsigned 64-bit number."""
    z = (z ^ (z >> _SHIFT_30)) * _FIRST
    z = (z ^ (z >> _SHIFT_27)) * _SECOND
    return z ^ (z >> _SHIFT_31)


@inlined_jit
def stream_state(seed, stream):  # type: ignore[no-untyped-def]
    """Return where a stream starts; all arguments here are unsigned 64-bit numbers."""
    return mix64(seed + stream * _STREAM)


@inlined_jit
def number(state, i):  # type: ignore[no-untyped-def]
    """Return the i-th number of the stream that starts at ``state``."""
    return mix64(state + (i + _ONE) * _GOLDEN)


@inlined_jit
def below(value, n):  # type: ignore[no-untyped-def]
    """Map a 64-bit number to 0 .. n - 1 by its upper half; n at most 2^31."""
    return ((value >> _SHIFT_32) * n) >> _SHIFT_32


def numbers(seed: Any, stream: int, i: Any) -> NDArray[np.uint64]:
    """Return numbers of a stream as an array; ``seed`` and ``i`` broadcast.

    Example:
        >>> numbers(7, 0, [0, 1])
        array([9672475392221035855, 5573481420429128725], dtype=uint64)
    """
    seeds, places = np.asarray(seed, dtype=np.uint64), np.asarray(i, dtype=np.uint64)
    with np.errstate(over="ignore"):  # NumPy reports on single numbers what it ignores on arrays
        state = _plain_mix64(seeds + np.uint64(stream) * _STREAM)
        return np.asarray(_plain_mix64(state + (places + _ONE) * _GOLDEN))


def uniforms(seed: Any, stream: int, i: Any) -> Any:
    """Return uniform numbers in [0, 1), multiples of 2^-24, as float32: tensors of tensors."""
    if is_tensor(i):
        return _logical_shift(torch_numbers(seed, stream, i), 40).float() * 2.0**-24
    upper = (numbers(seed, stream, i) >> np.uint64(40)).astype(np.float32)
    return upper * np.float32(2.0**-24)


def minibatch(seed: Any, step: int, *, batch_size: int, n: int) -> NDArray[np.int64]:
    """Return the rows, out of ``n``, that a training draws at one step: shape (..., batch)."""
    places = np.arange(step * batch_size, (step + 1) * batch_size, dtype=np.uint64)
    drawn = numbers(np.asarray(seed, dtype=np.uint64)[..., None], MINIBATCHES, places)
    chosen = below.py_func(drawn, np.uint64(n))
    return np.asarray(chosen).astype(np.int64)


def torch_numbers(seed: Any, stream: int, i: Any) -> Any:
    """Return the same numbers as int64 tensors, bit for bit; ``seed`` and ``i`` are int64 tensors.

    Signed multiplication and addition wrap around as unsigned ones do.
    """
    state = _torch_mix64(seed + _signed(stream * int(_STREAM)))
    return _torch_mix64(state + (i + 1) * _signed(int(_GOLDEN)))


def torch_minibatch(seed: Any, places: Any, n: Any) -> Any:
    """Return the rows drawn at ``places`` (step * batch + b); ``n`` is a number or a tensor."""
    upper = _logical_shift(torch_numbers(seed, MINIBATCHES, places), 32)
    return (upper * n) >> 32


def signed(values: Any) -> NDArray[np.int64]:
    """Return unsigned 64-bit numbers as the int64 of the same bits, for torch."""
    return np.asarray(values, dtype=np.uint64).view(np.int64)


_plain_mix64 = mix64.py_func


def _torch_mix64(z: Any) -> Any:
    z = (z ^ _logical_shift(z, 30)) * _signed(int(_FIRST))
    z = (z ^ _logical_shift(z, 27)) * _signed(int(_SECOND))
    return z ^ _logical_shift(z, 31)


def _logical_shift(z: Any, by: int) -> Any:
    return (z >> by) & ((1 << (64 - by)) - 1)


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def check_rng(rng: object) -> None:
    """Raise unless this is a generator of NumPy's, which data sets and acting draw from."""
    if not isinstance(rng, np.random.Generator):
        raise SettingsError(
            f"rng is {rng!r}",
            expected="a numpy.random.Generator",
            hint="make one with numpy.random.default_rng(0)",
        )
