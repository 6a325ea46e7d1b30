"""The compiled loops that carry a row function over many rows.

One loop serves every operator, chosen by a number: a single signature to compile and to cache.
"""

from enum import IntEnum
from typing import NamedTuple, Self

import numpy as np

from spibb.compiled.jit import jit
from spibb.mdp.greedy import replace_row
from spibb.operators.advantageous import adv_approx_row, adv_exact_row
from spibb.operators.bootstrap import bootstrap_row
from spibb.operators.greedy import greedy_allowed_row, greedy_row
from spibb.operators.soft_approx import soft_approx_row
from spibb.operators.soft_exact import n_scans, soft_exact_row
from spibb.operators.sorting import FEW


class Needs(NamedTuple):
    """What an operator looks at besides Q.

    Attributes:
        errors: The baseline, and errors around it.
        budget: A budget epsilon, of which errors are the prices. Without one they are 0 where an
            action is trusted and infinite where it is not.
        q_baseline: An estimate of the baseline's Q.
        n_scratch_rows: Rows of scratch that it writes to.
        n_sorting_rows: Rows besides, where a row has many actions.
    """

    errors: bool = True
    budget: bool = False
    q_baseline: bool = False
    n_scratch_rows: int = 0
    n_sorting_rows: int = 0

    def scratch(self, n_actions: int) -> int:
        """Return how many rows of scratch a row of so many actions needs."""
        return self.n_scratch_rows + (self.n_sorting_rows if n_actions > FEW else 0)


_NO_BUDGET = Needs()
_EXACT, _APPROX = Needs(budget=True, n_sorting_rows=6), Needs(budget=True, n_sorting_rows=3)


class Operator(IntEnum):
    """The improvement steps, by the numbers that the compiled loops know.

    Attributes:
        needs: What it looks at besides Q.
    """

    needs: Needs

    GREEDY = 0, Needs(errors=False)
    PI_B = 1
    PI_LEQ_B = 2
    SOFT_EXACT = 3, _EXACT
    SOFT_APPROX = 4, _APPROX
    LOWER_EXACT = 5, _EXACT
    LOWER_APPROX = 6, _APPROX
    ADV_EXACT = 7, _EXACT._replace(q_baseline=True, n_scratch_rows=4)
    ADV_APPROX = 8, _APPROX._replace(q_baseline=True)
    GREEDY_ALLOWED = 9

    def __new__(cls, number: int, needs: Needs = _NO_BUDGET) -> Self:
        """Make an operator of its number and what it needs."""
        operator = int.__new__(cls, number)
        operator._value_, operator.needs = number, needs
        return operator


# Enough for any of them.
N_SCRATCH_ROWS = max(operator.needs.scratch(FEW + 1) for operator in Operator)


@jit
def step_row(operator, q, baseline, errors, epsilon, side, out, work):
    """Apply one operator to one row; ``side`` is the baseline's Q where the operator wants it."""
    many = len(q) > FEW
    if operator == 0:
        greedy_row(q, baseline, errors, out)
    elif operator == 1 or operator == 2:
        bootstrap_row(q, baseline, errors, operator == 2, out)
    elif operator == 3 or operator == 5:
        scans = n_scans(len(q))
        soft_exact_row(q, baseline, errors, epsilon, operator == 5, scans, out, work)
    elif operator == 4 or operator == 6:
        soft_approx_row(q, baseline, errors, epsilon, operator == 6, many, out, work)
    elif operator == 7:
        scans = n_scans(len(q))
        adv_exact_row(q, baseline, errors, epsilon, side, scans, operator == 0, q, out, work)
    elif operator == 8:
        adv_approx_row(q, baseline, errors, epsilon, side, many, out, work)
    else:
        greedy_allowed_row(q, baseline, errors, out)


@jit
def step_rows(operator, q, baseline, errors, epsilon, side, out):
    """Apply one operator to N rows: arrays (N, A), epsilon (N,)."""
    work = np.empty((N_SCRATCH_ROWS, q.shape[1]))
    for row in range(len(q)):
        step_row(
            operator, q[row], baseline[row], errors[row], epsilon[row], side[row], out[row], work
        )


@jit
def improve_row(operator, q, baseline, errors, epsilon, side, policy, new, work):
    """Improve one row of a policy in place, and tell whether it changed.

    A row is replaced only if its expected q rises, by more than rounding: the approximate step need
    not contain the previous row in its search space, and could otherwise cycle (the paper's remark
    on its Pseudo-code 2). For the other operators the test only keeps a row where another ties with
    it, as all do in a terminal state; with gamma = 1 a tie may lead into a loop that never ends.
    """
    step_row(operator, q, baseline, errors, epsilon, side, new, work)
    scale = 0.0
    for a in range(len(q)):
        scale = max(scale, abs(q[a]))
    return replace_row(policy, new, q, scale)


@jit
def improve_problems(
    places, operator, problems, q, baseline, errors, epsilon, side, policy, changed
):
    """Improve the policies of some problems in place, and tell which of them changed."""
    n_states = policy.shape[1]
    n_actions = policy.shape[2]
    work = np.empty((N_SCRATCH_ROWS, n_actions))
    new = np.empty(n_actions)
    for place in places:
        problem = problems[place]
        changed[place] = False
        for x in range(n_states):
            changed[place] |= improve_row(
                operator, q[problem, x], baseline[problem, x], errors[problem, x], epsilon,
                side[problem, x], policy[problem, x], new, work
            )  # fmt: skip
