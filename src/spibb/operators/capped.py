r"""Steps whose probabilities have upper bounds u(a): what limits on actions come to in one row.

The row b that a step starts from must keep to them (b <= u).

*Exact*: maximise q.pi within the budget, with 0 <= pi <= u: the sweep (see sweeping), and in a row
of many actions what is left after a few events of it by narrowing (see there). *Pi_b* and *Pi_<=b*
are the exact and the lower step with errors 0 and infinity and no budget.

*Approximate*: the transfers of soft_approx and advantageous, to receivers that have room; a donor
whose receiver is full goes on with its next best bargain. In a row of many actions the frontier of
receivers that have room is written again each time that one is full: O(A) each.

Letters: q values, b baseline, e errors, g the baseline's Q, u upper bounds, out the new row, m the
margin.
"""

import numpy as np

from spibb.compiled.jit import jit
from spibb.mdp.greedy import copy_row
from spibb.operators.narrowing import narrow_row
from spibb.operators.soft_approx import next_bargain, next_worst, receiver_at
from spibb.operators.soft_exact import n_scans
from spibb.operators.sorting import FEW, push_vertex, sort
from spibb.operators.sweeping import MOST_EVENTS, sweep


@jit
def capped_exact_row(q, b, e, epsilon, is_lower, n_events, u, out, work):
    """Write the row that maximises q within budget and bounds; an infinite budget is none.

    Returns:
        0, or if it is not found after ``n_events`` events of the sweep, a t that the best one is
        not above: `narrowed_exact_row` goes on with that. It is not called from here, since a call
        within a call takes a tenth of the time of a row of two actions.
    """
    if epsilon == np.inf:
        capped_greedy_row(q, n_fills(len(q)), u, out, work)
        return 0.0
    copy_row(b, out)
    m = _first_margin(q, b, e, u)
    if m < 0:
        return 0.0
    is_done, rate = sweep(q, b, e, is_lower, u, out, m, True, epsilon, n_events)
    return 0.0 if is_done else rate


@jit
def narrowed_exact_row(q, b, e, epsilon, is_lower, u, steepest, out, work):
    """Write the same row from scratch, by narrowing, in nine rows of ``work``."""
    if not narrow_row(q, b, e, epsilon, is_lower, u, steepest, out, work):
        capped_exact_row(q, b, e, epsilon, is_lower, MOST_EVENTS * len(q), u, out, work)


@jit
def n_sweeps(n_actions):
    """Return how many events of the sweep are looked for before the others are narrowed down."""
    return MOST_EVENTS * n_actions if n_actions <= FEW else n_scans(n_actions)


@jit
def _first_margin(q, b, e, u):
    """Return the action of least error that has room, the best of those, or -1."""
    m = -1
    for a in range(len(q)):
        better = m < 0 or e[a] < e[m] or (e[a] == e[m] and q[a] > q[m])
        if better and e[a] < np.inf and u[a] > b[a]:
            m = a
    return m


@jit
def n_fills(n_actions):
    """Return how many actions are looked for among all before they are sorted, which takes long."""
    return MOST_EVENTS * n_actions if n_actions <= FEW else 8 * n_scans(n_actions)


@jit
def capped_greedy_row(q, n_scanned, u, out, work):
    """Fill the actions of largest q up to their bounds; after some the others are sorted."""
    for a in range(len(q)):
        out[a] = 0.0
    left, n = 1.0, 0
    while left > 0.0:
        if n == n_scanned:
            _fill_sorted(q, q, u, True, left, out, work)
            break
        best = -1
        for a in range(len(q)):
            if out[a] < u[a] and (best < 0 or q[a] > q[best]):
                best = a
        if best < 0:
            break  # bounds add up to 1 but for rounding
        out[best] = min(u[best], left)
        left -= out[best]
        n += 1


@jit
def capped_allowed_row(q, b, e, n_scanned, u, out, work):
    """Fill actions of finite error, the best first; what is left stays where the baseline is."""
    left = 1.0
    for a in range(len(q)):
        out[a] = 0.0
    for is_allowed in (True, False):
        n = 0
        while left > 0.0:
            if n == n_scanned:
                left = _fill_sorted(q, e, u if is_allowed else b, is_allowed, left, out, work)
                break
            best = -1
            for a in range(len(q)):
                bound = u[a] if e[a] < np.inf else b[a]
                is_better = best < 0 or q[a] > q[best]
                if is_better and (e[a] < np.inf) == is_allowed and out[a] < bound:
                    best = a
            if best < 0:
                break
            out[best] = min(u[best] if is_allowed else b[best], left)
            left -= out[best]
            n += 1


@jit
def _fill_sorted(q, e, bounds, is_finite, left, out, work):
    """Fill the best actions of finite e, or of infinite; return what mass is left."""
    order, keys, spare = work[0], work[1], work[2]
    for a in range(len(q)):
        order[a], keys[a] = a, -q[a]
    sort(order, len(q), keys, keys, spare)
    for place in range(len(q)):
        a = int(order[place])
        if (e[a] < np.inf) == is_finite and out[a] < bounds[a] and left > 0.0:
            out[a] = min(bounds[a], left)
            left -= out[a]
    return left


@jit
def capped_approx_row(q, b, e, epsilon, is_lower, is_adv, g, is_sorted, u, out, work):
    """Move mass to the best bargains that have room, within the budget, and the advantage.

    If ``is_sorted``, donors and receivers are, in four rows of ``work``.
    """
    if epsilon == np.inf and not is_adv:
        capped_greedy_row(q, n_fills(len(q)), u, out, work)
        return
    copy_row(b, out)
    budget, earned = epsilon, 0.0
    donor, n_vertices, vertex = -1, -1, 0
    n_receivers = _sort_receivers(q, b, e, u, work) if is_sorted else 0
    for k in range(len(q)):
        donor = int(work[1, k]) if is_sorted else next_worst(q, donor)
        is_pinned = e[donor] == np.inf and not is_lower and epsilon < np.inf
        while out[donor] > 0.0 and not is_pinned:
            if is_sorted and epsilon < np.inf:
                if n_vertices < 0:  # a receiver is full
                    n_vertices, vertex = _write_receivers(q, e, u, out, n_receivers, work), 0
                vertex = next_bargain(q, e, donor, work[0], n_vertices, vertex)
                receiver = receiver_at(q, donor, work[0], n_vertices, vertex)
            else:
                receiver = _best_with_room(q, e, epsilon, u, out, donor)
            if receiver < 0:
                break
            mass = out[donor]
            dearest = e[receiver] if is_lower else 2.0 * max(e[donor], e[receiver])
            if epsilon < np.inf and dearest > 0.0:
                mass = min(mass, budget / dearest)
            gain = g[receiver] - g[donor]
            if is_adv and gain < 0.0:
                mass = min(mass, earned / -gain)
            is_full = mass >= u[receiver] - out[receiver]
            if is_full:
                mass = u[receiver] - out[receiver]
                n_vertices = -1
            out[receiver] = u[receiver] if is_full else out[receiver] + mass
            out[donor] -= mass
            earned = max(0.0, earned + gain * mass)
            if epsilon < np.inf:
                price = e[receiver] if is_lower else e[donor] + e[receiver]
                budget = max(0.0, budget - mass * price)
            if not is_full:
                break


@jit
def _sort_receivers(q, b, e, u, work):
    """Write donors by increasing q and receivers by increasing error; return how many of these."""
    donors, receivers, spare = work[1], work[2], work[3]
    n = 0
    for a in range(len(q)):
        donors[a] = a
        if e[a] < np.inf and u[a] > b[a]:
            receivers[n] = a
            n += 1
    sort(donors, len(q), q, q, spare)
    sort(receivers, n, e, q, spare)
    return n


@jit
def _write_receivers(q, e, u, out, n_receivers, work):
    """Write the frontier of the receivers that have room; return its number of vertices."""
    n_vertices = 0
    for k in range(n_receivers):
        a = int(work[2, k])
        if out[a] < u[a]:
            if n_vertices == 0:
                work[0, 0] = a
                n_vertices = 1
            else:
                n_vertices = push_vertex(q, e, a, work[0], n_vertices)
    return n_vertices


@jit
def _best_with_room(q, e, epsilon, u, out, donor):
    """Return the action of largest gain per unit of error that has room, or -1.

    Without a budget errors are no prices: the action of largest q.
    """
    receiver, best = -1, 0.0
    for a in range(len(q)):
        gain = q[a] - q[donor]
        if gain > 0.0 and out[a] < u[a] and (e[a] < np.inf or epsilon == np.inf):
            ratio = gain / e[a] if epsilon < np.inf else gain
            if ratio > best or (ratio == best and receiver >= 0 and q[a] > q[receiver]):
                receiver, best = a, ratio
    return receiver
