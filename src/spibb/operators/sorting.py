r"""Steps on rows of many actions: events in order without looking at every action for each.

A step that looks for its next donor and its next receiver among all A actions takes O(A^2). Two
orders do the same in O(A log A):

* *donors* are sorted by their price, or by q;
* *receivers* are the concave frontier of the points (e, q), from the least error to the largest q:
  the actions that are best for some price of error. Points in the order of e are pushed on a stack,
  from which those that fall below the line to a new one are taken (the monotone chain).

Ties fall as in the scans: the lowest index among equals, and of several vertices on one line those
that a scan would stop at. Prices are computed as there, so a step gives the same bits either way
unless rounding alone decides which of two equal prices is larger.

Orders and frontiers hold actions as numbers in rows of scratch. Letters: q values, e errors, d
the vertex that a frontier starts from.
"""

import numpy as np

from spibb.compiled.jit import jit

# Above this many actions a step sorts them. Measured by benchmarks/test_many_actions.py.
FEW = 64


@jit
def sort(order, n, first, second, spare):
    """Sort ``n`` actions by (first, -second, index): runs that double are merged into ``spare``."""
    width = 1
    while width < n:
        for start in range(0, n, 2 * width):
            middle, end = min(start + width, n), min(start + 2 * width, n)
            _merge(order, start, middle, end, first, second, spare)
        for place in range(n):
            order[place] = spare[place]
        width *= 2


@jit
def _merge(order, start, middle, end, first, second, out):
    left, right = start, middle
    for place in range(start, end):
        is_right = left == middle or (
            right < end and _goes_before(order[right], order[left], first, second)
        )
        if is_right:
            out[place] = order[right]
            right += 1
        else:
            out[place] = order[left]
            left += 1


@jit
def _goes_before(one, other, first, second):
    i, j = int(one), int(other)
    if first[i] != first[j]:
        return first[i] < first[j]
    if second[i] != second[j]:
        return second[i] > second[j]
    return i < j


@jit
def cheapest_receiver(q, e):
    """Return the action of least error, the best of those, or -1 if all errors are infinite."""
    d = -1
    for a in range(len(q)):
        if e[a] < np.inf and (d < 0 or e[a] < e[d] or (e[a] == e[d] and q[a] > q[d])):
            d = a
    return d


@jit
def slope(q, e, start, end):
    """Return what a unit of error buys between two vertices."""
    return (q[end] - q[start]) / (e[end] - e[start])


@jit
def write_frontier(q, e, d, frontier, order, spare):
    """Write the vertices from ``d`` to the largest q, and return their number."""
    n = 0
    for a in range(len(q)):
        if e[a] < np.inf and q[a] > q[d] and e[a] > e[d]:
            order[n] = a
            n += 1
    sort(order, n, e, q, spare)
    frontier[0] = d
    n_vertices = 1
    for place in range(n):
        n_vertices = push_vertex(q, e, int(order[place]), frontier, n_vertices)
    return n_vertices


@jit
def push_vertex(q, e, a, frontier, n_vertices):
    """Add an action that is not cheaper to a frontier; return its number of vertices then."""
    if q[a] <= q[int(frontier[n_vertices - 1])]:
        return n_vertices  # another is better and no dearer
    while n_vertices > 1:
        start, end = int(frontier[n_vertices - 2]), int(frontier[n_vertices - 1])
        direct, present = slope(q, e, start, a), slope(q, e, start, end)
        if direct < present or (direct == present and end < a):
            break
        n_vertices -= 1
    frontier[n_vertices] = a
    return n_vertices + 1
