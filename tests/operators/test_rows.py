"""Every operator against its slow twin, against the paper's table, and at its limits."""

import importlib
import sys

import numpy as np
import pytest
from hypothesis import given, settings

from spibb import operators
from spibb.errors import MissingDependencyError
from spibb.testing import reference
from spibb.testing.strategies import bootstrap_rows, distributions, soft_rows

thorough = settings(deadline=None, derandomize=True, max_examples=300)

TABLE_Q = np.array([1.0, 2.0, 3.0, 4.0])
TABLE_BASELINE = np.array([0.1, 0.4, 0.3, 0.2])
TABLE_TRUSTED = np.array([False, True, True, False])


def tie_free(q):
    """Replace values by their ranks: the same order, ties broken by the index."""
    return np.argsort(np.argsort(q, kind="stable"), kind="stable").astype(float)


def rounding(errors):
    """Cost of the rounding of probabilities near one, which no step can avoid."""
    finite = errors[np.isfinite(errors)]
    return len(errors) * np.finfo(float).eps * finite.max(initial=0.0)


def continuous_rows(seed, n_rows, n_actions):
    """Rows without ties, with some zero and infinite errors and zero probabilities."""
    rng = np.random.default_rng(seed)
    q = rng.normal(size=(n_rows, n_actions))
    weights = rng.exponential(size=q.shape) * (rng.random(q.shape) < 0.8)
    weights[:, 0] += 0.1
    errors = rng.uniform(0.1, 2.0, size=q.shape)
    kind = rng.random(q.shape)
    errors[kind < 0.1] = 0.0
    errors[kind > 0.85] = np.inf
    return q, weights / weights.sum(axis=1, keepdims=True), errors, rng.uniform(0, 2, n_rows)


def test_paper_table_pi_b():
    row = operators.pi_b_step(TABLE_Q, TABLE_BASELINE, TABLE_TRUSTED)
    np.testing.assert_allclose(row, [0.1, 0.0, 0.7, 0.2], rtol=0, atol=1e-15)


def test_paper_table_pi_leq_b():
    row = operators.pi_leq_b_step(TABLE_Q, TABLE_BASELINE, TABLE_TRUSTED)
    np.testing.assert_allclose(row, [0.0, 0.0, 0.8, 0.2], rtol=0, atol=1e-15)


BY_HAND = ([0.0, 2.0, 3.0], [0.5, 0.4, 0.1], [1.0, 0.5, 1.0], 0.6)


def test_approx_by_hand():
    # The first action gives first. Its best bargain is the second, (2 - 0) / 0.5 against
    # (3 - 0) / 1, and the giver is the dearer side: m = 0.6 / (2 x 1) = 0.3, which costs
    # 0.3 x 1.5 = 0.45. The second then gives min(0.7, 0.15 / (2 x 1)) = 0.075 to the third.
    row = operators.soft_approx_step(*BY_HAND)
    np.testing.assert_allclose(row, [0.2, 0.625, 0.175], rtol=0, atol=1e-15)


def test_approx_breaks_ties_of_the_ratio_by_q():
    # 1 / 1 = 2 / 2, so the third receives: m = 1 / (2 x 2), which leaves nothing for the second.
    row = operators.soft_approx_step([0.0, 1.0, 2.0], [1.0, 0.0, 0.0], [1.0, 1.0, 2.0], 1.0)
    np.testing.assert_array_equal(row, [0.75, 0.0, 0.25])


def test_exact_by_hand():
    # The best rate is from the first to the third, (3 - 0) / (1 + 1) = 1.5 a unit of budget,
    # against 2 / 1.5 and 1 / 1.5; 0.6 units move 0.6 / (1 + 1) = 0.3.
    row = operators.soft_exact_step(*BY_HAND)
    np.testing.assert_allclose(row, [0.2, 0.4, 0.4], rtol=0, atol=1e-15)


# Drawing a case takes longer than every step on it: steps of one kind share their cases.


@thorough
@given(bootstrap_rows())
def test_bootstrapping_steps_equal_reference(case):
    q, baseline, trusted = case
    scale = 1e-12 * (1 + abs(q).max())
    np.testing.assert_array_equal(operators.greedy(q), reference.greedy_row(q))
    row = operators.pi_b_step(*case)
    np.testing.assert_allclose(row, reference.pi_b_row(*case), rtol=0, atol=1e-14)
    np.testing.assert_array_equal(row[~trusted], baseline[~trusted])
    assert abs(row.sum() - 1.0) <= 1e-12
    assert row @ q >= baseline @ q - scale
    wider = operators.pi_leq_b_step(*case)
    np.testing.assert_allclose(wider, reference.pi_leq_b_row(*case), rtol=0, atol=1e-14)
    assert (wider[~trusted] <= baseline[~trusted]).all()
    assert abs(wider.sum() - 1.0) <= 1e-12
    # Its set of rows contains that of Pi_b.
    assert wider @ q >= row @ q - scale


@settings(thorough, max_examples=150)
@given(soft_rows())
def test_soft_exact_equals_reference(case):
    q, baseline, errors, epsilon = case
    row = operators.soft_exact_step(*case)
    # The optimum need not be unique: its value is.
    assert abs(row @ q - reference.soft_exact_row(*case) @ q) <= 1e-6
    assert abs(row.sum() - 1.0) <= 1e-12
    assert (row >= 0.0).all()
    if np.isfinite(epsilon):
        cost = reference.constraint_cost(row, baseline, errors)
        assert cost <= epsilon * (1 + 1e-12) + rounding(errors)


@thorough
@given(soft_rows())
def test_soft_approx_equals_reference_and_keeps_its_promises(case):
    q, baseline, errors, epsilon = case
    row = operators.soft_approx_step(*case)
    np.testing.assert_allclose(row, reference.soft_approx_row(*case), rtol=0, atol=1e-14)
    scale = 1e-12 * (1 + abs(q).max())
    assert abs(row.sum() - 1.0) <= 1e-12
    assert (row >= 0.0).all()
    assert baseline @ q - scale <= row @ q
    assert row @ q <= operators.soft_exact_step(*case) @ q + scale
    if np.isfinite(epsilon):
        np.testing.assert_array_equal(row[np.isinf(errors)], baseline[np.isinf(errors)])
        cost = reference.constraint_cost(row, baseline, errors)
        assert cost <= epsilon * (1 + 1e-12) + rounding(errors)


@thorough
@given(bootstrap_rows())
def test_pi_b_is_the_exact_step_with_infinite_and_halved_errors(case):
    # The paper's remark: |pi - b| sums to 2 at most, so epsilon / 2 never binds.
    q, baseline, trusted = case
    q = tie_free(q)
    epsilon = 0.5
    errors = np.where(trusted, epsilon / 2, np.inf)
    soft = operators.soft_exact_step(q, baseline, errors, epsilon)
    hard = operators.pi_b_step(q, baseline, trusted)
    np.testing.assert_allclose(soft, hard, rtol=0, atol=1e-14)


@thorough
@given(soft_rows())
def test_no_budget_gives_the_baseline_back_and_an_unlimited_one_is_greedy(case):
    q, baseline, errors, _ = case
    costly = np.where(errors == 0.0, 1e-3, errors)
    for step in (operators.soft_exact_step, operators.soft_approx_step):
        np.testing.assert_array_equal(step(q, baseline, costly, 0.0), baseline)
        np.testing.assert_array_equal(step(q, baseline, errors, np.inf), operators.greedy(q))


@pytest.mark.parametrize("step", [operators.soft_exact_step, operators.soft_approx_step])
def test_zero_errors_are_free(step):
    row = step([1.0, 2.0, 3.0, 4.0], [0.25, 0.25, 0.25, 0.25], [0.0, 0.0, 0.0, 1.0], 0.0)
    np.testing.assert_array_equal(row, [0.0, 0.0, 0.75, 0.25])


@thorough
@given(distributions(7))
def test_nothing_trusted_gives_the_baseline_back(baseline):
    q = np.arange(7.0)
    for step in (operators.pi_b_step, operators.pi_leq_b_step):
        np.testing.assert_array_equal(step(q, baseline, np.zeros(7, dtype=bool)), baseline)


@thorough
@given(bootstrap_rows())
def test_everything_trusted_is_greedy(case):
    q, baseline, trusted = case
    for step in (operators.pi_b_step, operators.pi_leq_b_step):
        row = step(q, baseline, np.ones_like(trusted))
        np.testing.assert_allclose(row, operators.greedy(q), rtol=0, atol=1e-14)


@pytest.mark.parametrize("step", [operators.pi_b_step, operators.pi_leq_b_step])
def test_ties_go_to_trusted_then_to_the_lowest_index(step):
    q = np.zeros(4)
    row = step(q, np.full(4, 0.25), np.array([False, True, True, False]))
    kept = [0.25, 0.5, 0.0, 0.25] if step is operators.pi_b_step else [0.0, 1.0, 0.0, 0.0]
    np.testing.assert_array_equal(row, kept)


@pytest.mark.parametrize("step", [operators.soft_exact_step, operators.soft_approx_step])
def test_permuting_actions_permutes_soft_rows(step):
    q, baseline, errors, epsilon = continuous_rows(seed=11, n_rows=2000, n_actions=9)
    order = np.random.default_rng(12).permutation(9)
    moved = step(q[:, order], baseline[:, order], errors[:, order], epsilon)
    np.testing.assert_allclose(
        moved, step(q, baseline, errors, epsilon)[:, order], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("step", [operators.pi_b_step, operators.pi_leq_b_step])
def test_permuting_actions_permutes_bootstrap_rows(step):
    q, baseline, errors, _ = continuous_rows(seed=13, n_rows=2000, n_actions=9)
    trusted = errors < 1.0
    order = np.random.default_rng(14).permutation(9)
    moved = step(q[:, order], baseline[:, order], trusted[:, order])
    np.testing.assert_allclose(moved, step(q, baseline, trusted)[:, order], rtol=0, atol=1e-14)


def test_strategies_name_the_extra_they_need(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    monkeypatch.delitem(sys.modules, "spibb.testing.strategies")
    with pytest.raises(MissingDependencyError, match=r'pip install "spibb\[testing\]"'):
        importlib.import_module("spibb.testing.strategies")
