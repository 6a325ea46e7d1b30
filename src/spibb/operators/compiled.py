"""How row functions are compiled.

A row function works on one state without allocating memory, so the same Python source can also be
compiled for a GPU. Division by zero follows IEEE rules: an infinite ratio is a free move.
"""

import numba

row_function = numba.njit(cache=True, nogil=True, error_model="numpy")


@row_function
def copy_row(source, out):  # type: ignore[no-untyped-def]
    """Write ``source`` into ``out``: a slice assignment would take seconds to compile."""
    for a in range(len(out)):
        out[a] = source[a]


@row_function
def pure_row(action, out):  # type: ignore[no-untyped-def]
    """Put all mass on one action."""
    for a in range(len(out)):
        out[a] = 0.0
    out[action] = 1.0
