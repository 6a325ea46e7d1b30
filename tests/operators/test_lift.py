"""The operators as users call them: layouts, types, tensors, messages."""

import numpy as np
import pytest
import torch

from spibb import operators
from spibb.errors import SettingsError

RNG = np.random.default_rng(5)
Q = RNG.normal(size=(2, 3, 4))
BASELINE = RNG.dirichlet(np.ones(4), size=(2, 3))
ERRORS = RNG.uniform(0.1, 1.0, size=(2, 3, 4))
ERRORS[0, 1, 2] = np.inf
ERRORS[1, 2, 0] = 0.0
TRUSTED = ERRORS < 0.6

STEPS = {
    "greedy": (operators.greedy, (Q,)),
    "pi-b": (operators.pi_b_step, (Q, BASELINE, TRUSTED)),
    "pi-leq-b": (operators.pi_leq_b_step, (Q, BASELINE, TRUSTED)),
    "soft-exact": (operators.soft_exact_step, (Q, BASELINE, ERRORS, 0.4)),
    "soft-approx": (operators.soft_approx_step, (Q, BASELINE, ERRORS, 0.4)),
}
every_step = pytest.mark.parametrize(("step", "arguments"), STEPS.values(), ids=STEPS)
step_from_baseline = pytest.mark.parametrize(("step", "arguments"), list(STEPS.values())[1:])
soft_step = pytest.mark.parametrize("step", [operators.soft_exact_step, operators.soft_approx_step])
bootstrap_step = pytest.mark.parametrize("step", [operators.pi_b_step, operators.pi_leq_b_step])


def over_arrays(function, arguments):
    """Apply a function to the arrays among the arguments."""
    return [function(a) if isinstance(a, np.ndarray) else a for a in arguments]


@every_step
def test_leading_axes_are_rows_side_by_side(step, arguments):
    rows = step(*arguments)
    assert rows.shape == (2, 3, 4)
    for index in np.ndindex(2, 3):
        one = step(*over_arrays(lambda a, index=index: a[index], arguments))
        assert one.shape == (4,)
        np.testing.assert_array_equal(one, rows[index])
    flat = step(*over_arrays(lambda a: a[0], arguments))
    np.testing.assert_array_equal(flat, rows[0])


@every_step
@pytest.mark.parametrize("leading", [(0,), (2, 0)])
def test_empty_leading_axis(step, arguments, leading):
    empty = step(*over_arrays(lambda a: np.empty((*leading, 4), dtype=a.dtype), arguments))
    assert empty.shape == (*leading, 4)
    assert empty.dtype == np.float64


@every_step
def test_one_action_keeps_everything(step, arguments):
    one = [np.ones((3, 1), dtype=a.dtype) if isinstance(a, np.ndarray) else a for a in arguments]
    np.testing.assert_array_equal(step(*one), np.ones((3, 1)))


def read_only(array):
    array = array.copy()
    array.setflags(write=False)
    return array


def strided(array):
    return np.repeat(array, 2, axis=-1)[..., ::2]


def reversed_twice(array):
    return array[..., ::-1].copy()[..., ::-1]


@every_step
@pytest.mark.parametrize("layout", [read_only, strided, reversed_twice, np.asfortranarray])
def test_memory_layout_does_not_matter(step, arguments, layout):
    np.testing.assert_array_equal(step(*over_arrays(layout, arguments)), step(*arguments))


@every_step
def test_inputs_are_left_alone(step, arguments):
    copies = over_arrays(np.copy, arguments)
    result = step(*copies)
    result[...] = -1.0
    for copy, argument in zip(copies, arguments, strict=True):
        np.testing.assert_array_equal(copy, argument)


@every_step
def test_lists_and_integers_count_as_float64(step, arguments):
    integers = np.round(10 * Q).astype(np.int64)
    result = step(integers, *arguments[1:])
    assert result.dtype == np.float64
    np.testing.assert_array_equal(result, step(integers.astype(float), *arguments[1:]))
    lists = [a.tolist() if isinstance(a, np.ndarray) else a for a in arguments]
    np.testing.assert_array_equal(step(*lists), step(*arguments))


@every_step
def test_float32_in_float32_out(step, arguments):
    single = over_arrays(lambda a: a if a.dtype == bool else a.astype(np.float32), arguments)
    result = step(*single)
    assert result.dtype == np.float32
    double = over_arrays(lambda a: a if a.dtype == bool else a.astype(np.float64), single)
    np.testing.assert_array_equal(result, step(*double).astype(np.float32))


def test_the_type_is_that_of_q():
    low = BASELINE.astype(np.float32)
    assert operators.soft_exact_step(Q, low, ERRORS, 0.4).dtype == np.float64
    assert operators.soft_exact_step(Q.astype(np.float32), BASELINE, ERRORS, 0.4).dtype == (
        np.float32
    )


@soft_step
def test_broadcasting(step):
    epsilon = np.array([[0.1], [0.7]])
    result = step(Q[0], BASELINE[0, 0], 0.5, epsilon)
    assert result.shape == (2, 3, 4)
    for i, j in np.ndindex(2, 3):
        one = step(Q[0, j], BASELINE[0, 0], np.full(4, 0.5), epsilon[i, 0])
        np.testing.assert_array_equal(result[i, j], one)


@every_step
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_tensors_in_tensors_out(step, arguments, dtype):
    tensors = over_arrays(torch.from_numpy, arguments)
    tensors = [t.to(dtype) if torch.is_tensor(t) and t.dtype != torch.bool else t for t in tensors]
    result = step(*tensors)
    assert torch.is_tensor(result)
    assert result.dtype == dtype
    arrays = [t.numpy() if torch.is_tensor(t) else t for t in tensors]
    np.testing.assert_array_equal(result.numpy(), step(*arrays))


@every_step
def test_tensors_of_other_types(step, arguments):
    half = torch.from_numpy(Q).to(torch.float16)
    assert step(half, *arguments[1:]).dtype == torch.float16
    integers = torch.from_numpy(np.round(10 * Q)).to(torch.int64)
    assert step(integers, *arguments[1:]).dtype == torch.float64


@every_step
def test_no_gradient_flows(step, arguments):
    q = torch.from_numpy(Q).clone().requires_grad_()
    result = step(q, *arguments[1:])
    assert not result.requires_grad
    np.testing.assert_array_equal(result.numpy(), step(*arguments))
    transposed = torch.from_numpy(np.swapaxes(Q, 0, 2).copy()).transpose(0, 2)
    np.testing.assert_array_equal(step(transposed, *arguments[1:]).numpy(), step(*arguments))


def test_budget_may_be_a_tensor():
    epsilon = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    expected = operators.soft_approx_step(Q, BASELINE, ERRORS, epsilon)
    result = operators.soft_approx_step(
        torch.from_numpy(Q), BASELINE, ERRORS, torch.tensor(epsilon)
    )
    np.testing.assert_array_equal(result.numpy(), expected)


def test_the_kind_of_array_is_that_of_q():
    result = operators.soft_approx_step(Q, torch.from_numpy(BASELINE), ERRORS, 0.4)
    assert isinstance(result, np.ndarray)


@bootstrap_step
@pytest.mark.parametrize("flags", [np.ones(4), np.array([1, 0, 1, 0])])
def test_trusted_must_be_boolean(step, flags):
    with pytest.raises(SettingsError, match=f"trusted has type {flags.dtype}; expected booleans"):
        step(Q, BASELINE, flags)


@soft_step
def test_shapes_must_fit(step):
    with pytest.raises(SettingsError, match=r"shapes \(2, 3, 4\), \(5,\), \(\), \(\) .*broadcast"):
        step(Q, np.full(5, 0.2), 1.0, 0.4)
    with pytest.raises(
        SettingsError, match=r"\(4,\) of q, baseline, errors and epsilon do not fit"
    ):
        step(Q, BASELINE, ERRORS, np.ones(4))


@every_step
def test_there_must_be_an_action(step, arguments):
    none = over_arrays(lambda a: a[..., :0], arguments)
    with pytest.raises(
        SettingsError, match=r"q of shape \(2, 3, 0\); expected at least one action"
    ):
        step(*none)


@every_step
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_q_must_be_finite(step, arguments, value):
    q = Q.copy()
    q[1, 0, 2] = value
    with pytest.raises(SettingsError, match=rf"q is {value} \(first at row 3, action 2\).*finite"):
        step(q, *arguments[1:])


@step_from_baseline
@pytest.mark.parametrize("value", [np.nan, -0.1, 1.1])
def test_baseline_must_hold_probabilities(step, arguments, value):
    baseline = BASELINE.copy()
    baseline[0, 1, 3] = value
    with pytest.raises(
        SettingsError, match=rf"baseline is {value} \(first at row 1, action 3\).*probabilities"
    ):
        step(Q, baseline, *arguments[2:])


@soft_step
@pytest.mark.parametrize("value", [np.nan, -1.0])
def test_errors_must_not_be_negative(step, value):
    errors = ERRORS.copy()
    errors[1, 2, 3] = value
    with pytest.raises(
        SettingsError, match=rf"errors is {value} \(first at row 5, action 3\).*numbers >= 0"
    ):
        step(Q, BASELINE, errors, 0.4)


@soft_step
@pytest.mark.parametrize("value", [np.nan, -1.0])
def test_epsilon_must_not_be_negative(step, value):
    with pytest.raises(SettingsError, match=rf"epsilon is {value} \(first at row 0.*budget >= 0"):
        step(Q, BASELINE, ERRORS, value)
    budgets = np.full((2, 3), 0.5)
    budgets[1, 1] = value
    with pytest.raises(SettingsError, match=rf"epsilon is {value} \(first at row 4"):
        step(Q, BASELINE, ERRORS, budgets)


@pytest.mark.parametrize(
    "step",
    [
        operators.soft_exact_step, operators.soft_approx_step,
        operators.lower_exact_step, operators.lower_approx_step,
    ],
)  # fmt: skip
def test_a_baseline_that_is_no_distribution_is_refused(step):
    """Else its row would come back as one that sums to 1.8."""
    with pytest.raises(SettingsError, match=r"probabilities sum to 1.8 \(first at row 0\)"):
        step([0.0, 1.0], [0.9, 0.9], [1.0, 1.0], 0.4)
    with pytest.raises(SettingsError, match=r"sum to 0.5 \(first at row 1\)"):
        step([0.0, 1.0], [[0.5, 0.5], [0.5, 0.0]], [1.0, 1.0], 0.4)


def test_many_actions_do_not_excuse_a_sum():
    baseline = np.full(5_000, 1.004 / 5_000)
    with pytest.raises(SettingsError, match=r"sum to 1.004"):
        operators.soft_exact_step(np.arange(5_000.0), baseline, np.ones(5_000), 0.4)


def test_rows_that_a_type_has_rounded_are_distributions():
    rng = np.random.default_rng(0)
    baseline = rng.dirichlet(np.ones(25), 200)
    for kind in (np.float32, np.float16):
        found = operators.soft_exact_step(
            rng.normal(size=(200, 25)), baseline.astype(kind), 1.0, 0.4
        )
        np.testing.assert_allclose(found.sum(axis=1), baseline.astype(kind).sum(axis=1), atol=1e-3)
