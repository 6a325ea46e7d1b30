"""How row functions are compiled.

A row function works on one state without allocating memory, so the same Python source can also be
compiled for a GPU. Division by zero follows IEEE rules: an infinite ratio is a free move.
"""

import numba

row_function = numba.njit(cache=True, nogil=True, error_model="numpy")
