"""Rows that let no cost rise, against linear programs written another way."""

import numpy as np
import pytest
from scipy.optimize import linprog

from spibb.operators.constrained import limited_step_rows
from spibb.operators.cost_constrained import EXACT, costly_row
from spibb.operators.rows import Operator

ANY = [*EXACT, Operator.SOFT_APPROX, Operator.LOWER_APPROX, Operator.ADV_APPROX]
N_ROWS = 200


def random_rows(seed, n_rows=N_ROWS):
    """Yield rows of two to seven actions with bounds, and one to three costs that b keeps."""
    rng = np.random.default_rng(seed)
    for _ in range(n_rows):
        n, k = int(rng.integers(2, 8)), int(rng.choice([1, 1, 2, 3]))
        b = rng.dirichlet(np.ones(n))
        u = np.where(rng.random(n) < 0.3, b + rng.random(n) * (1.0 - b), 1.0)
        e = np.where(rng.random(n) < 0.2, np.inf, rng.random(n) * 2.0)
        c = rng.normal(size=(k, n))
        c -= (c @ b)[:, None] + np.where(rng.random((k, 1)) < 0.3, 0.2, 0.0)  # now c b <= 0
        yield rng.normal(size=n), b, e, float(rng.random() * 1.5), rng.normal(size=n), u, c


def plain_row(operator, q, b, e, epsilon, g, u):
    if not operator.needs.budget:
        e = np.where(np.isinf(e), np.inf, 0.0)
    out = np.empty((1, len(q)))
    one = [part[None].copy() for part in (q, b, e)]
    limited_step_rows(int(operator), *one, np.array([epsilon]), g[None].copy(), u[None].copy(), out)
    return out[0], e


def oracle(operator, q, b, e, epsilon, g, u, c):
    """Maximise q pi over pi and t >= |pi - b|."""
    n, is_lower = len(q), operator in (Operator.LOWER_EXACT, Operator.PI_LEQ_B)
    low, high = np.zeros(n), u.copy()
    if operator != Operator.GREEDY:
        high = np.where(np.isinf(e), b, high)
        low = low if is_lower else np.where(np.isinf(e), b, low)
    zero, one = np.zeros((n, n)), np.eye(n)
    rows = [np.hstack([one, -one]), np.hstack([c, 0.0 * c])]
    most = [b, np.zeros(len(c))]
    if not is_lower:
        rows.append(np.hstack([-one, -one]))
        most.append(-b)
    if operator.needs.budget:
        rows.append(np.append(np.zeros(n), np.where(np.isinf(e), 0.0, e))[None])
        most.append(np.array([epsilon]))
    if operator == Operator.ADV_EXACT:
        rows.append(np.append(-g, np.zeros(n))[None])
        most.append(np.array([-g @ b]))
    bounds = [*zip(low, high, strict=True), *([(0.0, None)] * n)]
    found = linprog(
        np.append(-q, np.zeros(n)), A_ub=np.vstack(rows), b_ub=np.concatenate(most),
        A_eq=np.append(np.ones(n), zero[0])[None], b_eq=[1.0], bounds=bounds,
    )  # fmt: skip
    assert found.status == 0
    return -found.fun


@pytest.mark.parametrize("operator", ANY, ids=lambda one: one.name.lower())
def test_rows_keep_every_limit_and_the_exact_ones_are_the_best(operator):
    n_active = 0
    for q, b, e, epsilon, g, u, c in random_rows(int(operator)):
        plain, errors = plain_row(operator, q, b, e, epsilon, g, u)
        row = costly_row(operator, q, b, errors, epsilon, g, u, c, plain)
        assert row.sum() == pytest.approx(1.0)
        assert (row >= -1e-12).all()
        assert (row <= u + 1e-12).all()
        assert (c @ row <= 1e-9 * np.abs(c).max()).all()
        assert q @ row >= q @ b - 1e-9, "no worse than where it starts"
        if operator.needs.budget:
            moved = np.maximum(row - b, 0.0) if "LOWER" in operator.name else np.abs(row - b)
            assert (moved * np.where(np.isinf(e), 0.0, e)).sum() <= epsilon + 1e-7
        if operator in EXACT:
            best = oracle(operator, q, b, errors, epsilon, g, u, c)
            assert q @ row == pytest.approx(best, abs=1e-6)
        n_active += bool((c @ plain > 1e-9).any())
    assert n_active > N_ROWS / 5, "costs that matter"


@pytest.mark.parametrize("operator", ANY, ids=lambda one: one.name.lower())
def test_at_their_ends_costs_are_the_plain_step_and_the_baseline(operator):
    for q, b, e, epsilon, g, u, _ in random_rows(99, 30):
        plain, errors = plain_row(operator, q, b, e, epsilon, g, u)
        asked = (operator, q, b, errors, epsilon, g, u)
        free = costly_row(*asked, np.zeros((1, len(q))), plain)
        assert q @ free == pytest.approx(q @ plain, abs=1e-6)
        if np.allclose(plain, b):
            continue
        # The cost is what the plain row gains: nothing better is left, but what costs as little.
        gain = q - q @ b
        np.testing.assert_allclose(q @ costly_row(*asked, gain[None], plain), q @ b, atol=1e-6)
