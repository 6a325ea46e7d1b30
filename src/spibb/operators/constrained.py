"""The compiled loops of rows with upper bounds; rows without any take the plain step, bit for bit.

They are loops of their own, so that unlimited ones carry nothing for it.
"""

import numpy as np

from spibb.compiled.jit import jit
from spibb.mdp.greedy import replace_row
from spibb.operators.advantageous import adv_exact_row
from spibb.operators.capped import (
    capped_allowed_row,
    capped_approx_row,
    capped_exact_row,
    capped_greedy_row,
    n_fills,
    n_sweeps,
    narrowed_exact_row,
)
from spibb.operators.narrowing import N_NARROWING_ROWS
from spibb.operators.rows import N_SCRATCH_ROWS, Operator, step_row
from spibb.operators.sorting import FEW

# Those of the plain steps, or of the narrowed ones: what an operator keeps, and what it narrows in.
_N_ROWS = max(N_SCRATCH_ROWS, Operator.ADV_EXACT.needs.n_scratch_rows + N_NARROWING_ROWS)


@jit
def limited_step_row(operator, q, baseline, errors, epsilon, side, upper, out, work):
    """Apply one operator to one row with upper bounds, to which the baseline keeps."""
    is_limited = False
    for a in range(len(q)):
        is_limited |= upper[a] < 1.0
    scans = n_sweeps(len(q))
    if not is_limited:
        step_row(operator, q, baseline, errors, epsilon, side, out, work)
    elif operator == 0:
        capped_greedy_row(q, n_fills(len(q)), upper, out, work)
    elif operator == 1 or operator == 2 or operator == 3 or operator == 5:
        is_lower, budget = operator == 2 or operator == 5, epsilon if operator > 2 else 0.0
        steepest = capped_exact_row(q, baseline, errors, budget, is_lower, scans, upper, out, work)
        if steepest > 0.0:
            narrowed_exact_row(q, baseline, errors, budget, is_lower, upper, steepest, out, work)
    elif operator == 7:
        adv_exact_row(q, baseline, errors, epsilon, side, scans, is_limited, upper, out, work)
    elif operator == 9:
        capped_allowed_row(q, baseline, errors, n_fills(len(q)), upper, out, work)
    else:
        is_lower, is_adv, many = operator == 6, operator == 8, len(q) > FEW
        capped_approx_row(
            q, baseline, errors, epsilon, is_lower, is_adv, side, many, upper, out, work
        )


@jit
def limited_step_rows(operator, q, baseline, errors, epsilon, side, upper, out):
    """Apply one operator to N rows: arrays (N, A), epsilon (N,)."""
    work = np.empty((_N_ROWS, q.shape[1]))
    for k in range(len(q)):
        limited_step_row(operator, q[k], baseline[k], errors[k], epsilon[k], side[k], upper[k],
                         out[k], work)  # fmt: skip


@jit
def improve_limited(
    places, operator, problems, q, baseline, errors, epsilon, side, upper, policy, changed
):
    """Do as `spibb.operators.rows.improve_problems` does, with bounds and budgets (B, S)."""
    n_actions = policy.shape[2]
    work = np.empty((_N_ROWS, n_actions))
    new = np.empty(n_actions)
    for place in places:
        k = problems[place]
        changed[place] = False
        for x in range(policy.shape[1]):
            limited_step_row(operator, q[k, x], baseline[k, x], errors[k, x], epsilon[k, x],
                             side[k, x], upper[k, x], new, work)  # fmt: skip
            scale = np.abs(q[k, x]).max()
            changed[place] |= replace_row(policy[k, x], new, q[k, x], scale)
