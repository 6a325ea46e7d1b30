r"""Steps whose probabilities have upper bounds u(a): what limits on actions come to in one row.

The row b that a step starts from must keep to them (b <= u).

*Exact*: maximise q.pi within the budget, with 0 <= pi <= u. Cut each action into two segments, from
0 to b(a), which is full at first, and from b(a) to u(a), which is empty. A unit in the lower
segment is worth q(a) and refunds e(a), in the upper one it is worth q(a) and costs e(a): with a
multiplier t on the budget all segments are lines q - t c in one plane, c = -e or e, and the best
row fills the highest of them. So let t fall from infinity. One segment is the *margin*, whose line
is the price of mass; the next event is the largest t at which another line meets it. Mass then
moves between the two, at c' - c a unit, until one of them is empty or full, which becomes or leaves
the margin. Each event is the best bargain left, so the sweep may stop where the budget ends, in the
midst of one. O(A) an event; without bounds these are the events of soft_exact.

*Lower*: donors neither pay nor are refunded, c = 0 in lower segments. *Pi_b* and *Pi_<=b* are the
exact and the lower step with errors 0 and infinity and no budget.

*Approximate*: the transfers of soft_approx and advantageous, to receivers that have room; a donor
whose receiver is full goes on with its next best bargain.

Letters: q values, b baseline, e errors, g the baseline's Q, u upper bounds, out the new row, m the
margin.
"""

import numpy as np

from spibb.compiled.jit import jit
from spibb.mdp.greedy import copy_row
from spibb.operators.narrowing import narrow_row
from spibb.operators.soft_approx import next_worst
from spibb.operators.soft_exact import n_scans
from spibb.operators.sorting import FEW
from spibb.operators.sweeping import MOST_EVENTS, sweep

@jit
def capped_exact_row(q, b, e, epsilon, is_lower, n_events, u, out):
    """Write the row that maximises q within budget and bounds; an infinite budget is none.

    Returns:
        0, or if it is not found after ``n_events`` events of the sweep, a t that the best one is
        not above: `narrowed_exact_row` goes on with that. It is not called from here, since a call
        within a call takes a tenth of the time of a row of two actions.
    """
    if epsilon == np.inf:
        capped_greedy_row(q, u, out)
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
        capped_exact_row(q, b, e, epsilon, is_lower, MOST_EVENTS * len(q), u, out)


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
def capped_greedy_row(q, u, out):
    """Fill the actions of largest q up to their bounds."""
    for a in range(len(q)):
        out[a] = 0.0
    left = 1.0
    while left > 0.0:
        best = -1
        for a in range(len(q)):
            if out[a] < u[a] and (best < 0 or q[a] > q[best]):
                best = a
        if best < 0:
            break  # bounds add up to 1 but for rounding
        out[best] = min(u[best], left)
        left -= out[best]


@jit
def capped_allowed_row(q, b, e, u, out):
    """Fill actions of finite error, the best first; what is left stays where the baseline is."""
    left = 1.0
    for a in range(len(q)):
        out[a] = 0.0
    for is_allowed in (True, False):
        while left > 0.0:
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


@jit
def capped_approx_row(q, b, e, epsilon, is_lower, is_adv, g, u, out):
    """Move mass to the best bargains that have room, within the budget, and the advantage."""
    if epsilon == np.inf and not is_adv:
        capped_greedy_row(q, u, out)
        return
    copy_row(b, out)
    budget, earned = epsilon, 0.0
    donor = -1
    for _ in range(len(q)):
        donor = next_worst(q, donor)
        is_pinned = e[donor] == np.inf and not is_lower and epsilon < np.inf
        while out[donor] > 0.0 and not is_pinned:
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
            out[receiver] = u[receiver] if is_full else out[receiver] + mass
            out[donor] -= mass
            earned = max(0.0, earned + gain * mass)
            if epsilon < np.inf:
                price = e[receiver] if is_lower else e[donor] + e[receiver]
                budget = max(0.0, budget - mass * price)
            if not is_full:
                break


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
