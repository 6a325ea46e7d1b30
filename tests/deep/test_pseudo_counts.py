"""Pseudo-counts equal the slow loops, on arrays and tensors, and refuse what they cannot count."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spibb.deep.pseudo_counts import KernelCounts
from spibb.deep.transitions import Transitions
from spibb.errors import DataError, SettingsError
from spibb.testing import reference_deep


def data_set(rng, n=200, d=4, n_actions=5, scale=1.0):
    state = scale * rng.random((n, d))
    return Transitions.from_arrays(
        state, rng.integers(n_actions, size=n), rng.random(n), state, np.zeros(n),
        n_actions=n_actions,
    )  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 60),
    d=st.integers(1, 6),
    n_actions=st.integers(1, 5),
    width=st.floats(0.01, 5.0),
    scale=st.sampled_from([0.01, 1.0, 100.0]),
)
def test_kernel_equals_the_loops(seed, n, d, n_actions, width, scale):
    rng = np.random.default_rng(seed)
    data = data_set(rng, n, d, n_actions, scale)
    states = np.float32(scale) * rng.random((7, d), dtype=np.float32)
    states[0] = data.state[0]
    fitted = KernelCounts(width=width).fit(data)
    expected = reference_deep.kernel_counts(data, states, width)
    # float32 distances: an error of a few units in the last place, in units of the width.
    tolerance = 1e-6 * n * (1 + scale / width)
    found = fitted.counts(states)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=tolerance)
    tiled = fitted.by_tiles(torch.from_numpy(states))
    np.testing.assert_allclose(tiled, expected, rtol=1e-5, atol=tolerance)


def test_a_transition_counts_itself_as_one_even_far_from_the_origin():
    state = np.float32([[1_000.0, 1_000.001], [1_500.0, 0.0]])
    data = Transitions.from_arrays(state, [0, 1], [0, 0], state, [0, 0])
    np.testing.assert_array_equal(KernelCounts(width=0.2).fit(data).counts(state), np.eye(2))


def test_counts_of_a_state_do_not_depend_on_the_others():
    rng = np.random.default_rng(0)
    data = data_set(rng, 500)
    fitted = KernelCounts(width=0.3).fit(data)
    states = rng.random((300, 4))
    together = fitted.counts(states)
    alone = np.stack([fitted.counts(state) for state in states])
    np.testing.assert_array_equal(together, alone)


def test_leading_axes_and_strange_memory_layouts():
    rng = np.random.default_rng(1)
    fitted = KernelCounts(width=0.3).fit(data_set(rng))
    states = rng.random((6, 5, 8)).astype(np.float32)[:, ::2, ::2]
    states.flags.writeable = False
    found = fitted.counts(states)
    assert found.shape == (6, 3, 5)
    np.testing.assert_array_equal(found[2, 1], fitted.counts(states[2, 1]))
    assert fitted.counts(np.zeros((0, 4))).shape == (0, 5)


def test_tensors_come_back_as_tensors():
    rng = np.random.default_rng(2)
    fitted = KernelCounts(width=0.3).fit(data_set(rng))
    states = rng.random((4, 3, 4)).astype(np.float32)
    found = fitted.counts(torch.from_numpy(states))
    assert isinstance(found, torch.Tensor)
    assert found.dtype == torch.float32
    np.testing.assert_array_equal(found.numpy(), fitted.counts(states))


def test_a_tile_smaller_than_the_queries():
    rng = np.random.default_rng(3)
    data = data_set(rng)
    fitted = KernelCounts(width=0.4).fit(data)
    queries = torch.from_numpy(data.state)
    found = fitted.by_tiles(queries, n_held=1_000)
    np.testing.assert_allclose(found, fitted.counts(data.state), rtol=1e-5, atol=1e-6)


def test_an_action_never_taken_has_no_count():
    data = Transitions.from_arrays([[0.0]], [1], [0], [[0.0]], [0], n_actions=3)
    np.testing.assert_array_equal(KernelCounts().fit(data).counts([[0.0]]), [[0, 1, 0]])


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ([[0.0, np.nan, 0, 0]], r"one of the states is .*nan.* \(first at row 0\)"),
        (np.vstack([np.zeros((5, 4)), [[0, 0, 0, np.inf]]]), "first at row 5"),
        ([[0.0, 1.0]], r"states have shape \(1, 2\); expected \(\.\.\., 4\)"),
        (0.0, r"states have shape \(\)"),
        ([["a", "b", "c", "d"]], "not numbers"),
        (torch.zeros(3, 2), r"shape \(3, 2\)"),
        (torch.tensor([[0.0, 0.0, 0.0, torch.nan]]), "first at row 0"),
    ],
)
def test_bad_states(states, message):
    fitted = KernelCounts().fit(data_set(np.random.default_rng(4)))
    with pytest.raises(DataError, match=message):
        fitted.counts(states)


@pytest.mark.parametrize("value", [0, -0.2, np.nan, np.inf, "wide"])
def test_bad_widths(value):
    with pytest.raises(SettingsError, match="width"):
        KernelCounts(width=value)
