"""Baselines on continuous states: networks from files, callables, and what is wrong with them."""

import numpy as np
import pytest
import torch

from spibb.deep.baseline import SoftmaxNetwork, checked_probabilities
from spibb.deep.network import Network, first_parameters
from spibb.errors import DataError, PolicyError, SettingsError


def network(sizes=(4, 8, 3), seed=0):
    return Network.from_flat(first_parameters([seed], sizes)[0], sizes)


def test_softmax_by_hand_and_by_torch():
    policy = SoftmaxNetwork(network(), temperature=0.1)
    states = np.random.default_rng(0).random((2, 5, 4), dtype=np.float32)
    expected = np.exp(policy.network.q(states).astype(float) / 0.1)
    expected /= expected.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(policy.action_probabilities(states), expected, atol=1e-5)
    tensors = policy.action_probabilities(torch.from_numpy(states))
    assert isinstance(tensors, torch.Tensor)
    np.testing.assert_allclose(tensors.numpy(), expected, atol=1e-5)


def test_large_values_do_not_overflow():
    policy = SoftmaxNetwork(Network([[[1.0], [-1.0]]], [[0.0, 0.0]]), temperature=1e-3)
    np.testing.assert_array_equal(policy.action_probabilities([[1e6]]), [[1.0, 0.0]])


def test_file_round_trip(tmp_path):
    place = tmp_path / "net.safetensors"
    network().write(place, {"temperature": 0.25})
    policy = SoftmaxNetwork.read(place)
    assert policy.temperature == 0.25
    states = np.ones((2, 4), np.float32)
    expected = SoftmaxNetwork(network(), 0.25).action_probabilities(states)
    np.testing.assert_array_equal(policy.action_probabilities(states), expected)
    assert SoftmaxNetwork.read(place, 0.5).temperature == 0.5


def test_bad_files(tmp_path):
    place = tmp_path / "net.safetensors"
    network().write(place)
    with pytest.raises(SettingsError, match=r"temperature is None.*or given as temperature=0.1"):
        SoftmaxNetwork.read(place)


@pytest.mark.parametrize("temperature", [0, -1, np.nan, np.inf, "hot"])
def test_bad_temperatures(temperature):
    with pytest.raises(SettingsError, match="temperature"):
        SoftmaxNetwork(network(), temperature)


@pytest.mark.parametrize("kind", [np.zeros, torch.zeros])
def test_states_of_the_wrong_width(kind):
    with pytest.raises(DataError, match=r"shape \(2, 3\); expected \(\.\.\., 4\)"):
        SoftmaxNetwork(network(), 0.1).action_probabilities(kind((2, 3)))


def test_any_callable_or_object_is_a_baseline():
    states = np.ones((2, 4), np.float32)
    policy = SoftmaxNetwork(network(), 0.1)
    expected = policy.action_probabilities(states)
    np.testing.assert_array_equal(checked_probabilities(policy, states, 3), expected)
    plain = checked_probabilities(lambda x: [[0.5, 0.5]] * len(x), states, 2)
    np.testing.assert_array_equal(plain, np.full((2, 2), 0.5))


@pytest.mark.parametrize(
    ("baseline", "message"),
    [
        (lambda x: np.full((len(x), 2), 0.5), r"have shape \(3, 2\); expected \(3, 3\)"),
        (
            lambda x: np.full((len(x), 3), 0.5),
            r"probabilities are \[0.5, 0.5, 0.5\] \(first at row 0\)",
        ),
        (lambda x: np.array([[1, 0, 0], [1.5, -0.5, 0], [1, 0, 0]]), "first at row 1"),
        (lambda x: torch.full((len(x), 3), torch.nan), "sum to one"),
    ],
)
def test_baselines_that_do_not_answer_with_distributions(baseline, message):
    with pytest.raises(PolicyError, match=message):
        checked_probabilities(baseline, np.zeros((3, 4)), 3)


def test_something_that_cannot_be_asked():
    with pytest.raises(PolicyError, match="the baseline is ndarray"):
        checked_probabilities(np.eye(3), np.zeros((3, 4)), 3)
