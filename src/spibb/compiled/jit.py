"""How functions are compiled: once, cached on disk, and without the interpreter's lock.

Division by zero follows IEEE rules, as on a GPU: an infinite ratio is an answer, no error.
"""

from typing import Any

import numba

_OPTIONS: Any = {"cache": True, "nogil": True, "error_model": "numpy"}

jit = numba.njit(**_OPTIONS)
# For the pieces of a hot loop, which are one function to the compiler.
inlined_jit = numba.njit(**_OPTIONS, inline="always")
# Sums may be added up in another order, which lets them be vectorised; NaN and infinity still hold.
reassociating_jit = numba.njit(**_OPTIONS, fastmath={"reassoc", "contract"})
# For functions that are made around others at run time, which no cache on disk could tell apart.
uncached_jit = numba.njit(**{**_OPTIONS, "cache": False})
