r"""Steps whose probabilities have upper bounds u(a): what limits on actions come to in one row.

The row b that a step starts from must keep to them (b <= u).

*Exact*: maximise q.pi within the budget, with 0 <= pi <= u: the sweep (see sweeping), and in a row
of many actions what is left after a few events of it by narrowing (see there). *Pi_b* and *Pi_<=b*
are the exact and the lower step with errors 0 and infinity and no budget.

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
from spibb.operators.sorting import FEW, sort
from spibb.operators.sweeping import MOST_EVENTS, sweep

# Which actions are filled: all, those of finite error, or the others up to the baseline.
_EVERY, _ALLOWED, _OTHERS = 0, 1, 2


@jit
def capped_exact_row(q, b, e, epsilon, is_lower, n_events, u, out, work):
    """Write the row that maximises q within budget and bounds; an infinite budget is none.

    Returns:
        0, or if it is not found after ``n_events`` events of the sweep, a t that the best one is
        not above: `narrowed_exact_row` goes on with that. It is not called from here, since a call
        within a call takes a tenth of the time of a row of two actions.
    """
    if epsilon == np.inf:
        capped_greedy_row(q, b, e, n_events, u, out, work)
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
def capped_greedy_row(q, b, e, n_scanned, u, out, work):
    """Fill the actions of largest q up to their bounds; after some the others are sorted."""
    for a in range(len(q)):
        out[a] = 0.0
    _fill(q, b, e, u, _EVERY, 1.0, n_scanned, out, work)


@jit
def capped_allowed_row(q, b, e, n_scanned, u, out, work):
    """Fill actions of finite error, the best first; what is left stays where the baseline is."""
    for a in range(len(q)):
        out[a] = 0.0
    left = _fill(q, b, e, u, _ALLOWED, 1.0, n_scanned, out, work)
    _fill(q, b, e, u, _OTHERS, left, n_scanned, out, work)


@jit
def _bound(b, e, u, which):
    """Return how far an action may be filled, 0 if it is none of those asked for."""
    if which == _OTHERS:
        return b if e == np.inf else 0.0
    return u if which == _EVERY or e < np.inf else 0.0


@jit
def _fill(q, b, e, u, which, left, n_scanned, out, work):
    """Fill some actions, the best first; return the mass that is left, where bounds are short."""
    for _ in range(n_scanned):
        if left <= 0.0:
            return left
        best = -1
        for a in range(len(q)):
            if out[a] < _bound(b[a], e[a], u[a], which) and (best < 0 or q[a] > q[best]):
                best = a
        if best < 0:
            return left
        out[best] = min(_bound(b[best], e[best], u[best], which), left)
        left -= out[best]
    order, keys, spare = work[0], work[1], work[2]
    for a in range(len(q)):
        order[a], keys[a] = a, -q[a]
    sort(order, len(q), keys, keys, spare)
    for place in range(len(q)):
        a = int(order[place])
        bound = _bound(b[a], e[a], u[a], which)
        if out[a] < bound and left > 0.0:
            out[a] = min(bound, left)
            left -= out[a]
    return left


@jit
def capped_approx_row(q, b, e, epsilon, is_lower, is_adv, g, n_scanned, u, out, work):
    """Move mass to the best bargains that have room, within the budget, and the advantage."""
    if epsilon == np.inf and not is_adv:
        capped_greedy_row(q, b, e, n_scanned, u, out, work)
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
