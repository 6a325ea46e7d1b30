r"""The exact step under upper bounds for many actions: narrow its dual down to a few segments.

The segments of sweeping are lines q - t c, and the best row fills those above a price p. Which
point (t, p) that is minimises a convex function, so a look at any point tells in which half-plane
the best one lies: too much mass above it asks for a higher price, too much cost for a larger t.
Half-planes through the centre of gravity cut a polygon around the best point to at most 0.63 of its
area each time, and a segment whose line misses the polygon is decided: full if above, empty if
below. So each look is at fewer segments than the one before, about O(A) for all of them together.
The sweep finishes what is left: it alone decides ties, and rounding. Where many different lines
meet in the best point much is left, and each event of the sweep looks at all of that.

Points have coordinates x = 1 / (1 + t) in 0..1, so that no t is too large, and y = p x: a line is
x q - (1 - x) c, straight as before. Actions of the same q and e are one to the sweep.

Rows of ``work``: actions whose lower and whose upper segments are undecided (0, 1); the polygon's x
and y, in turn before and after a cut (2 to 5); q, e and u - b in units of their own (6 to 8). The
row that is left takes their places. Letters as in sweeping.
"""

import numpy as np

from spibb.compiled.jit import jit
from spibb.operators.sorting import sort
from spibb.operators.sweeping import MOST_EVENTS, sweep

N_NARROWING_ROWS = 9
# The sweep takes as few segments in less time than cuts would need.
_FEW_SEGMENTS = 12
_MOST_CUTS = 60
# Cuts in a row that decide nothing before the sweep takes what is left: lines meet in one point.
_IDLE_CUTS = 8
# What may be rounding: in a line, and in sums of mass or cost.
_NEAR, _ROUNDING = 1e-13, 1e-13


@jit
def narrow_row(q, b, e, epsilon, is_lower, u, steepest, out, work):
    """Write the row that maximises q within a finite budget and bounds; tell whether it was found.

    ``steepest`` is a t that the best one is not above. Where rounding has decided a segment wrongly
    the mass or the budget may not fit what is left, and the row is not found.
    """
    value, error = _write_lines(q, b, e, u, work)
    n_low, n_up = _list_segments(b, e, epsilon, is_lower, u, work)
    refund = 0.0 if is_lower else -1.0
    n = _first_polygon(n_low, n_up, refund, steepest * error / value, work)
    x, y, n_low, n_up = _cut_down(b, epsilon / error, refund, n, n_low, n_up, work)
    _mark(n_low, n_up, work)
    n_left, mass, spent = _write_decided(b, e, epsilon, is_lower, u, x, y, out, work)
    n = _write_rest(q, b, e, u, n_left, work)
    if not _spend_rest(
        work[3, :n], work[4, :n], work[5, :n], is_lower, work[6, :n], work[7, :n],
        mass, epsilon - spent, _ROUNDING * epsilon,
    ):  # fmt: skip
        return False
    _share(q, b, e, u, n_left, out, work)
    return True


@jit
def _may_fall(b, e, epsilon, is_lower):
    return b > 0.0 and (is_lower or (e < np.inf and (epsilon > 0.0 or e == 0.0)))


@jit
def _may_rise(b, e, epsilon, u):
    return u > b and e < np.inf and (epsilon > 0.0 or e == 0.0)


@jit
def _write_lines(q, b, e, u, work):
    """Write q, e and u - b, the former two in units of their mean size, which are returned."""
    n, middle, value, error = len(q), 0.0, 0.0, 0.0
    for a in range(n):
        middle += q[a] / n
        error += e[a] / n if e[a] < np.inf else 0.0
    for a in range(n):
        value += abs(q[a] - middle) / n
    value, error = value if value > 0.0 else 1.0, error if error > 0.0 else 1.0
    for a in range(n):
        work[6, a] = (q[a] - middle) / value
        work[7, a] = e[a] / error if e[a] < np.inf else 0.0  # only a lower step asks for it
        work[8, a] = u[a] - b[a]
    return value, error


@jit
def _list_segments(b, e, epsilon, is_lower, u, work):
    """List the actions whose lower and whose upper segments are not pinned; return the numbers."""
    n_low, n_up = 0, 0
    for a in range(len(b)):
        if _may_fall(b[a], e[a], epsilon, is_lower):
            work[0, n_low] = a
            n_low += 1
        if _may_rise(b[a], e[a], epsilon, u[a]):
            work[1, n_up] = a
            n_up += 1
    return n_low, n_up


@jit
def _height(q, c, x):
    return x * (q + c) - c


@jit
def _first_polygon(n_low, n_up, refund, steepest, work):
    """Write a polygon between the lowest and the highest line, for t up to a steepest one."""
    dearest = 0.0
    for k in range(n_up):
        dearest = max(dearest, work[7, int(work[1, k])])
    for k in range(n_low):
        dearest = max(dearest, -refund * work[7, int(work[0, k])])
    # Lines without costs meet at x = 0, where nothing could be decided.
    left = 1.0 / (1.0 + steepest * 1.001) if dearest > 0.0 else 0.5
    for side in range(2):
        x = left if side == 0 else 1.0
        low, high = np.inf, -np.inf
        for place in range(n_low + n_up):
            a = int(work[0, place]) if place < n_low else int(work[1, place - n_low])
            c = refund * work[7, a] if place < n_low else work[7, a]
            height = _height(work[6, a], c, x)
            low, high = min(low, height), max(high, height)
        beyond = 1e-3 * (high - low)
        first, second = (0, 3) if side == 0 else (1, 2)  # counter-clockwise
        work[2, first], work[3, first] = x, low - beyond
        work[2, second], work[3, second] = x, high + beyond
    return 4


@jit
def _cut_down(b, budget, refund, n, n_low, n_up, work):
    """Cut the polygon until few segments are undecided; return a point of it, and how many."""
    mass, spent, idle, now = 0.0, 0.0, 0, 2
    x, y = 0.0, 0.0
    for _ in range(_MOST_CUTS):
        x, y = _centre(work[now], work[now + 1], n)
        before = n_low + n_up
        n_low, given, saved, falls, refunds = _decide(
            work[0], n_low, -1.0, refund, b, x, y, work[now], work[now + 1], n, work
        )
        n_up, taken, paid, rises, costs = _decide(
            work[1], n_up, 1.0, 1.0, work[8], x, y, work[now], work[now + 1], n, work
        )
        mass, spent = mass + given + taken, spent + saved + paid
        idle = 0 if n_low + n_up < before else idle + 1
        if n_low + n_up <= _FEW_SEGMENTS or idle > _IDLE_CUTS:
            break
        other = 6 - now
        n_after = _cut(
            work[now], work[now + 1], n, x, y, -(mass + falls + rises),
            budget - (spent + refunds + costs), work[other], work[other + 1],
        )  # fmt: skip
        if n_after < 3:
            break
        now, n = other, n_after
    return x, y, n_low, n_up


@jit
def _centre(xs, ys, n):
    """Return the centre of gravity, or of the vertices if there is no area."""
    area, x, y = 0.0, 0.0, 0.0
    for k in range(1, n - 1):
        ax, ay, bx, by = xs[k] - xs[0], ys[k] - ys[0], xs[k + 1] - xs[0], ys[k + 1] - ys[0]
        part = max(0.0, ax * by - ay * bx)
        area += part
        x += part * (ax + bx) / 3.0
        y += part * (ay + by) / 3.0
    if area > 0.0:
        return xs[0] + x / area, ys[0] + y / area
    for k in range(n):
        x += xs[k] / n
        y += ys[k] / n
    return x, y


@jit
def _decide(actions, n, sign, slope, weights, x, y, xs, ys, n_vertices, work):
    """Keep the segments whose lines meet the polygon.

    A segment changes if it leaves the baseline: an upper one (sign 1) that is filled, a lower one
    (-1) that is emptied.

    Returns:
        How many are kept; mass and cost of those decided to change; the same of those kept which
        change at the point (x, y).
    """
    n_kept, mass, spent, more, dearer = 0, 0.0, 0.0, 0.0, 0.0
    for place in range(n):
        a = int(actions[place])
        q, c = work[6, a], slope * work[7, a]
        lowest, highest = np.inf, -np.inf
        for k in range(n_vertices):
            over = _height(q, c, xs[k]) - ys[k]
            lowest, highest = min(lowest, over), max(highest, over)
        near = _NEAR * (1.0 + abs(q) + abs(c))
        # Without branches, which nobody could predict.
        is_kept = (lowest <= near) & (highest >= -near)
        actions[n_kept] = a
        n_kept += is_kept
        changes = sign * (_height(q, c, x) - y) > 0.0
        part = sign * weights[a] if changes else 0.0
        part_kept = part if is_kept else 0.0
        more += part_kept
        dearer += part_kept * c
        mass += part - part_kept
        spent += (part - part_kept) * c
    return n_kept, mass, spent, more, dearer


@jit
def _cut(xs, ys, n, x, y, down, back, new_xs, new_ys):
    """Write the half of a polygon in which the dual may fall; return its number of vertices.

    Args:
        xs: The polygon, counter-clockwise.
        ys: The same.
        n: How many vertices.
        x: The point that the cut goes through.
        y: The same.
        down: How the dual changes with the price there: mass that is missing.
        back: How it changes with t: budget that is left.
        new_xs: What is kept.
        new_ys: The same.
    """
    n_new = 0
    last = n - 1
    before = down * (ys[last] * x - y * xs[last]) + back * (x - xs[last])
    for k in range(n):
        here = down * (ys[k] * x - y * xs[k]) + back * (x - xs[k])
        if (here > 0.0) != (before > 0.0):
            if n_new >= len(new_xs):
                return 0
            share = before / (before - here)
            new_xs[n_new] = xs[last] + share * (xs[k] - xs[last])
            new_ys[n_new] = ys[last] + share * (ys[k] - ys[last])
            n_new += 1
        if here <= 0.0:
            if n_new >= len(new_xs):
                return 0
            new_xs[n_new], new_ys[n_new] = xs[k], ys[k]
            n_new += 1
        last, before = k, here
    return n_new


@jit
def _mark(n_low, n_up, work):
    """Write which segments of each action are undecided: 1 the lower, 2 the upper, 3 both."""
    for a in range(work.shape[1]):
        work[8, a] = 0.0
    for k in range(n_low):
        work[8, int(work[0, k])] = 1.0
    for k in range(n_up):
        work[8, int(work[1, k])] += 2.0


@jit
def _write_decided(b, e, epsilon, is_lower, u, x, y, out, work):
    """Write what is decided, with lower segments that are not at 0, and list the other actions.

    Returns:
        Their number, the mass that they share, and what the decided ones cost.
    """
    n_left, mass, spent = 0, 0.0, 0.0
    for a in range(len(b)):
        q, error, kind = work[6, a], work[7, a], work[8, a]
        out[a] = b[a]
        is_full = kind < 2.0 and _height(q, error, x) > y
        is_empty = kind != 1.0 and kind != 3.0 and _height(q, 0.0 if is_lower else -error, x) <= y
        if is_full and _may_rise(b[a], e[a], epsilon, u[a]):
            out[a], kind = u[a], 0.0
            mass -= u[a] - b[a]
            spent += e[a] * (u[a] - b[a])
        elif is_empty and _may_fall(b[a], e[a], epsilon, is_lower):
            out[a], kind = 0.0, 0.0
            mass += b[a]
            spent += 0.0 if is_lower else e[a] * b[a]
        elif kind == 1.0 or kind == 3.0:
            out[a] = 0.0
            mass += b[a]
        work[8, a] = kind
        if kind > 0.0:
            work[2, n_left] = a
            n_left += 1
    return n_left, mass, spent


@jit
def _is_another(q, e, members, place):
    """Whether a member differs in q or e from the one before it."""
    if place == 0:
        return True
    a, last = int(members[place]), int(members[place - 1])
    return q[a] != q[last] or e[a] != e[last]


@jit
def _write_rest(q, b, e, u, n_left, work):
    """Write q, b, e and u of what is undecided, the same q and e as one action; return how many."""
    members, kinds = work[2], work[8]
    sort(members, n_left, e, q, work[0])
    n = 0
    for place in range(n_left):
        a = int(members[place])
        if _is_another(q, e, members, place):
            work[3, n], work[4, n], work[5, n], work[6, n] = q[a], 0.0, e[a], 0.0
            n += 1
        low = b[a] if kinds[a] != 2.0 else 0.0
        work[4, n - 1] += low
        work[6, n - 1] += low + (u[a] - b[a] if kinds[a] != 1.0 else 0.0)
    return n


@jit
def _spend_rest(q, b, e, is_lower, u, out, mass, budget, rounding):
    """Put the mass where it is cheapest, then spend the budget; tell whether both were enough."""
    total = 0.0
    for a in range(len(q)):
        total += b[a]
        out[a] = b[a]
    left = abs(mass - total)
    rises = mass >= total
    m = -1
    while m < 0 or left > 0.0:
        a = _cheapest(q, b, e, is_lower, u, out, rises)
        if a < 0:
            break
        m = a
        room = u[a] - b[a] if rises else b[a]
        if left >= room:
            out[a] = u[a] if rises else 0.0
        else:
            out[a] += left if rises else -left
        moved = min(room, left)
        budget -= moved * (0.0 if is_lower and not rises else e[a])
        left -= moved
    if left > _ROUNDING or budget < -rounding:
        return False
    if m >= 0:
        sweep(q, b, e, is_lower, u, out, m, rises, max(0.0, budget), MOST_EVENTS * len(q))
    return True


@jit
def _cheapest(q, b, e, is_lower, u, out, rises):
    """Return the action at b that costs least to fill, the best of those, or to empty; or -1."""
    found, least = -1, 0.0
    for a in range(len(q)):
        can = out[a] == b[a] and (u[a] > b[a] if rises else b[a] > 0.0)
        if can and (e[a] < np.inf or (is_lower and not rises)):
            cost = 0.0 if is_lower and not rises else e[a]
            is_better = found < 0 or cost < least
            if not is_better and cost == least:
                is_better = q[a] > q[found] if rises else q[a] < q[found]
            if is_better:
                found, least = a, cost
    return found


@jit
def _share(q, b, e, u, n_left, out, work):
    """Share the mass of actions that were one among them, the first first."""
    members, below, above, k = work[2], 0.0, 0.0, -1
    for place in range(n_left):
        a = int(members[place])
        if _is_another(q, e, members, place):
            k += 1
            below, above = work[7, k], max(0.0, work[7, k] - work[4, k])
        if work[8, a] != 2.0:
            out[a] = b[a] if work[7, k] >= work[4, k] else min(b[a], below)
            below -= out[a]
            below = max(0.0, below)
        if work[8, a] != 1.0:
            room = u[a] - b[a]
            is_full = above >= room or work[7, k] == work[6, k]
            out[a] = u[a] if is_full else min(u[a], out[a] + above)
            above = 0.0 if not is_full else max(0.0, above - room)
