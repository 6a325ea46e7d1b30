"""Greedy step: all probability on an action of largest Q. Letters: q, b, e, out as elsewhere."""

import numpy as np

from spibb.compiled.jit import jit
from spibb.mdp.greedy import best_action, copy_row, pure_row


@jit
def greedy_row(q, b, e, out):
    """Put all mass on the first action of largest q, whatever its error."""
    pure_row(best_action(q), out)


@jit
def best_allowed(q, e):
    """Return the first action of largest q among those of finite error, or -1."""
    best = -1
    for a in range(len(q)):
        if e[a] < np.inf and (best < 0 or q[a] > q[best]):
            best = a
    return best


@jit
def greedy_allowed_row(q, b, e, out):
    """Put all mass on the best action of finite error; copy the baseline if there is none."""
    best = best_allowed(q, e)
    if best < 0:
        copy_row(b, out)
    else:
        pure_row(best, out)
