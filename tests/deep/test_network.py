"""One network: values, flat parameters, first weights, files and every complaint."""

import json

import numpy as np
import pytest
import safetensors.numpy
import torch

from spibb.compiled.random_numbers import FIRST_WEIGHTS, uniforms
from spibb.deep.baseline import SoftmaxNetwork
from spibb.deep.network import Network, first_parameters, n_parameters, read_arrays
from spibb.errors import DataError, OutputError, SettingsError

SIZES = (4, 8, 6, 3)


@pytest.fixture
def network():
    return Network.from_flat(first_parameters([5], SIZES)[0], SIZES)


def test_values_are_those_of_torch(network):
    layers = []
    for weight, bias in zip(network.weights, network.biases, strict=True):
        linear = torch.nn.Linear(weight.shape[1], weight.shape[0])
        linear.weight.data, linear.bias.data = torch.tensor(weight), torch.tensor(bias)
        layers += [linear, torch.nn.ReLU()]
    observations = np.random.default_rng(0).normal(size=(2, 5, 4)).astype(np.float32)
    expected = torch.nn.Sequential(*layers[:-1])(torch.tensor(observations))
    np.testing.assert_allclose(network.q(observations), expected.detach().numpy(), atol=1e-6)
    np.testing.assert_allclose(network.q(observations[1, 2]), expected[1, 2].detach(), atol=1e-6)


def test_flat_parameters_round_trip(network):
    flat = network.to_flat()
    assert flat.shape == (n_parameters(SIZES),)
    again = Network.from_flat(flat, SIZES)
    np.testing.assert_array_equal(again.to_flat(), flat)
    # h_out = h_in @ w + b, with w in C order at the front.
    np.testing.assert_array_equal(flat[:32].reshape(4, 8), network.weights[0].T)


def test_first_weights_are_he_uniform_by_the_counter():
    population = first_parameters([5, 5 + 2**64, -1], SIZES)
    np.testing.assert_array_equal(population[0], population[1])
    assert (population[2] != population[0]).any()
    bound = np.float32(np.sqrt(6 / 4))
    expected = (2 * uniforms(5, FIRST_WEIGHTS, np.arange(32)) - 1) * bound
    np.testing.assert_array_equal(population[0, :32], expected)
    assert (population[0, 32:40] == 0).all()
    # Weights are counted without the biases between them.
    expected = (2 * uniforms(5, FIRST_WEIGHTS, np.arange(32, 80)) - 1) * np.float32(np.sqrt(6 / 8))
    np.testing.assert_array_equal(population[0, 40:88], expected)


def test_file_round_trip(network, tmp_path):
    path = tmp_path / "q.safetensors"
    network.write(path, {"temperature": 0.1})
    again = Network.from_file(path)
    np.testing.assert_array_equal(again.to_flat(), network.to_flat())
    assert [part.name for part in tmp_path.iterdir()] == ["q.safetensors"]
    stored = safetensors.numpy.load_file(path)
    assert stored["weight_0"].shape == (8, 4)
    with safetensors.safe_open(str(path), framework="numpy") as file:
        assert json.loads(file.metadata()["spibb"])["temperature"] == 0.1


def test_the_same_network_makes_the_same_file(network, tmp_path):
    metadata = {f"key {k}": k for k in range(20)}
    for name in ("a", "b"):
        network.write(tmp_path / name, metadata)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_metadata_of_others_are_read_too(network, tmp_path):
    header = {"temperature": "0.5", "author": "plain text"}
    safetensors.numpy.save_file(network.to_arrays(), tmp_path / "q", header)
    assert SoftmaxNetwork.read(tmp_path / "q").temperature == 0.5
    assert read_arrays(tmp_path / "q")[1] == {"temperature": 0.5, "author": "plain text"}


def test_a_row_does_not_depend_on_its_batch(network):
    states = np.random.default_rng(0).normal(size=(300, 4))
    whole = network.q(states)
    for n in (1, 7, 64, 65, 299):
        np.testing.assert_array_equal(network.q(states[:n]), whole[:n])
    np.testing.assert_array_equal(network.q(states[5]), whole[5])
    locked = states.astype(np.float32)
    locked.flags.writeable = False
    np.testing.assert_array_equal(network.q(locked), whole)
    assert network.q(np.zeros((0, 4))).shape == (0, 3)


def test_arrays_cannot_be_changed(network):
    with pytest.raises(ValueError, match="read-only"):
        network.weights[0][0, 0] = 1


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, r"holds \[\]; expected weight_0, bias_0"),
        ({"weight_0": np.ones((2, 3))}, r"holds \['weight_0'\]; expected weight_0, bias_0"),
        ({"weight_0": np.ones((2, 3)), "bias_0": np.ones(2), "other": np.ones(1)}, "'other'"),
        ({"weight_1": np.ones((2, 3)), "bias_1": np.ones(2)}, "number the layers from 0"),
        ({"weight_0": np.ones(3), "bias_0": np.ones(3)}, r"weight_0 has shape \(3,\)"),
        ({"weight_0": np.ones((2, 3)), "bias_0": np.ones(3)}, r"bias_0 has shape \(3,\)"),
        (
            {
                "weight_0": np.ones((2, 3)),
                "bias_0": np.ones(2),
                "weight_1": np.ones((4, 3)),
                "bias_1": np.ones(4),
            },
            r"weight_1 has shape \(4, 3\); expected \(fan_out, 2\)",
        ),
        (
            {"weight_0": np.array([[1.0, np.nan]]), "bias_0": np.ones(1)},
            r"nan.*row 0, coordinate 1",
        ),
    ],
)
def test_bad_files(arrays, message, tmp_path):
    path = tmp_path / "bad.safetensors"
    safetensors.numpy.save_file(arrays, path)
    with pytest.raises(DataError, match=message):
        Network.from_file(path)


def test_files_of_the_wrong_kind(network, tmp_path):
    with pytest.raises(DataError, match=r"cannot read .*absent: No such file"):
        Network.from_file(tmp_path / "absent")
    text = tmp_path / "text"
    text.write_text("weights")
    with pytest.raises(DataError, match="not a safetensors file"):
        Network.from_file(text)
    path = tmp_path / "q.safetensors"
    network.write(path)
    with pytest.raises(OutputError, match="cannot write"):
        network.write(tmp_path / "absent" / "q.safetensors")


@pytest.mark.parametrize(
    ("observations", "message"),
    [
        ([[0, 0, 0, 0], [0, np.nan, 0, 0]], "row 1"),
        ([1.0, 2.0], r"shape \(2,\); expected \(\.\.\., 4\)"),
        (1.0, r"shape \(\)"),
        ("text", "not numbers"),
    ],
)
def test_bad_observations(network, observations, message):
    with pytest.raises(DataError, match=message):
        network.q(observations)


def test_bad_sizes():
    with pytest.raises(DataError, match="parameters have shape"):
        Network.from_flat(np.zeros(3), SIZES)
    with pytest.raises(SettingsError, match="sizes are"):
        first_parameters([0], (4, 0, 2))
    with pytest.raises(DataError, match="weights and biases are not layers"):
        Network([np.ones((1, 1))], [])
