"""Time a row of many actions: sorted, beside looking at every action for each event, in one run."""

import numpy as np
import pytest
from problems import clock

from spibb.compiled.jit import uncached_jit
from spibb.operators.advantageous import adv_approx_row, adv_exact_row
from spibb.operators.rows import N_SCRATCH_ROWS, Operator, step_rows
from spibb.operators.soft_approx import soft_approx_row
from spibb.operators.soft_exact import soft_exact_row

SIZES = (4, 16, 64, 256, 1_000, 5_000)
EPSILON = 0.5
# More than all events: nothing is sorted, however many actions there are.
NEVER = 10**9


@uncached_jit
def scanned_rows(operator, q, b, e, g, out):
    """Take the steps as they are taken for few actions."""
    work = np.empty((N_SCRATCH_ROWS, q.shape[1]))
    for k in range(len(out)):
        if operator == 3 or operator == 5:
            soft_exact_row(q[k], b[k], e[k], EPSILON, operator == 5, NEVER, out[k], work)
        elif operator == 4 or operator == 6:
            soft_approx_row(q[k], b[k], e[k], EPSILON, operator == 6, False, out[k], work)
        elif operator == 7:
            adv_exact_row(q[k], b[k], e[k], EPSILON, g[k], NEVER, False, q[k], out[k], work)
        else:
            adv_approx_row(q[k], b[k], e[k], EPSILON, g[k], False, out[k], work)


@pytest.mark.parametrize("n_actions", SIZES)
@pytest.mark.parametrize(
    "operator", [each for each in Operator if each.needs.budget], ids=lambda each: each.name.lower()
)
def test_rows_of_many_actions(benchmark, figures, operator, n_actions):
    rng = np.random.default_rng(3)
    # Enough rows that a processor cannot learn the branches of all of them.
    n_rows = min(2_000, max(20, 400_000 // n_actions))
    q, g = rng.normal(size=(2, n_rows, n_actions))
    baseline = rng.dirichlet(np.ones(n_actions), n_rows)
    errors = rng.exponential(size=q.shape)
    out, budgets = np.empty_like(q), np.full(n_rows, EPSILON)
    benchmark.pedantic(
        lambda: step_rows(int(operator), q, baseline, errors, budgets, g, out),
        rounds=5, warmup_rounds=1,
    )  # fmt: skip
    ours = benchmark.stats.stats.median / n_rows
    rows = np.empty_like(out[: max(4, 100_000 // n_actions)])
    scanned_rows(int(operator), q, baseline, errors, g, rows[:1])
    start = clock()
    scanned_rows(int(operator), q, baseline, errors, g, rows)
    peer = (clock() - start) / len(rows)
    np.testing.assert_allclose(rows, out[: len(rows)], rtol=0, atol=1e-12)
    figures(
        f"{operator.name.lower()}, {n_actions:,} actions, a row",
        f"{1e6 * ours:.2f} us", f"{1e6 * peer:.2f} us (every action for each event)", peer / ours,
    )  # fmt: skip
