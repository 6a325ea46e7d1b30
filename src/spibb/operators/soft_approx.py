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

Letters: q values, b baseline, e errors, out the new row.
"""

import numpy as np

from spibb.compiled.jit import jit
from spibb.mdp.greedy import copy_row
from spibb.operators.greedy import greedy_row


@jit
def soft_approx_row(q, b, e, epsilon, is_lower, out):
    """Move mass from the worst actions to the best bargains until the budget is spent.

    Only receivers pay if ``is_lower``, a value as in soft_exact_row.
    """
    if epsilon == np.inf:
        greedy_row(q, b, e, out)
        return
    copy_row(b, out)
    budget = epsilon
    donor = -1
    for _ in range(len(q)):
        donor = next_worst(q, donor)
        if out[donor] == 0.0 or (e[donor] == np.inf and not is_lower):
            continue
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
