"""Rows of many actions: sorted steps equal the steps that look at every action for each event."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spibb import operators
from spibb.operators.advantageous import adv_approx_row, adv_exact_row
from spibb.operators.rows import N_SCRATCH_ROWS, Operator
from spibb.operators.soft_approx import soft_approx_row
from spibb.operators.soft_exact import n_scans, soft_exact_row
from spibb.operators.sorting import FEW
from spibb.testing import reference, reference_successors
from spibb.testing.strategies import soft_rows

NEVER = 10**9
STEPS = ("soft", "lower", "adv")


def exact(row, g, kind, n_scanned):
    q, b, e, epsilon = row
    out, work = np.empty(len(q)), np.full((N_SCRATCH_ROWS, len(q)), np.nan)
    if kind == "adv":
        adv_exact_row(q, b, e, epsilon, g, n_scanned, False, q, out, work)
    else:
        soft_exact_row(q, b, e, epsilon, kind == "lower", n_scanned, out, work)
    return out


def approx(row, g, kind, is_sorted):
    q, b, e, epsilon = row
    out, work = np.empty(len(q)), np.full((N_SCRATCH_ROWS, len(q)), np.nan)
    if kind == "adv":
        adv_approx_row(q, b, e, epsilon, g, is_sorted, out, work)
    else:
        soft_approx_row(q, b, e, epsilon, kind == "lower", is_sorted, out, work)
    return out


def random_row(rng, n):
    """Ties of values, errors and prices; zero, infinite errors; zero probabilities, budgets."""
    grid = 2.0 ** -int(rng.integers(0, 4))  # prices of such values and errors tie exactly
    q = rng.normal(scale=3.0, size=n)
    errors = rng.exponential(size=n) + 1e-3
    if rng.random() < 0.5:
        q = np.round(q / grid) * grid
    if rng.random() < 0.5:
        errors = np.ceil(errors / grid) * grid
    if rng.random() < 0.3:  # a frontier through all of them, where a scan takes longest
        errors = np.sort(errors)
        q = np.round(8.0 * np.sqrt(errors)) / 8.0 if rng.random() < 0.5 else np.sqrt(errors)
        order = rng.permutation(n)
        q, errors = q[order], errors[order]
    kind = rng.random(n)
    errors[kind < rng.choice([0.0, 0.1])] = 0.0
    errors[kind > rng.choice([0.0, 0.7, 1.0])] = np.inf
    weights = rng.exponential(size=n) * (rng.random(n) < 0.8)
    weights[rng.integers(n)] += 0.5
    epsilon = float(rng.choice([0.0, 1e-6, 0.01, 0.3, 2.0, 100.0, np.inf]))
    g = -q if rng.random() < 0.3 else rng.normal(size=n).round(2)
    return (q, weights / weights.sum(), errors, epsilon), g


@pytest.mark.parametrize("kind", STEPS)
def test_sorted_rows_equal_scanned_rows(kind):
    rng = np.random.default_rng(20261116)
    sizes = [*rng.integers(1, 30, 1_500), *rng.integers(30, 300, 300), 1_000, 5_000]
    for number, n in enumerate(sizes):
        row, g = random_row(rng, int(n))
        scanned = exact(row, g, kind, NEVER)
        for n_scanned in (0, 1, 3, n_scans(len(g))):
            found = exact(row, g, kind, n_scanned)
            np.testing.assert_allclose(found, scanned, rtol=0, atol=1e-12, err_msg=f"row {number}")
        found = approx(row, g, kind, is_sorted=True)
        expected = approx(row, g, kind, is_sorted=False)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12, err_msg=f"row {number}")


@given(row=soft_rows(), seed=st.integers(0, 10**6))
@settings(max_examples=500, deadline=None, derandomize=True)
def test_sorted_rows_keep_their_promises(row, seed):
    q, baseline, errors, epsilon = row
    g = np.random.default_rng(seed).normal(size=len(q))
    for kind in STEPS:
        scale = 1e-12 * (1 + abs(q).max())
        scanned = exact(row, g, kind, NEVER)
        found = exact(row, g, kind, 0)
        # Where rounding alone tells two prices apart, another row is worth the same.
        assert abs(q @ found - q @ scanned) <= scale
        assert abs(found.sum() - 1.0) <= 1e-12
        assert (found >= 0.0).all()
        approximate = approx(row, g, kind, is_sorted=True)
        assert abs(approximate.sum() - 1.0) <= 1e-12
        assert q @ baseline - scale <= q @ approximate <= q @ found + scale
        if np.isfinite(epsilon) and kind != "lower":
            for new in (found, approximate):
                cost = reference.constraint_cost(new, baseline, errors)
                assert cost <= epsilon * (1 + 1e-12) + 1e-14 * errors[np.isfinite(errors)].sum()
                np.testing.assert_array_equal(new[np.isinf(errors)], baseline[np.isinf(errors)])


LOOPS = {
    Operator.SOFT_APPROX: lambda q, b, e, epsilon, g: reference.soft_approx_row(q, b, e, epsilon),
    Operator.LOWER_APPROX: lambda q, b, e, epsilon, g: reference_successors.lower_approx_row(
        q, b, e, epsilon
    ),
    Operator.ADV_APPROX: reference_successors.adv_approx_row,
}


@pytest.mark.parametrize("operator", LOOPS, ids=lambda operator: operator.name)
def test_above_the_switch_the_approximate_steps_equal_their_loops(operator):
    rng = np.random.default_rng(5)
    for n in (FEW, FEW + 1, 200):
        (q, b, e, _), g = random_row(rng, n)
        for epsilon in (0.0, 0.3, 2.0, np.inf):
            found = operators.apply(operator, q, b, e, epsilon, g)
            np.testing.assert_allclose(found, LOOPS[operator](q, b, e, epsilon, g), atol=1e-12)


def test_above_the_switch_the_exact_steps_equal_linear_programs():
    rng = np.random.default_rng(6)
    for n in (FEW + 1, 150, 150, 300):
        (q, b, e, _), g = random_row(rng, n)
        for epsilon in (0.0, 0.02, 0.3, 2.0):
            for operator, best in (
                (Operator.SOFT_EXACT, {}),
                (Operator.LOWER_EXACT, {"is_lower": True}),
                (Operator.ADV_EXACT, {"g": g}),
            ):
                found = operators.apply(operator, q, b, e, epsilon, g)
                expected = reference_successors.best_value(q, b, e, epsilon, **best)
                assert q @ found == pytest.approx(expected, abs=1e-6)


def test_five_thousand_actions_in_policy_iteration():
    """The whole way: a row of 5,000 actions among them, by every algorithm that is soft."""
    from spibb import ApproxSoftSPIBB, Counts, ExactSoftSPIBB, Log, TabularPolicy

    rng = np.random.default_rng(0)
    n = 5_000
    action = rng.integers(0, n, 20_000)
    log = Log.from_arrays(
        state=np.zeros(20_000, int), action=action, reward=np.sin(action) + rng.normal(size=20_000),
        next_state=np.zeros(20_000, int), terminated=np.ones(20_000, bool), n_states=1, n_actions=n,
    )  # fmt: skip
    for algorithm in (ApproxSoftSPIBB(epsilon=0.5), ExactSoftSPIBB(epsilon=0.5)):
        problem = Counts.from_log(log)
        result = algorithm.improve(
            problem, baseline=TabularPolicy.uniform(1, n), gamma=0.0, initial=[1.0]
        )
        assert result.status.is_success
        assert result.v[0] > 0.3


def test_scratch_is_asked_for_where_it_is_needed():
    for operator in Operator:
        assert operator.needs.scratch(FEW) == operator.needs.n_scratch_rows
        more = operator.needs.scratch(FEW + 1) - operator.needs.scratch(FEW)
        assert more == operator.needs.n_sorting_rows
