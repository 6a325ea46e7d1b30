r"""Approximate step with a budget on increases only (Scholl et al. 2022, Lower-Approx-Soft-SPIBB).

    sum_a e(a) max(0, pi(a) - b(a)) <= epsilon

Donors in increasing order of Q give what they have; the receiver ``argmax_a (q(a) - q(a-)) / e(a)``
takes ``m = min(pi(a-), E / e(a+))`` and the budget falls by ``m e(a+)``. An infinite error forbids
increases only. The exact counterpart is in soft_exact. Letters as there.
"""

import numpy as np

from spibb.compiled.jit import jit
from spibb.mdp.greedy import copy_row
from spibb.operators.greedy import greedy_row
from spibb.operators.soft_approx import best_receiver, next_worst


@jit
def lower_approx_row(q, b, e, epsilon, out):
    """Move mass from the worst actions to the best bargains; only receivers pay."""
    if epsilon == np.inf:
        greedy_row(q, b, e, out)
        return
    copy_row(b, out)
    budget = epsilon
    donor = -1
    for _ in range(len(q)):
        donor = next_worst(q, donor)
        if out[donor] == 0.0:
            continue
        receiver = best_receiver(q, e, donor)
        if receiver < 0:
            continue
        mass = out[donor]
        if e[receiver] > 0.0:
            mass = min(mass, budget / e[receiver])
        out[receiver] += mass
        out[donor] -= mass
        budget = max(0.0, budget - mass * e[receiver])
