"""Rows of a policy, changed in place: greedy ones, and any others that gain by more than rounding.

These functions work on one state without allocating memory, so that a GPU runs them too. Letters: q
values, out the new row.
"""

import numpy as np

from spibb.compiled.jit import jit

# A row moves only for more than this share of the values: ties keep what is there.
_STRICT = 1e-12


@jit
def copy_row(source, out):
    """Write ``source`` into ``out``: a slice assignment would take seconds to compile."""
    for a in range(len(out)):
        out[a] = source[a]


@jit
def pure_row(action, out):
    """Put all mass on one action."""
    for a in range(len(out)):
        out[a] = 0.0
    out[action] = 1.0


@jit
def best_action(q):
    """Return the first action of largest q."""
    best = 0
    for a in range(1, len(q)):
        if q[a] > q[best]:
            best = a
    return best


@jit
def replace_row(row, new, q, scale):
    """Replace a row if the new one gains more than rounding; tell whether it changed.

    Args:
        row: The row in place.
        new: The row that may take its place.
        q: Values of the actions.
        scale: The size of the values whose rounding may look like a gain.
    """
    gain = 0.0
    for a in range(len(q)):
        gain += (new[a] - row[a]) * q[a]
    changed = False
    if gain > _STRICT * scale:
        for a in range(len(q)):
            if new[a] != row[a]:
                changed = True
                row[a] = new[a]
    return changed


@jit
def improve_greedily(policy, q):
    """Move each state to its best action, where that is better; tell whether any row changed.

    Values of all states are rounded like the largest of them, which is therefore the scale; below 1
    it is 1, as in the studies that are stored.
    """
    changed = False
    new = np.empty(policy.shape[1])
    scale = max(1.0, np.abs(q).max())
    for x in range(len(policy)):
        pure_row(best_action(q[x]), new)
        changed |= replace_row(policy[x], new, q[x], scale)
    return changed
