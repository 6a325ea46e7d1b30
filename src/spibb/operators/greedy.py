"""Greedy step: all probability on an action of largest Q. Letters: q, b, e, out as elsewhere."""

import numpy as np

from spibb.operators.compiled import copy_row, pure_row, row_function


@row_function
def greedy_row(q, b, e, out):
    """Put all mass on the first action of largest q, whatever its error."""
    best = 0
    for a in range(1, len(q)):
        if q[a] > q[best]:
            best = a
    pure_row(best, out)


@row_function
def best_allowed(q, e):
    """Return the first action of largest q among those of finite error, or -1."""
    best = -1
    for a in range(len(q)):
        if e[a] < np.inf and (best < 0 or q[a] > q[best]):
            best = a
    return best


@row_function
def greedy_allowed_row(q, b, e, out):
    """Put all mass on the best action of finite error; copy the baseline if there is none."""
    best = best_allowed(q, e)
    if best < 0:
        copy_row(b, out)
    else:
        pure_row(best, out)
