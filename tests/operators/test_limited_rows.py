"""Steps with upper bounds: optimal by linear programs, and the plain steps at the ends."""

import numpy as np
import pytest

from spibb.operators.constrained import limited_step_rows
from spibb.operators.rows import Operator, step_rows
from spibb.testing.reference_limits import best_limited_value

ROUNDING = 1e-12


def random_row(rng):
    """Ties, zero and infinite errors, zero probabilities; bounds at, above and far above b."""
    n = int(rng.integers(2, 11))
    q, g = (rng.normal(size=n).round(int(rng.integers(0, 4))) for _ in range(2))
    weights = rng.exponential(size=n) * (rng.random(n) < 0.8)
    weights[rng.integers(n)] += 0.3
    b = weights / weights.sum()
    e = rng.exponential(size=n)
    if rng.random() < 0.3:
        e = np.ceil(2 * e) / 2
    e[rng.random(n) < 0.15] = np.inf
    e[rng.random(n) < 0.15] = 0.0
    kind = rng.random(n)
    u = np.where(kind < 0.3, b, np.where(kind < 0.8, b + rng.random(n) * 0.5, 1.0))
    epsilon = float(rng.choice([0.0, 0.01, 0.1, 0.5, 2.0, 100.0, np.inf]))
    return q, b, e, epsilon, g, np.minimum(u, 1.0)


def taken(operator, q, b, e, epsilon, g, u):
    out = np.empty((1, len(q)))
    limited_step_rows(int(operator), *(x[None] for x in (q, b, e)), np.array([epsilon]), g[None],
                      u[None], out)  # fmt: skip
    return out[0]


def cost(pi, b, e, *, is_lower):
    moved = np.maximum(pi - b, 0.0) if is_lower else np.abs(pi - b)
    return float(np.multiply(e, moved, out=np.zeros(len(pi)), where=moved > 1e-15).sum())


def rows_of(seed, n_rows):
    rng = np.random.default_rng(seed)
    return [random_row(rng) for _ in range(n_rows)]


EXACT = {
    Operator.SOFT_EXACT: {},
    Operator.LOWER_EXACT: {"is_lower": True},
    Operator.ADV_EXACT: {},
    Operator.PI_B: {},
    Operator.PI_LEQ_B: {"is_lower": True},
    Operator.GREEDY: {},
}


@pytest.mark.parametrize("operator", EXACT, ids=lambda operator: operator.name)
def test_exact_steps_are_optimal(operator):
    n_binding = 0
    for number, (q, b, e, epsilon, g, u) in enumerate(rows_of(7 + operator, 1_500)):
        known = dict(EXACT[operator])
        if operator in (Operator.PI_B, Operator.PI_LEQ_B):
            e, epsilon = np.where(e < 0.7, 0.0, np.inf), 0.0
        if operator is Operator.GREEDY:
            epsilon = np.inf
        if operator is Operator.ADV_EXACT:
            known["g"] = g
        pi = taken(operator, q, b, e, epsilon, g, u)
        assert (pi >= 0.0).all(), number
        assert (pi <= u).all() or (pi - u).max() < 1e-15, number
        assert abs(pi.sum() - 1.0) <= ROUNDING, number
        is_lower = known.get("is_lower", False)
        if epsilon < np.inf:
            assert cost(pi, b, e, is_lower=is_lower) <= epsilon * (1 + ROUNDING) + 1e-14, number
            pinned = np.isinf(e)
            assert (pi[pinned] <= b[pinned]).all(), number
            if not is_lower:
                np.testing.assert_array_equal(pi[pinned], b[pinned])
        if operator is Operator.ADV_EXACT:
            assert g @ (pi - b) >= -ROUNDING, number
        best = best_limited_value(q, b, e, epsilon, u, **known)
        assert q @ pi >= best - 1e-6, number
        n_binding += q @ pi < best_limited_value(q, b, e, epsilon, np.ones(len(q)), **known) - 1e-6
    assert n_binding > 300, "bounds hardly ever bind: the test says little"


APPROX = (Operator.SOFT_APPROX, Operator.LOWER_APPROX, Operator.ADV_APPROX)


@pytest.mark.parametrize("operator", APPROX, ids=lambda operator: operator.name)
def test_approximate_steps_keep_to_everything_and_do_not_lose(operator):
    is_lower, n_full = operator is Operator.LOWER_APPROX, 0
    for number, (q, b, e, epsilon, g, u) in enumerate(rows_of(31 + operator, 1_500)):
        pi = taken(operator, q, b, e, epsilon, g, u)
        assert (pi >= 0.0).all(), number
        assert (pi <= u + 1e-15).all(), number
        assert abs(pi.sum() - 1.0) <= ROUNDING, number
        assert q @ pi >= q @ b - ROUNDING, number
        if epsilon < np.inf:
            assert cost(pi, b, e, is_lower=is_lower) <= epsilon * (1 + ROUNDING) + 1e-14, number
        known = {"is_lower": is_lower, "g": g if operator is Operator.ADV_APPROX else None}
        assert q @ pi <= best_limited_value(q, b, e, epsilon, u, **known) + 1e-6, number
        n_full += ((pi == u) & (u > b)).any()
    assert n_full > 300, "hardly any receiver is ever full"


def test_allowed_actions_are_filled_first():
    for q, b, e, _, g, u in rows_of(3, 500):
        pi = taken(Operator.GREEDY_ALLOWED, q, b, e, np.inf, g, u)
        known = np.isfinite(e)
        assert abs(pi.sum() - 1.0) <= ROUNDING
        assert (pi <= np.where(known, u, b) + 1e-15).all()
        # Nothing is left on the others while there is room.
        assert pi[~known].sum() <= max(0.0, 1.0 - u[known].sum()) + ROUNDING


@pytest.mark.parametrize("operator", Operator, ids=lambda operator: operator.name)
def test_bounds_at_their_ends_are_the_plain_step_and_the_baseline(operator):
    rng = np.random.default_rng(11)
    n_rows, n = 400, 6
    q, g = rng.normal(size=(2, n_rows, n)).round(1)
    b = rng.dirichlet(np.ones(n), n_rows)
    e = rng.exponential(size=q.shape)
    e[rng.random(e.shape) < 0.2] = np.inf
    epsilon, out, plain = rng.exponential(size=n_rows), np.empty_like(q), np.empty_like(q)
    step_rows(int(operator), q, b, e, epsilon, g, plain)
    for upper in (np.ones_like(q), np.full_like(q, np.inf)):
        limited_step_rows(int(operator), q, b, e, epsilon, g, upper, out)
        np.testing.assert_array_equal(out, plain)
    if operator not in (Operator.GREEDY, Operator.GREEDY_ALLOWED):
        limited_step_rows(int(operator), q, b, e, epsilon, g, b.copy(), out)
        np.testing.assert_array_equal(out, b)


@pytest.mark.parametrize("operator", [Operator.SOFT_EXACT, Operator.LOWER_EXACT])
def test_wide_bounds_that_never_bind_are_worth_as_much_as_none(operator):
    # The sweep with segments against the sweep without: the same optimum by other events.
    rng = np.random.default_rng(12)
    n_rows, n = 2_000, 7
    q = rng.normal(size=(n_rows, n))
    b, e = rng.dirichlet(np.ones(n), n_rows), rng.exponential(size=q.shape)
    epsilon, out, plain = rng.exponential(size=n_rows), np.empty_like(q), np.empty_like(q)
    step_rows(int(operator), q, b, e, epsilon, q, plain)
    upper = np.ones_like(q)
    worst = np.argmin(q, axis=1)
    upper[np.arange(n_rows), worst] = b[np.arange(n_rows), worst]
    limited_step_rows(int(operator), q, b, e, epsilon, q, upper, out)
    np.testing.assert_allclose(out, plain, rtol=0, atol=1e-12)
