"""Rows of many actions with upper bounds: narrowed and sorted ones equal those of the sweep."""

import numpy as np
import pytest

from spibb.operators.advantageous import adv_exact_row
from spibb.operators.capped import (
    capped_allowed_row,
    capped_approx_row,
    capped_exact_row,
    capped_greedy_row,
    n_sweeps,
    narrowed_exact_row,
)
from spibb.operators.constrained import limited_step_rows
from spibb.operators.narrowing import N_NARROWING_ROWS, narrow_row
from spibb.operators.rows import Operator
from spibb.operators.sorting import FEW
from spibb.testing.reference_limits import best_limited_value

NEVER = 10**9


def random_row(rng, n):
    """Ties of values, errors and prices; zero, infinite, far apart errors; locked actions."""
    grid = 2.0 ** -int(rng.integers(0, 4))
    q = rng.normal(scale=3.0, size=n)
    e = rng.exponential(size=n) + 1e-3
    if rng.random() < 0.2:
        e = np.exp(3.0 * rng.normal(size=n))
    if rng.random() < 0.5:
        q = np.round(q / grid) * grid
    if rng.random() < 0.5:
        e = np.ceil(e / grid) * grid
    if rng.random() < 0.2:
        q = e.copy()  # lines that meet in one point
    if rng.random() < 0.2:
        unobserved = rng.random(n) < 0.7  # lines that are one
        q[unobserved], e[unobserved] = 0.125, 2.0
    kind = rng.random(n)
    e[kind < rng.choice([0.0, 0.1])] = 0.0
    e[kind > rng.choice([0.0, 0.7, 1.0])] = np.inf
    weights = rng.exponential(size=n) * (rng.random(n) < 0.8)
    weights[rng.integers(n)] += 0.5
    b = weights / weights.sum()
    kind, most = rng.random(n), rng.choice([0.5, 0.05, 2.0 / n])
    room = np.where(kind < rng.choice([0.5, 0.8, 1.0]), rng.random(n) * most, 1.0)
    u = np.where(rng.random(n) < 0.3, b, np.minimum(1.0, b + room))
    epsilon = float(rng.choice([0.0, 1e-6, 0.01, 0.3, 2.0, 100.0]))
    return q, b, e, epsilon, u


def exact(row, n_scanned, *, is_lower):
    """Return the new row, and whether it was left to narrowing."""
    q, b, e, epsilon, u = row
    out, work = np.empty(len(q)), np.full((N_NARROWING_ROWS, len(q)), np.nan)
    steepest = capped_exact_row(q, b, e, epsilon, is_lower, n_scanned, u, out, work)
    if steepest > 0.0:
        narrowed_exact_row(q, b, e, epsilon, is_lower, u, steepest, out, work)
    return out, steepest > 0.0


def check_feasible(pi, row, *, is_lower, name):
    _, b, e, epsilon, u = row
    assert (pi >= 0.0).all(), name
    assert (pi <= u).all(), name
    assert abs(pi.sum() - 1.0) <= 1e-12, name
    moved = np.maximum(pi - b, 0.0) if is_lower else np.abs(pi - b)
    known = np.isfinite(e)
    assert e[known] @ moved[known] <= epsilon * (1.0 + 1e-12) + 1e-15 * e[known].sum(), name
    assert (pi[~known] <= b[~known]).all(), name
    if not is_lower:
        np.testing.assert_array_equal(pi[~known], b[~known], err_msg=name)


@pytest.mark.parametrize("is_lower", [False, True], ids=["soft", "lower"])
def test_narrowed_rows_are_worth_as_much_as_swept_ones(is_lower):
    rng = np.random.default_rng(20261117)
    sizes = [*rng.integers(2, 30, 1_500), *rng.integers(30, 300, 1_000), *[1_000] * 10, 5_000]
    n_narrowed = 0
    for number, n in enumerate(sizes):
        row = random_row(rng, int(n))
        swept, was_narrowed = exact(row, NEVER, is_lower=is_lower)
        assert not was_narrowed
        for n_scanned in {0, 3, n_sweeps(int(n))}:
            name = f"row {number} after {n_scanned} events"
            found, was_narrowed = exact(row, n_scanned, is_lower=is_lower)
            # Where lines tie another row may be worth the same.
            assert abs(row[0] @ (found - swept)) <= 1e-12 * (1.0 + abs(row[0]).max()), name
            check_feasible(found, row, is_lower=is_lower, name=name)
            n_narrowed += was_narrowed
    assert n_narrowed > 2_000, "hardly any row is narrowed"


def test_values_and_errors_of_any_size_are_narrowed():
    rng = np.random.default_rng(8)
    for number in range(300):
        q, b, e, epsilon, u = random_row(rng, int(rng.integers(20, 200)))
        value, error = 10.0 ** rng.integers(-9, 10, 2)
        row = (value * (q + 100.0 * rng.normal()), b, error * e, error * epsilon, u)
        found, _ = exact(row, 0, is_lower=False)
        swept, _ = exact(row, NEVER, is_lower=False)
        assert abs(row[0] @ (found - swept)) <= 1e-12 * abs(row[0]).max(), number
        check_feasible(found, row, is_lower=False, name=str(number))


def test_lines_apart_are_the_same_row_either_way():
    rng = np.random.default_rng(9)
    for n in (FEW + 1, 100, 300, 1_000):
        b = rng.dirichlet(np.ones(n))
        u = np.minimum(1.0, b + rng.random(n) * 4.0 / n)
        row = (rng.normal(size=n), b, rng.exponential(size=n), 0.3, u)
        for is_lower in (False, True):
            found, was_narrowed = exact(row, 0, is_lower=is_lower)
            assert was_narrowed
            swept, _ = exact(row, NEVER, is_lower=is_lower)
            np.testing.assert_allclose(found, swept, rtol=0, atol=1e-12)
            # All but a few probabilities are at an end of a segment, to the last bit.
            assert (~((found == 0.0) | (found == b) | (found == u))).sum() <= 2


def test_a_wrong_decision_is_found_out():
    """A t that is too small leaves the best point out: the sweep takes the row."""
    rng = np.random.default_rng(10)
    n_lost = 0
    for number in range(200):
        n = int(rng.integers(70, 200))
        b = rng.dirichlet(np.ones(n))
        q, e, u = rng.normal(size=n), rng.exponential(size=n), np.minimum(1.0, b + 4.0 / n)
        row = (q, b, e, 0.05, u)
        out, work = np.empty(n), np.empty((N_NARROWING_ROWS, n))
        n_lost += not narrow_row(q, b, e, 0.05, False, u, 1e-3, out, work)
        narrowed_exact_row(q, b, e, 0.05, False, u, 1e-3, out, work)
        swept, _ = exact(row, NEVER, is_lower=False)
        np.testing.assert_allclose(out, swept, rtol=0, atol=1e-12, err_msg=str(number))
    assert n_lost == 200


def test_narrowed_rows_are_advantageous_and_worth_as_much_as_swept_ones():
    rng = np.random.default_rng(12)
    n_binding = 0
    for number in range(400):
        n = int(rng.integers(2, 200))
        q, b, e, epsilon, u = random_row(rng, n)
        g = -q if rng.random() < 0.3 else rng.normal(size=n).round(2)
        rows = []
        for n_scanned in (0, NEVER):
            out, work = np.empty(n), np.full((4 + N_NARROWING_ROWS, n), np.nan)
            adv_exact_row(q, b, e, epsilon, g, n_scanned, True, u, out, work)
            assert g @ (out - b) >= -1e-12 * (1.0 + abs(g).max()), number
            check_feasible(out, (q, b, e, epsilon, u), is_lower=False, name=str(number))
            rows.append(out)
        assert abs(q @ (rows[0] - rows[1])) <= 1e-11 * (1.0 + abs(q).max()), number
        free, _ = exact((q, b, e, epsilon, u), NEVER, is_lower=False)
        n_binding += g @ (free - b) < -1e-9
    assert n_binding > 100, "the advantage hardly ever binds"


EXACT = {
    Operator.SOFT_EXACT: {},
    Operator.LOWER_EXACT: {"is_lower": True},
    Operator.ADV_EXACT: {},
    Operator.PI_B: {},
    Operator.PI_LEQ_B: {"is_lower": True},
}


@pytest.mark.parametrize("operator", EXACT, ids=lambda operator: operator.name)
def test_above_the_switch_exact_steps_equal_linear_programs(operator):
    rng = np.random.default_rng(13 + operator)
    for number, n in enumerate([FEW + 1] * 40 + [150] * 40 + [300] * 20 + [1_000] * 5):
        q, b, e, epsilon, u = random_row(rng, n)
        # Prices within what the tolerances of a linear program tell apart.
        e = np.where((e > 0.0) & (e < 0.05), 0.05, np.where(e < np.inf, np.minimum(e, 20.0), e))
        known = dict(EXACT[operator])
        if operator in (Operator.PI_B, Operator.PI_LEQ_B):
            e, epsilon = np.where(e < 0.7, 0.0, np.inf), 0.0
        g = rng.normal(size=n)
        if operator is Operator.ADV_EXACT:
            known["g"] = g
        out = np.empty((1, n))
        one = (part[None].copy() for part in (q, b, e))
        limited_step_rows(
            int(operator), *one, np.array([epsilon]), g[None].copy(), u[None].copy(), out
        )
        is_lower = known.get("is_lower", False)
        check_feasible(out[0], (q, b, e, epsilon, u), is_lower=is_lower, name=str(number))
        best = best_limited_value(q, b, e, epsilon, u, **known)
        assert q @ out[0] == pytest.approx(best, abs=1e-6 * (1.0 + abs(q).max())), number


def test_sorted_fills_equal_scanned_ones():
    rng = np.random.default_rng(14)
    n_short = 0
    for _ in range(300):
        n = int(rng.integers(2, 300))
        q, b, e, _, u = random_row(rng, n)
        for fill, parts in ((capped_greedy_row, (q,)), (capped_allowed_row, (q, b, e))):
            found, scanned, work = np.empty(n), np.empty(n), np.full((3, n), np.nan)
            fill(*parts, NEVER, u, scanned, work)
            for n_scanned in (0, 2):
                fill(*parts, n_scanned, u, found, work)
                np.testing.assert_array_equal(found, scanned)
            assert abs(found.sum() - 1.0) <= 1e-12
        n_short += found[np.isinf(e)].any()
    assert n_short > 30, "hardly any mass is left for actions that are not allowed"


@pytest.mark.parametrize("kind", ["soft", "lower", "adv"])
def test_sorted_transfers_equal_scanned_ones(kind):
    rng = np.random.default_rng(15)
    n_full = 0
    for number in range(600):
        n = int(rng.integers(2, 40) if number % 2 else rng.integers(40, 300))
        q, b, e, epsilon, u = random_row(rng, n)
        epsilon = np.inf if number % 20 == 0 else epsilon
        g = rng.normal(size=n).round(2)
        found, scanned = np.empty(n), np.empty(n)
        for is_sorted, out in ((True, found), (False, scanned)):
            work = np.full((4, n), np.nan)
            is_lower, is_adv = kind == "lower", kind == "adv"
            capped_approx_row(q, b, e, epsilon, is_lower, is_adv, g, is_sorted, u, out, work)
        np.testing.assert_allclose(found, scanned, rtol=0, atol=1e-12, err_msg=f"row {number}")
        n_full += ((found == u) & (u > b)).any()
    assert n_full > 150, "hardly any receiver is ever full"
