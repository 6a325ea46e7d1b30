"""Greedy step: all probability on an action of largest Q. Letters: q values, out the new row."""

from spibb.operators.compiled import row_function


@row_function
def greedy_row(q, baseline, errors, epsilon, out):
    """Put all mass on the first action of largest q."""
    best = 0
    for a in range(1, len(q)):
        if q[a] > q[best]:
            best = a
    out[:] = 0.0
    out[best] = 1.0
