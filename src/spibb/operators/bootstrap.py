r"""The two SPIBB steps (Laroche, Trichelair, Tachet des Combes, ICML 2019).

A pair is *bootstrapped* when the log holds too little of it, *trusted* otherwise. Both steps
maximise the expected Q over a set of rows around the baseline b:

* Pi_b: ``pi(a) = b(a)`` on bootstrapped actions, so the trusted ones share the rest and the best
  of them takes it all;
* Pi_<=b: ``pi(a) <= b(a)`` on bootstrapped actions. Bootstrapped actions better than every trusted
  one keep what they have; the best trusted action takes everything else.

Both copy the baseline where no action is trusted. In ties a trusted action goes before a
bootstrapped one, and a lower index before a higher. Bootstrapped actions carry an infinite error,
trusted ones a finite error. Letters: q values, b baseline, e errors, out the new row.
"""

import numpy as np

from spibb.compiled.jit import jit
from spibb.operators.greedy import best_allowed


@jit
def bootstrap_row(q, b, e, is_leq, out):
    """Copy the baseline on bootstrapped actions, be greedy on the others.

    Keep at most the baseline's probability on bootstrapped actions if ``is_leq``.
    """
    best = best_allowed(q, e)
    mass = 0.0
    for a in range(len(q)):
        if e[a] == np.inf and (best < 0 or q[a] > q[best] or not is_leq):
            out[a] = b[a]
        else:
            mass += b[a]
            out[a] = 0.0
    if best >= 0:
        out[best] = mass
