"""A dense ReLU network as plain NumPy arrays, and a population of them as one table.

A member of a population is a row of numbers (spibb.deep.forward). Files hold ``weight_0, bias_0,
...`` as safetensors, weights (fan_out, fan_in) as torch.nn.Linear has them.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spibb.atomic_files import as_path, reason, write_whole
from spibb.compiled.arrays import as_float32, check_rows, is_tensor
from spibb.compiled.random_numbers import FIRST_WEIGHTS, uniforms
from spibb.deep.forward import Floats, Networks, layer_places, n_parameters
from spibb.deep.transitions import FINITE, check_column
from spibb.errors import DataError, OutputError, SettingsError, checked_wholes, import_extra

# The one entry of a file's header that holds all metadata: several would come in any order.
_METADATA = "spibb"


@dataclass(frozen=True, eq=False)
class Network:
    """A dense network with ReLU between its layers and a linear output.

    Args:
        weights: One matrix (fan_out, fan_in) for each layer.
        biases: One vector (fan_out,) for each layer.

    Example:
        Two inputs, one hidden unit max(0, x - y), two outputs.

        >>> network = Network([[[1.0, -1.0]], [[2.0], [3.0]]], [[0.0], [0.5, 0.0]])
        >>> network.sizes
        (2, 1, 2)
        >>> network.q([[3.0, 1.0], [0.0, 1.0]])
        array([[4.5, 6. ],
               [0.5, 0. ]], dtype=float32)
    """

    weights: Sequence[Floats]
    biases: Sequence[Floats]

    def __post_init__(self) -> None:
        try:
            given = list(zip(self.weights, self.biases, strict=True))
        except (TypeError, ValueError):  # no lists, or of different lengths
            given = []
        if not given:
            expected = "two lists, each with one array a layer"
            raise DataError("weights and biases are not layers", expected=expected)
        layers = [
            (_frozen(w, f"weight_{k}"), _frozen(b, f"bias_{k}")) for k, (w, b) in enumerate(given)
        ]
        _check_layers(layers)
        object.__setattr__(self, "weights", tuple(weight for weight, _ in layers))
        object.__setattr__(self, "biases", tuple(bias for _, bias in layers))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of units, from the inputs to the actions."""
        return (self.weights[0].shape[1], *(len(bias) for bias in self.biases))

    @property
    def n_features(self) -> int:
        """Length of an observation."""
        return self.sizes[0]

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return self.sizes[-1]

    def q(self, observations: Any) -> Any:
        """Return Q of observations of shape (..., n_features): shape (..., n_actions).

        NumPy arrays come of NumPy arrays, and a row's values do not depend on the others, bit for
        bit; tensors come of tensors, on their device, and are not looked at for NaN.
        """
        found = checked_observations(observations, self.n_features)
        rows = found.reshape(1, -1, self.n_features)
        return self._alone.q(rows).reshape(*found.shape[:-1], self.n_actions)

    @cached_property
    def _alone(self) -> Networks:
        return Networks(self.to_flat()[None], self.sizes)

    def to_flat(self) -> Floats:
        """Return the parameters as one row of a population."""
        layers = zip(self.weights, self.biases, strict=True)
        return np.concatenate([part.T.ravel() for layer in layers for part in layer])

    @classmethod
    def from_flat(cls, parameters: ArrayLike, sizes: Sequence[int]) -> Network:
        """Return the network that a row of a population holds."""
        flat, sizes = as_float32(parameters, "parameters"), checked_wholes(sizes, "sizes")
        if flat.shape != (n_parameters(sizes),):
            expected = f"({n_parameters(sizes)},) for sizes {sizes}"
            raise DataError(f"parameters have shape {flat.shape}", expected=expected)
        places = layer_places(sizes)
        weights = [flat[a:b].reshape(fan_in, fan_out).T for a, b, _, fan_in, fan_out in places]
        return cls(weights, [flat[middle:last] for _, middle, last, _, _ in places])

    def to_arrays(self) -> dict[str, Floats]:
        """Return the arrays that a file holds."""
        parts = {"weight": self.weights, "bias": self.biases}
        return {f"{kind}_{k}": part for kind in parts for k, part in enumerate(parts[kind])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], *, source: str = "the arrays") -> Network:
        """Build a network from ``weight_0, bias_0, ...``."""
        weights, biases = (
            [f"{kind}_{k}" for k in range(len(arrays) // 2)] for kind in ("weight", "bias")
        )
        if not arrays or {*weights, *biases} != set(arrays):
            raise DataError(
                f"{source} holds {reprlib.repr(sorted(arrays))}",
                expected="weight_0, bias_0, weight_1, bias_1, ... and nothing else",
                hint="number the layers from 0, each with a weight and a bias",
            )
        try:
            return cls([arrays[name] for name in weights], [arrays[name] for name in biases])
        except DataError as problem:
            raise DataError(f"{source}: {str(problem).rstrip('.')}") from None

    def write(self, path: str | Path, metadata: Mapping[str, Any] | None = None) -> None:
        """Write a safetensors file; ``metadata`` goes into its header as JSON."""
        write_arrays(path, self.to_arrays(), {"format": "spibb-network-1"} | dict(metadata or {}))

    @classmethod
    def from_file(cls, path: str | Path) -> Network:
        """Read a safetensors file."""
        return cls.from_arrays(read_arrays(path)[0], source=str(path))


def checked_observations(values: Any, n_features: int, name: str = "observations") -> Any:
    """Return observations as float32, or name the first that cannot be used.

    Tensors stay as they are, and are not looked at for NaN, which would make a GPU wait.
    """
    found = values if is_tensor(values) else as_float32(values, name)
    if found.ndim == 0 or found.shape[-1] != n_features:
        raise DataError(f"{name} have shape {tuple(found.shape)}", expected=f"(..., {n_features})")
    if not is_tensor(found):
        rows = found.reshape(-1, n_features)
        check_rows(
            np.isfinite(rows).all(axis=-1),
            lambda place: f"one of the {name} is {rows[place]}",
            expected=FINITE,
        )
    return found


def checked_answers(found: Any, states: Any, n_actions: int, name: str, error: Any) -> Any:
    """Return what a baseline or pseudo-counts say of states (..., d) as numbers (..., A)."""
    numbers = found if is_tensor(found) else as_float32(found, name)
    shape = (*states.shape[:-1], n_actions)
    if tuple(numbers.shape) != shape:
        what = f"{name} have shape {tuple(numbers.shape)}"
        hint = "check that it belongs to this environment"
        raise error(what, expected=f"{shape}: one number for each action", hint=hint)
    return numbers


def first_parameters(seeds: Sequence[int], sizes: Sequence[int]) -> Floats:
    """Return a population's first parameters, shape (R, P): he_uniform, biases 0.

    W is uniform in +-sqrt(6 / fan_in); the i-th weight of a member, layer by layer, takes the i-th
    number of its stream for first weights.
    """
    if not all(size > 0 for size in sizes) or len(sizes) < 2:
        raise SettingsError(f"sizes are {tuple(sizes)}", expected="at least two numbers > 0")
    keys = np.array([seed % 2**64 for seed in seeds], dtype=np.uint64)[:, None]
    population = np.zeros((len(keys), n_parameters(sizes)), dtype=np.float32)
    drawn = 0
    for first, middle, _, fan_in, _ in layer_places(sizes):
        unit = uniforms(keys, FIRST_WEIGHTS, np.arange(drawn, drawn + middle - first))
        drawn += middle - first
        bound = np.float32(np.sqrt(6.0 / fan_in))
        population[:, first:middle] = (np.float32(2) * unit - np.float32(1)) * bound
    return population


def write_arrays(path: str | Path, arrays: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
    """Write arrays as safetensors, atomically, ``metadata`` as JSON in the header.

    The same arrays and metadata make the same bytes.
    """
    kept = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    try:
        text = json.dumps(dict(metadata))
    except (TypeError, ValueError) as problem:
        what, expected = f"cannot write {path}: {problem}", "metadata of plain JSON values"
        raise OutputError(what, expected=expected) from None
    write_whole(path, import_safetensors().numpy.save(kept, metadata={_METADATA: text}))


def read_arrays(path: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the arrays and the metadata of a safetensors file.

    Files of others may hold each piece of metadata in an entry of its own.
    """
    safetensors, file_path = import_safetensors(), as_path(path, DataError)
    try:
        # It calls every file missing that it cannot open.
        file_path.open("rb").close()
        with safetensors.safe_open(str(path), framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            header = file.metadata() or {}
    except (OSError, ValueError) as problem:
        what = f"cannot read {path}: {reason(problem)}"
        raise DataError(what, expected="a file", hint="check the path") from None
    # The last two: numbers of a kind that NumPy does not have.
    except (safetensors.SafetensorError, TypeError, AttributeError) as problem:
        raise DataError(
            f"{path} is not a safetensors file of numbers that NumPy has ({problem})",
            expected="a safetensors file of float32 or the like",
            hint="it may be of another kind or incomplete; make it again, as by tensor.float()",
        ) from None
    metadata = {name: _from_json(text) for name, text in header.items()}
    ours = metadata.get(_METADATA)
    return arrays, ours if isinstance(ours, dict) else metadata


def _from_json(text: str) -> Any:
    """Return a header's value; files of others hold plain text there, or what is too deep."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def import_safetensors() -> Any:
    """Return safetensors, or say how to install it."""
    import_extra("safetensors.numpy", "network files need safetensors", "deep")
    return import_extra("safetensors", "network files need safetensors", "deep")


def _frozen(array: ArrayLike, name: str) -> Floats:
    # A copy, so that the network cannot change behind the caller's back.
    found = as_float32(array, name).copy()
    hint = "the training that made it diverged; use another file"
    check_column(name, found, np.isfinite(found), FINITE, hint)
    found.flags.writeable = False
    return found


def _check_layers(layers: Sequence[tuple[Floats, Floats]]) -> None:
    fan_in: Any = "fan_in"
    for k, (weight, bias) in enumerate(layers):
        if weight.ndim != 2 or weight.size == 0 or (k and weight.shape[1] != fan_in):
            what, expected = f"weight_{k} has shape {weight.shape}", f"(fan_out, {fan_in})"
            hint = "weights are (outputs, inputs), as torch.nn.Linear has them"
            raise DataError(what, expected=expected, hint=hint)
        fan_in = len(weight)
        if bias.shape != (fan_in,):
            expected = f"({fan_in},), as weight_{k} has rows"
            raise DataError(f"bias_{k} has shape {bias.shape}", expected=expected)
