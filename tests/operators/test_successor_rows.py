"""Lower and advantageous steps: equal to loops and linear programs, within their budgets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spibb.operators import (
    adv_approx_step,
    adv_exact_step,
    lower_approx_step,
    lower_exact_step,
    soft_exact_step,
)
from spibb.testing import reference_successors as slow
from spibb.testing.strategies import soft_rows


def random_rows(rng, n_rows):
    """Rows with ties, zero and infinite errors, zero-probability actions, and a second Q."""
    for _ in range(n_rows):
        n = int(rng.integers(2, 13))
        q, g = (rng.normal(size=n).round(int(rng.integers(0, 4))) for _ in range(2))
        if rng.random() < 0.3:
            g = -q  # the two constraints at odds
        baseline = rng.dirichlet(np.full(n, 0.5))
        baseline[rng.random(n) < 0.2] = 0.0
        if baseline.sum() == 0:
            baseline[0] = 1.0
        baseline /= baseline.sum()
        errors = rng.exponential(size=n)
        errors[rng.random(n) < 0.15] = np.inf
        errors[rng.random(n) < 0.15] = 0.0
        yield q, baseline, errors, float(rng.choice([0.0, 0.01, 0.1, 0.5, 2.0, 100.0])), g


def cost(pi, baseline, errors, *, is_lower=False):
    moved = np.maximum(pi - baseline, 0) if is_lower else np.abs(pi - baseline)
    return float(np.multiply(errors, moved, out=np.zeros(len(pi)), where=moved > 0).sum())


def test_lower_exact_step_against_linprog():
    for q, baseline, errors, epsilon, _ in random_rows(np.random.default_rng(0), 1_500):
        pi = lower_exact_step(q, baseline, errors, epsilon)
        assert abs(pi.sum() - 1) < 1e-12
        assert (pi >= 0).all()
        assert cost(pi, baseline, errors, is_lower=True) <= epsilon * (1 + 1e-12) + 1e-15
        best = slow.best_value(q, baseline, errors, epsilon, is_lower=True)
        assert q @ pi >= best - 1e-6
        approx = lower_approx_step(q, baseline, errors, epsilon)
        assert q @ baseline - 1e-12 <= q @ approx <= q @ pi + 1e-12
        assert cost(approx, baseline, errors, is_lower=True) <= epsilon * (1 + 1e-12) + 1e-15


def test_adv_exact_step_against_linprog():
    strict = 0
    for q, baseline, errors, epsilon, g in random_rows(np.random.default_rng(1), 1_500):
        pi = adv_exact_step(q, baseline, errors, epsilon, g)
        assert abs(pi.sum() - 1) < 1e-12
        assert (pi >= 0).all()
        assert cost(pi, baseline, errors) <= epsilon * (1 + 1e-12) + 1e-15
        assert g @ (pi - baseline) >= -1e-12
        best = slow.best_value(q, baseline, errors, epsilon, g=g)
        assert q @ pi >= best - 1e-6
        strict += q @ soft_exact_step(q, baseline, errors, epsilon) > q @ pi + 1e-6
    assert strict > 100, "the advantage constraint hardly ever binds: the test says little"


def test_adv_steps_are_advantageous_on_thousands_of_rows():
    rng = np.random.default_rng(2)
    for n in (2, 4, 9):
        q, g = rng.normal(size=(2, 5_000, n))
        baseline = rng.dirichlet(np.ones(n), 5_000)
        errors = rng.exponential(size=(5_000, n))
        exact = adv_exact_step(q, baseline, errors, 0.7, g)
        approx = adv_approx_step(q, baseline, errors, 0.7, g)
        for pi in (exact, approx):
            assert ((g * (pi - baseline)).sum(axis=1) >= -1e-12).all()
            assert ((errors * np.abs(pi - baseline)).sum(axis=1) <= 0.7 * (1 + 1e-12)).all()
            assert ((q * (pi - baseline)).sum(axis=1) >= -1e-12).all()
        assert ((q * exact).sum(axis=1) >= (q * approx).sum(axis=1) - 1e-12).all()


@given(row=soft_rows(), seed=st.integers(0, 10**6))
@settings(max_examples=300, deadline=None)
def test_approximate_steps_equal_their_loops(row, seed):
    q, baseline, errors, epsilon = row
    g = np.random.default_rng(seed).normal(size=len(q))
    np.testing.assert_allclose(
        lower_approx_step(q, baseline, errors, epsilon),
        slow.lower_approx_row(q, baseline, errors, epsilon),
        atol=1e-12,
    )
    np.testing.assert_allclose(
        adv_approx_step(q, baseline, errors, epsilon, g),
        slow.adv_approx_row(q, baseline, errors, epsilon, g),
        atol=1e-12,
    )


def test_infinite_error_forbids_only_increases_in_the_lower_step():
    pi = lower_exact_step([0.0, 1.0, 2.0], [0.3, 0.3, 0.4], [np.inf, 1.0, np.inf], 10.0)
    np.testing.assert_allclose(pi, [0.0, 0.6, 0.4])


def test_with_its_own_q_the_advantage_constraint_never_binds():
    rng = np.random.default_rng(3)
    q = rng.normal(size=(500, 5))
    baseline = rng.dirichlet(np.ones(5), 500)
    errors = rng.exponential(size=(500, 5))
    np.testing.assert_allclose(
        adv_exact_step(q, baseline, errors, 0.5, q), soft_exact_step(q, baseline, errors, 0.5)
    )


@pytest.mark.parametrize("step", [adv_exact_step, adv_approx_step])
def test_without_a_budget_the_advantage_still_counts(step):
    # Greedy would take action 2; by the baseline's Q it is the worst, so its mass is limited.
    q, g, baseline = np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, -1.0]), np.full(3, 1 / 3)
    pi = step(q, baseline, np.ones(3), np.inf, g)
    assert g @ (pi - baseline) >= -1e-12
    assert q @ pi >= q @ baseline - 1e-12
    if step is adv_exact_step:
        assert q @ pi == pytest.approx(slow.best_value(q, baseline, np.ones(3), np.inf, g=g))
        assert q @ pi > q @ baseline
