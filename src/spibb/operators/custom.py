"""A step of one's own: the loops of policy iteration around any row function, on the CPU."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from spibb.compiled.jit import uncached_jit
from spibb.mdp.greedy import replace_row


@cache
def loops_around(row: Any) -> Any:
    """Compile what `spibb.operators.rows.improve_problems` does, with another step.

    Args:
        row: A compiled function (q, baseline, errors, epsilon, out) that writes one new row.
    """

    @uncached_jit
    def improve(places, number, problems, q, baseline, errors, epsilon, side, policy, changed):  # type: ignore[no-untyped-def]
        new = np.empty(policy.shape[2])
        for place in places:
            problem = problems[place]
            changed[place] = False
            for x in range(policy.shape[1]):
                here = q[problem, x]
                row(here, baseline[problem, x], errors[problem, x], epsilon, new)
                scale = np.abs(here).max()
                changed[place] |= replace_row(policy[problem, x], new, here, scale)

    return improve
