r"""The approximate Soft-SPIBB step: Pseudo-code 2 of the paper.

Donors a- in increasing order of Q. Each gives to one receiver,
``a+ = argmax_a (q(a) - q(a-)) / e(a)``, the mass
``m = min(pi(a-), E / (2 e(a-)), E / (2 e(a+)))``, and the budget E falls by ``m (e(a-) + e(a+))``.
Either half of the budget covers its side, so the row is always (pi_b, e, epsilon)-constrained.

Deviations: a donor is passed over unless its best ratio is positive (the pseudo-code would let an
action give to itself, or to a pinned one, and pay for it); among receivers of the same ratio
the largest Q wins; epsilon = inf drops the constraint altogether. The released
code spreads a donor over several receivers with a stale cap and overspends by up to a quarter;
this one does not. The comparison with the previous iterate, the pseudo-code's last line, belongs to
the loop: see spibb.operators.rows.

The *lower* variant has a budget on increases only (Scholl et al. 2022, Lower-Approx-Soft-SPIBB):

    sum_a e(a) max(0, pi(a) - b(a)) <= epsilon

Donors in increasing order of Q give what they have; the receiver ``argmax_a (q(a) - q(a-)) / e(a)``
takes ``m = min(pi(a-), E / e(a+))`` and the budget falls by ``m e(a+)``. An infinite error forbids
increases only. The exact counterpart is in soft_exact.

A row of many actions is sorted (see sorting): a donor's best bargain is where the line through
(0, q(a-)) touches the frontier of receivers, and moves along it as the donors' q increases.

Letters: q values, b baseline, e errors, out the new row.
"""

import numpy as np

from spibb.compiled.jit import jit
from spibb.mdp.greedy import copy_row
from spibb.operators.greedy import greedy_row
from spibb.operators.sorting import cheapest_receiver, sort, write_frontier


@jit
def soft_approx_row(q, b, e, epsilon, is_lower, is_sorted, out, work):
    """Move mass from the worst actions to the best bargains until the budget is spent.

    Only receivers pay if ``is_lower``, a value as in soft_exact_row. If ``is_sorted``, actions are
    sorted in three rows of ``work``; else all of them are looked at for each donor.
    """
    if epsilon == np.inf:
        greedy_row(q, b, e, out)
        return
    copy_row(b, out)
    budget = epsilon
    donor, vertex = -1, 0
    n_vertices = sort_bargains(q, e, work) if is_sorted else 0
    for k in range(len(q)):
        donor = int(work[1, k]) if is_sorted else next_worst(q, donor)
        if out[donor] == 0.0 or (e[donor] == np.inf and not is_lower):
            continue
        if is_sorted:
            vertex = next_bargain(q, e, donor, work[0], n_vertices, vertex)
            receiver = receiver_at(q, donor, work[0], n_vertices, vertex)
        else:
            receiver = best_receiver(q, e, donor)
        if receiver < 0:
            continue
        mass = out[donor]
        dearest = e[receiver] if is_lower else 2.0 * max(e[donor], e[receiver])
        if dearest > 0.0:
            mass = min(mass, budget / dearest)
        out[receiver] += mass
        out[donor] -= mass
        price = e[receiver] if is_lower else e[donor] + e[receiver]
        budget = max(0.0, budget - mass * price)


@jit
def next_worst(q, last):
    """Return the action that follows ``last`` in the order of increasing (q, index)."""
    following = -1
    for a in range(len(q)):
        after = last < 0 or q[a] > q[last] or (q[a] == q[last] and a > last)
        if after and (following < 0 or q[a] < q[following]):
            following = a
    return following


@jit
def best_receiver(q, e, donor):
    """Return the action of largest positive gain per unit of error, or -1."""
    receiver = -1
    best = 0.0
    for a in range(len(q)):
        gain = q[a] - q[donor]
        if gain > 0.0 and e[a] < np.inf:
            ratio = gain / e[a]
            if ratio > best or (ratio == best and receiver >= 0 and q[a] > q[receiver]):
                receiver = a
                best = ratio
    return receiver


@jit
def sort_bargains(q, e, work):
    """Write the frontier of receivers and all actions by increasing q; return how many vertices."""
    frontier, order, spare = work[0], work[1], work[2]
    d = cheapest_receiver(q, e)
    n_vertices = write_frontier(q, e, d, frontier, order, spare) if d >= 0 else 0
    for a in range(len(q)):
        order[a] = a
    sort(order, len(q), q, q, spare)
    return n_vertices


@jit
def next_bargain(q, e, donor, frontier, n_vertices, vertex):
    """Return the place of a donor's best bargain, at or after that of a donor of less q."""
    while vertex + 1 < n_vertices:
        here, after = int(frontier[vertex]), int(frontier[vertex + 1])
        gain = q[here] - q[donor]
        # Among equal bargains the largest q wins.
        if gain > 0.0 and gain / e[here] > (q[after] - q[donor]) / e[after]:
            break
        vertex += 1
    return vertex


@jit
def receiver_at(q, donor, frontier, n_vertices, vertex):
    """Return the action at a place of the frontier, or -1 if it is not better than the donor."""
    if n_vertices == 0:
        return -1
    receiver = int(frontier[vertex])
    return receiver if q[receiver] > q[donor] else -1
