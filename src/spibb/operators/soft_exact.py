r"""The exact Soft-SPIBB step, in closed form.

    maximise sum_a q(a) pi(a)  over the simplex,
    subject to  sum_a e(a) |pi(a) - b(a)| <= epsilon;  e(a) = inf pins pi(a) = b(a).

With a multiplier t on the budget, an action is worth q - t e as a receiver and costs q + t e as a
donor: the best receiver d maximises q - t e, and a donor gives *all* its mass once
``(q_d - q_i) / (e_d + e_i) > t``. So let t fall from infinity. Receivers move along one concave
frontier of the points (e, q), from the least error to the largest q; an edge of it moves what was
received to the next vertex, at price (q_j - q_d) / (e_j - e_d). Each event improves q.pi at the
best rate still available for its cost, so the sweep may stop at the event that exhausts the
budget, carried out in part. A donor enters while its receiver is the current vertex, hence looking
at one vertex at a time suffices: O(A) an event, at most 2 A events, no memory beyond the row. A row
of many actions is sorted once a few events did not exhaust the budget (see sorting): O(A log A).

The *lower* variant (errors on increases only, ``sum_a e(a) max(0, pi(a) - b(a)) <= epsilon``)
is the same sweep with donors that pay nothing; there e(a) = inf forbids increases only, so such
actions still donate.

Deviation from the paper: it solves a linear program with 2 A + 1 extra constraints for each state.
Letters: q values, b baseline, e errors, out the new row, d the receiving vertex.
"""

import numpy as np

from spibb.compiled.jit import jit
from spibb.operators.greedy import greedy_row
from spibb.operators.sorting import (
    FEW,
    cheapest_receiver,
    slope,
    sort,
    write_frontier,
)


@jit
def n_scans(n_actions):
    """Return how many events are looked for among all actions before they are sorted."""
    if n_actions <= FEW:
        return 2 * n_actions + 1  # more than there are
    n = 0
    while n_actions > 1:
        n_actions //= 2
        n += 1
    return n


@jit
def soft_exact_row(q, b, e, epsilon, is_lower, n_scanned, out, work):
    """Write the row that maximises q within the budget, on increases only if ``is_lower``.

    Callers pass ``is_lower`` as a value: for a literal Numba would compile the sweep once more.
    After ``n_scanned`` events, see `n_scans`, the others are sorted, in six rows of ``work``.
    """
    if epsilon == np.inf:
        greedy_row(q, b, e, out)
        return
    for a in range(len(q)):
        out[a] = b[a]
    d = cheapest_receiver(q, e)
    if d < 0:
        return
    budget = epsilon
    received = 0.0
    n_events, n_given, n_donors, n_vertices, k = 0, 0, 0, 0, 0
    while True:
        if n_events < n_scanned:
            donor, donor_price = _next_donor(q, e, out, d, is_lower)
            vertex, edge_price = _next_vertex(q, e, d)
            gives = donor >= 0 and donor_price >= edge_price
        else:
            if n_events == n_scanned:
                n_vertices, n_donors = _sort_events(q, e, out, d, is_lower, work)
                k = 0  # the place of d on the frontier
            donor = int(work[2, n_given]) if n_given < n_donors else -1
            gives = donor >= 0 and int(work[3, donor]) == k
            vertex = int(work[0, k + 1]) if k + 1 < n_vertices else -1
        n_events += 1
        if not gives and vertex < 0:
            break
        if gives:
            unit = e[d] if is_lower else e[donor] + e[d]
            if b[donor] * unit <= budget:
                budget -= b[donor] * unit
                received += b[donor]
                out[donor] = 0.0
                n_given += n_events > n_scanned
                continue
            part = min(budget / unit, b[donor])
            out[donor] = b[donor] - part
            received += part
            break
        unit = e[vertex] - e[d]
        if received * unit <= budget:
            budget -= received * unit
            d = vertex
            k += 1
            continue
        part = min(budget / unit, received)
        out[vertex] += part
        received -= part
        break
    out[d] += received


@jit
def _next_donor(q, e, out, d, is_lower):
    """Return the donor that gains most per unit of budget when it gives to d, or -1."""
    donor = -1
    best = 0.0
    for a in range(len(q)):
        # out[a] > 0 holds exactly for those that have something and have not given it yet.
        if (is_lower or e[a] < np.inf) and q[a] < q[d] and out[a] > 0.0:
            price = (q[d] - q[a]) / (e[d] if is_lower else e[d] + e[a])
            if price > best:
                donor = a
                best = price
    return donor, best


@jit
def _next_vertex(q, e, d):
    """Return the vertex after d on the frontier of receivers, or -1."""
    vertex = -1
    best = 0.0
    for a in range(len(q)):
        if e[a] < np.inf and q[a] > q[d] and e[a] > e[d]:
            price = (q[a] - q[d]) / (e[a] - e[d])
            if price > best:
                vertex = a
                best = price
    return vertex, best


@jit
def _sort_events(q, e, out, d, is_lower, work):
    """Write the frontier from d and the order of the donors; return the numbers of both.

    Rows of ``work``: vertices, slopes of the edges that leave them, donors in their order; for each
    donor the place on the frontier of the vertex that it gives to, and its price there.
    """
    frontier, edges, donors, places, prices, spare = (
        work[0], work[1], work[2], work[3], work[4], work[5]
    )  # fmt: skip
    n_vertices = write_frontier(q, e, d, frontier, donors, spare)
    last = int(frontier[n_vertices - 1])
    for k in range(n_vertices - 1):
        edges[k] = slope(q, e, int(frontier[k]), int(frontier[k + 1]))
    edges[n_vertices - 1] = 0.0
    n_donors = 0
    for a in range(len(q)):
        if (is_lower or e[a] < np.inf) and q[a] < q[last] and out[a] > 0.0:
            places[a], prices[a] = _first_sale(q, e, a, is_lower, frontier, edges, n_vertices)
            donors[n_donors] = a
            n_donors += 1
    sort(donors, n_donors, places, prices, spare)
    return n_vertices, n_donors


@jit
def _first_sale(q, e, a, is_lower, frontier, edges, n_vertices):
    """Return the place of the first vertex whose price a donor meets, and that price.

    It is met when giving buys more than the edge that leaves the vertex, which is so at every later
    one too.
    """
    low, high = 0, n_vertices - 1
    while low < high:
        middle = (low + high) // 2
        d = int(frontier[middle])
        price = (q[d] - q[a]) / (e[d] if is_lower else e[d] + e[a])
        if q[a] < q[d] and price >= edges[middle]:
            high = middle
        else:
            low = middle + 1
    d = int(frontier[low])
    return low, (q[d] - q[a]) / (e[d] if is_lower else e[d] + e[a])
