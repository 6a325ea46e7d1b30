"""One thread of BLAS for a while.

Threads of BLAS wait in a loop for each other: small systems are solved fifty times more slowly by
several than by one, and the last digits depend on how many there are. The cores are shared out by
:mod:`spibb.compiled.threads`, whose results do not depend on their number.

OpenBLAS, which NumPy and SciPy bring along, is asked for its number of threads. Another library is
left as it is.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

# Names of OpenBLAS's functions differ by who has built it.
_BEGINNINGS, _ENDINGS = ("scipy_openblas", "openblas"), ("64_", "")


class _Library(NamedTuple):
    """A library of OpenBLAS's: how many threads it has, and how to set that."""

    get: Callable[[], int]
    set: Callable[[int], None]


class _State:
    """How many calls want one thread right now, and what there was before them."""

    lock = threading.Lock()
    n_calls = 0
    before: tuple[int, ...] = ()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS use one thread; other threads of the program may ask for the same meanwhile.

    Example:
        >>> with one_blas_thread():
        ...     n_blas_threads() <= {1}
        True
    """
    libraries = _libraries()
    with _State.lock:
        if _State.n_calls == 0:
            _State.before = tuple(library.get() for library in libraries)
            for library in libraries:
                library.set(1)
        _State.n_calls += 1
    try:
        yield
    finally:
        with _State.lock:
            _State.n_calls -= 1
            if _State.n_calls == 0:
                for library, n in zip(libraries, _State.before, strict=True):
                    library.set(n)


def n_blas_threads() -> set[int]:
    """Return the numbers of threads of NumPy's and SciPy's OpenBLAS; empty if they have another."""
    return {library.get() for library in _libraries()}


@cache
def _libraries() -> tuple[_Library, ...]:
    import numpy.linalg._umath_linalg
    import scipy.linalg._fblas

    modules: tuple[Any, ...] = (numpy.linalg._umath_linalg, scipy.linalg._fblas)
    found = [_openblas(module.__file__) for module in modules]
    return tuple(one for one in found if one is not None)


def _openblas(path: str) -> _Library | None:
    """Return the library that an extension module is linked with, where it is OpenBLAS."""
    try:
        handle = ctypes.CDLL(path)
    except OSError:
        return None
    for name in _BEGINNINGS:
        for ending in _ENDINGS:
            get = getattr(handle, f"{name}_get_num_threads{ending}", None)
            put = getattr(handle, f"{name}_set_num_threads{ending}", None)
            if get is not None and put is not None:
                get.restype, put.argtypes, put.restype = ctypes.c_int, [ctypes.c_int], None
                return _Library(get, put)
    return None
