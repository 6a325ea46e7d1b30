r"""The sweep of the exact step under upper bounds u(a): crossings of lines, the best bargain first.

Cut each action into two segments, from 0 to b(a), which is full at first, and from b(a) to u(a),
which is empty. A unit in the lower segment is worth q(a) and refunds e(a), in the upper one it is
worth q(a) and costs e(a): with a multiplier t on the budget all segments are lines q - t c in one
plane, c = -e or e, and the best row fills the highest of them. So let t fall from infinity. One
segment is the *margin*, whose line is the price of mass; the next event is the largest t at which
another line meets it. Mass then moves between the two, at c' - c a unit, until one of them is empty
or full, which becomes or leaves the margin. Each event is the best bargain left, so the sweep may
stop where the budget ends, in the midst of one. O(A) an event; without bounds these are the events
of soft_exact. In the *lower* step c = 0 in lower segments: donors neither pay nor are refunded.

Letters: q values, b baseline, e errors, u upper bounds, out the new row, m the margin.
"""

import numpy as np

from spibb.compiled.jit import inlined_jit, jit

# Far above the number of events met in practice (twice the number of actions); each finds a
# better row, and to stop early leaves one that keeps to budget and bounds.
MOST_EVENTS = 1_000


@inlined_jit
def sweep(q, b, e, is_lower, u, out, m, is_upper, budget, n_events):
    """Spend the budget from the cheapest row on, whose margin is a segment of m.

    Returns:
        Whether that is done after so many events, and a t that the best one is not above.
    """
    at = e[m] if is_upper else _refund(e[m], is_lower)
    low, high = (b[m], u[m]) if is_upper else (0.0, b[m])
    rate = np.inf
    for _ in range(n_events):
        other, cost, rate = _next_exchange(q, b, e, is_lower, u, out, m, at)
        if other < 0:
            return True, 0.0
        rises = q[other] > q[m]
        is_upper = out[other] > b[other] or (rises and out[other] == b[other])
        bottom, top = (b[other], u[other]) if is_upper else (0.0, b[other])
        if rises:
            have, room, unit = out[m] - low, top - out[other], cost - at
        else:
            have, room, unit = out[other] - bottom, high - out[m], at - cost
        mass = min(have, room)
        is_last = mass * unit > budget
        if is_last:
            mass = min(mass, budget / unit)
        out[other] += mass if rises else -mass
        out[m] += -mass if rises else mass
        if is_last:
            return True, rate
        budget -= mass * unit
        # What is empty or full is so to the last bit: the next events look at that.
        if rises and have >= room:
            out[other] = top
        if not rises and have <= room:
            out[other] = bottom
        is_spent = have <= room if rises else have >= room
        if is_spent:
            out[m] = low if rises else high
        if is_spent and (rises or have > room):
            m, at, low, high = other, cost, bottom, top
    return False, rate


@jit
def _refund(error, is_lower):
    """Return c of a lower segment: never -0, by which rates would be negative."""
    return 0.0 if is_lower else 0.0 - error


@jit
def _next_exchange(q, b, e, is_lower, u, out, m, at):
    """Return the action whose line meets the margin's next as t falls, or -1, its c, and t."""
    found, cost, best = -1, 0.0, 0.0
    for a in range(len(q)):
        if e[a] == np.inf and not is_lower:
            continue
        if q[a] > q[m]:
            if out[a] < b[a]:
                c = _refund(e[a], is_lower)
            elif out[a] < u[a] and e[a] < np.inf:
                c = e[a]
            else:
                continue
            rate = (q[a] - q[m]) / (c - at)
        elif q[a] < q[m] and out[a] > 0.0:
            c = e[a] if out[a] > b[a] else _refund(e[a], is_lower)
            rate = (q[m] - q[a]) / (at - c)
        else:
            continue
        if rate > best:
            found, cost, best = a, c, rate
    return found, cost, best
