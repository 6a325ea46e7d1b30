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
at one vertex at a time suffices: O(A) an event, at most 2 A events, no memory beyond the row.

The *lower* variant (errors on increases only, ``sum_a e(a) max(0, pi(a) - b(a)) <= epsilon``)
is the same sweep with donors that pay nothing; there e(a) = inf forbids increases only, so such
actions still donate.

Deviation from the paper: it solves a linear program with 2 A + 1 extra constraints for each state.
Letters: q values, b baseline, e errors, out the new row, d the receiving vertex.
"""

import numpy as np

from spibb.compiled.jit import jit
from spibb.operators.greedy import greedy_row


@jit
def soft_exact_row(q, b, e, epsilon, is_lower, out):
    """Write the row that maximises q within the budget, on increases only if ``is_lower``.

    Callers pass ``is_lower`` as a value: for a literal Numba would compile the sweep once more.
    """
    if epsilon == np.inf:
        greedy_row(q, b, e, out)
        return
    d = -1
    for a in range(len(q)):
        out[a] = b[a]
        if e[a] < np.inf and (d < 0 or e[a] < e[d] or (e[a] == e[d] and q[a] > q[d])):
            d = a
    if d < 0:
        return
    budget = epsilon
    received = 0.0
    while True:
        donor, donor_price = _next_donor(q, e, out, d, is_lower)
        vertex, edge_price = _next_vertex(q, e, d)
        if donor < 0 and vertex < 0:
            break
        if donor >= 0 and donor_price >= edge_price:
            unit = e[d] if is_lower else e[donor] + e[d]
            if b[donor] * unit <= budget:
                budget -= b[donor] * unit
                received += b[donor]
                out[donor] = 0.0
                continue
            part = min(budget / unit, b[donor])
            out[donor] = b[donor] - part
            received += part
            break
        unit = e[vertex] - e[d]
        if received * unit <= budget:
            budget -= received * unit
            d = vertex
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
