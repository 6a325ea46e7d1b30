r"""Soft steps that stay advantageous over the baseline (Adv-Soft-SPIBB, Scholl et al. 2022).

Beside the budget, the row must not lose by an estimate Q_b of the baseline's values:

    sum_a Q_b(a) (pi(a) - b(a)) >= 0.

*Approximate*: the transfers of soft_approx, with a second account of the advantage earned so far. A
transfer that loses by Q_b is cut to what the account holds.

*Exact*: put a multiplier mu >= 0 on the advantage; for fixed mu the problem is the plain exact step
for q + mu Q_b. Keep ``lo``, optimal but not advantageous, and ``hi``, advantageous; the mu at which
both are worth the same gives a new vertex that replaces one of them, or proves that the mix of the
two with advantage zero is optimal. Finite: each pass finds a new vertex. Letters: q values, b
baseline, e errors, g the baseline's Q, out the new row, work scratch: four rows of the exact step,
and those of sorting (see there) where a row has many actions.
"""

import numpy as np

from spibb.compiled.jit import jit
from spibb.mdp.greedy import best_action, copy_row
from spibb.operators.capped import capped_exact_row, narrowed_exact_row
from spibb.operators.soft_approx import (
    best_receiver,
    next_bargain,
    next_worst,
    receiver_at,
    sort_bargains,
)
from spibb.operators.soft_exact import soft_exact_row

# Far above the number of vertices met in practice (at most 6 on 1,500 random rows).
_MOST_PASSES = 1_000


@jit
def dot(u, v):
    """Return u.v."""
    total = 0.0
    for a in range(len(u)):
        total += u[a] * v[a]
    return total


@jit
def gap(g, pi, b):
    """Return the advantage sum_a g(a) (pi(a) - b(a))."""
    total = 0.0
    for a in range(len(g)):
        total += g[a] * (pi[a] - b[a])
    return total


@jit
def adv_approx_row(q, b, e, epsilon, g, is_sorted, out, work):
    """Move mass within the budget and within the advantage earned."""
    copy_row(b, out)
    budget = epsilon
    earned = 0.0
    best = best_action(q)
    donor, vertex = -1, 0
    n_vertices = sort_bargains(q, e, work) if is_sorted else 0
    for k in range(len(q)):
        donor = int(work[1, k]) if is_sorted else next_worst(q, donor)
        if out[donor] == 0.0 or (e[donor] == np.inf and epsilon < np.inf):
            continue
        # The best bargain within a budget; without one, the action of largest q.
        if epsilon == np.inf:
            receiver = best if q[best] > q[donor] else -1
        elif is_sorted:
            vertex = next_bargain(q, e, donor, work[0], n_vertices, vertex)
            receiver = receiver_at(q, donor, work[0], n_vertices, vertex)
        else:
            receiver = best_receiver(q, e, donor)
        if receiver < 0:
            continue
        mass = out[donor]
        dearer = max(e[donor], e[receiver])
        if epsilon < np.inf and dearer > 0.0:
            mass = min(mass, budget / (2.0 * dearer))
        gain = g[receiver] - g[donor]
        if gain < 0.0:
            mass = min(mass, earned / -gain)
        out[receiver] += mass
        out[donor] -= mass
        earned = max(0.0, earned + gain * mass)
        if epsilon < np.inf:
            budget = max(0.0, budget - mass * (e[donor] + e[receiver]))


@jit
def adv_exact_row(q, b, e, epsilon, g, n_scanned, is_capped, u, out, work):
    """Write the row that maximises q within the budget among the advantageous ones.

    If ``is_capped``, u are upper bounds; else nobody looks at them.
    """
    lo, hi, new, mixed = work[0], work[1], work[2], work[3]
    largest = 0.0
    for a in range(len(g)):
        largest = max(largest, abs(g[a]))
    rounding = -1e-14 * largest  # an advantage of zero comes out as this much
    is_lower = epsilon < 0.0  # never; see soft_exact_row
    _plain_row(q, b, e, epsilon, is_lower, n_scanned, is_capped, u, lo, work)
    if gap(g, lo, b) >= rounding:
        copy_row(lo, out)
        return
    copy_row(b, hi)
    for _ in range(_MOST_PASSES):
        mu = (dot(q, lo) - dot(q, hi)) / (dot(g, hi) - dot(g, lo))
        if not mu > 0.0:
            break
        for a in range(len(q)):
            mixed[a] = q[a] + mu * g[a]
        _plain_row(mixed, b, e, epsilon, is_lower, n_scanned, is_capped, u, new, work)
        # The terms of q + mu g may cancel: rounding is as large as they are, not as their sum.
        scale = 0.0
        for a in range(len(q)):
            scale = max(scale, abs(q[a]) + mu * abs(g[a]))
        if dot(mixed, new) - dot(mixed, lo) <= 1e-13 * scale:
            _mix(lo, hi, b, e, epsilon, g, out)
            if is_capped:
                for a in range(len(out)):
                    out[a] = min(out[a], u[a])  # a mix of a bound with itself may round up
            return
        if gap(g, new, b) >= rounding:
            copy_row(new, hi)
        else:
            copy_row(new, lo)
    copy_row(hi, out)


@jit
def _plain_row(q, b, e, epsilon, is_lower, n_scanned, is_capped, u, out, work):
    if is_capped:
        steepest = capped_exact_row(q, b, e, epsilon, is_lower, n_scanned, u, out, work[4:])
        if steepest > 0.0:
            narrowed_exact_row(q, b, e, epsilon, is_lower, u, steepest, out, work[4:])
    else:
        soft_exact_row(q, b, e, epsilon, is_lower, n_scanned, out, work[4:])


@jit
def _mix(lo, hi, b, e, epsilon, g, out):
    """Write the mix of lo and hi whose advantage is zero; pinned entries stay bit for bit."""
    low, high = gap(g, lo, b), gap(g, hi, b)
    share = max(0.0, high) / (max(0.0, high) - low)
    for a in range(len(lo)):
        if e[a] == np.inf and epsilon < np.inf:
            out[a] = b[a]
        else:
            out[a] = share * lo[a] + (1.0 - share) * hi[a]
