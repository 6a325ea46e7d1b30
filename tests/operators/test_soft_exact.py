"""The closed form of the exact Soft-SPIBB step against scipy's linear programs."""

import numpy as np
import pytest

from spibb import operators
from spibb.testing import reference

# A mistake in one row of 150 is found 998 times in a thousand; test_rows tries other rows.
N_ROWS = 1_000
KINDS_OF_BUDGET = ("none", "tiny", "usual", "large")


def random_row(rng):
    """One row with ties, zero probabilities, zero and infinite errors, any budget."""
    n = int(rng.integers(2, 26))
    q = rng.normal(scale=3.0, size=n)
    if rng.random() < 0.3:
        q = np.round(q)
    weights = rng.exponential(size=n) * (rng.random(n) < 0.8)
    if not weights.any():
        weights[rng.integers(n)] = 1.0
    errors = rng.uniform(0.02, 3.0, size=n)
    if rng.random() < 0.3:
        errors = np.ceil(errors)
    kind = rng.random(n)
    errors[kind < 0.1] = 0.0
    errors[kind > 0.85] = np.inf
    exponent = {"tiny": (-12, -3), "usual": (-3, 0.5), "large": (0.5, 2)}
    budget = rng.choice(KINDS_OF_BUDGET, p=(0.05, 0.15, 0.7, 0.1))
    epsilon = 0.0 if budget == "none" else 10 ** rng.uniform(*exponent[budget])
    return q, weights / weights.sum(), errors, float(epsilon)


def test_never_worse_than_linprog_and_always_within_budget():
    rng = np.random.default_rng(20190911)
    n_binding = 0
    for number in range(N_ROWS):
        q, baseline, errors, epsilon = random_row(rng)
        row = operators.soft_exact_step(q, baseline, errors, epsilon)
        pinned = np.isinf(errors)
        np.testing.assert_array_equal(row[pinned], baseline[pinned])
        assert (row >= 0.0).all(), number
        assert abs(row.sum() - 1.0) <= 1e-12, number
        cost = reference.constraint_cost(row, baseline, errors)
        # Probabilities are rounded to 1e-16, so no row can meet a tiny budget more finely.
        rounding = len(q) * np.finfo(float).eps * errors[~pinned].max(initial=0.0)
        assert cost <= epsilon * (1 + 1e-12) + rounding, number
        best = reference.soft_exact_row(q, baseline, errors, epsilon)
        assert row @ q >= best @ q - 1e-6, number
        n_binding += cost > 0.999 * epsilon > 0.0
    # Rows whose budget never binds would test nothing but the greedy step.
    assert n_binding > N_ROWS / 2


@pytest.mark.parametrize("n_actions", [1, 2, 3, 100, 1000])
def test_duality_gap_vanishes(n_actions):
    # Any multiplier t >= 0 bounds the optimum from above; the best one must meet the row.
    rng = np.random.default_rng(n_actions)
    q = rng.normal(size=n_actions)
    baseline = rng.dirichlet(np.ones(n_actions))
    errors = rng.uniform(0.1, 1.0, size=n_actions)
    row = operators.soft_exact_step(q, baseline, errors, 0.3)

    def bound(t):
        receiver = (q - t * errors).max()
        return 0.3 * t + baseline @ np.maximum(q, receiver - t * errors)

    # The bound is convex in t and kinks only at these slopes, so one of them attains its minimum.
    gap = q[:, None] - q[None, :]
    sums, differences = errors[:, None] + errors[None, :], errors[:, None] - errors[None, :]
    slopes = np.append(gap / sums, np.divide(gap, differences, out=np.zeros_like(gap),
                                             where=differences != 0.0))  # fmt: skip
    slopes = np.unique(np.append(slopes[slopes > 0.0], 0.0))
    low, high = 0, len(slopes) - 1
    while low < high:
        middle = (low + high) // 2
        if bound(slopes[middle]) <= bound(slopes[middle + 1]):
            high = middle
        else:
            low = middle + 1
    assert row @ q == pytest.approx(bound(slopes[low]), abs=1e-12)
    assert reference.constraint_cost(row, baseline, errors) <= 0.3 * (1 + 1e-12)


def test_larger_budget_is_never_worse():
    rng = np.random.default_rng(3)
    q = rng.normal(size=(200, 8))
    baseline = rng.dirichlet(np.ones(8), size=200)
    errors = rng.uniform(0.0, 1.0, size=(200, 8))
    budgets = np.linspace(0.0, 2.0, 41)
    rows = operators.soft_exact_step(q, baseline, errors, budgets[:, None])
    value = (rows * q).sum(axis=-1)
    gains = np.diff(value, axis=0)
    assert (gains >= -1e-12).all()
    # The optimum of a linear program is concave in its right-hand side.
    assert (np.diff(gains, axis=0) <= 1e-12).all()
