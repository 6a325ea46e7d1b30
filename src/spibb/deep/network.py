"""A dense ReLU network as plain NumPy arrays, and a population of them as one table.

A member of a population is a row of numbers (spibb.deep.forward). Files hold ``weight_0, bias_0,
...`` as safetensors, weights (fan_out, fan_in) as torch.nn.Linear has them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spibb.compiled.arrays import as_float32, check_rows, is_tensor
from spibb.compiled.random_numbers import FIRST_WEIGHTS, uniforms
from spibb.deep.forward import Networks, layer_places, n_parameters
from spibb.errors import DataError, OutputError, SettingsError, checked_wholes, import_extra
from spibb.whole_files import as_path, reason, write_whole

Floats = NDArray[np.float32]
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
        for name, parts in (("weights", self.weights), ("biases", self.biases)):
            if not isinstance(parts, Iterable):
                raise DataError(f"{name}: {parts!r}", expected="a list with one array a layer")
        weights = tuple(_frozen(part, f"weight_{k}") for k, part in enumerate(self.weights))
        biases = tuple(_frozen(part, f"bias_{k}") for k, part in enumerate(self.biases))
        _check_layers(weights, biases)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "biases", biases)

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
        return np.concatenate(
            [
                part
                for weight, bias in zip(self.weights, self.biases, strict=True)
                for part in (weight.T.ravel(), bias)
            ]
        )

    @classmethod
    def from_flat(cls, parameters: ArrayLike, sizes: Sequence[int]) -> Network:
        """Return the network that a row of a population holds."""
        flat, sizes = as_float32(parameters, "parameters"), checked_wholes(sizes, "sizes")
        if flat.shape != (n_parameters(sizes),):
            raise DataError(
                f"parameters have shape {flat.shape}",
                expected=f"({n_parameters(sizes)},) for sizes {sizes}",
            )
        weights, biases = [], []
        for first, middle, last, fan_in, fan_out in layer_places(sizes):
            weights.append(flat[first:middle].reshape(fan_in, fan_out).T)
            biases.append(flat[middle:last])
        return cls(weights, biases)

    def to_arrays(self) -> dict[str, Floats]:
        """Return the arrays that a file holds."""
        arrays: dict[str, Floats] = {}
        for k, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            arrays[f"weight_{k}"], arrays[f"bias_{k}"] = weight, bias
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], *, source: str = "the arrays") -> Network:
        """Build a network from ``weight_0, bias_0, ...``."""
        n_layers = sum(name.startswith("weight_") for name in arrays)
        names = {f"{kind}_{k}" for k in range(n_layers) for kind in ("weight", "bias")}
        if n_layers == 0 or names != set(arrays):
            missing, odd = sorted(names - set(arrays)), sorted(set(arrays) - names)
            told = f"lacks {missing[0]}" if missing else f"holds {odd[0]!r}" if odd else "is empty"
            raise DataError(
                f"{source} {told}",
                expected="weight_0, bias_0, weight_1, bias_1, ... and nothing else",
                hint="number the layers from 0, each with a weight and a bias",
            )
        try:
            return cls(
                [arrays[f"weight_{k}"] for k in range(n_layers)],
                [arrays[f"bias_{k}"] for k in range(n_layers)],
            )
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
            expected="finite numbers in the range of float32",
        )
    return found


def first_parameters(seeds: Sequence[int], sizes: Sequence[int]) -> Floats:
    """Return a population's first parameters, shape (R, P): he_uniform, biases 0.

    W is uniform in +-sqrt(6 / fan_in); the i-th weight of a member, layer by layer, takes the i-th
    number of its stream for first weights.
    """
    if not all(size > 0 for size in sizes) or len(sizes) < 2:
        raise SettingsError(f"sizes are {tuple(sizes)}", expected="at least two numbers > 0")
    keys = np.array([seed % 2**64 for seed in seeds], dtype=np.uint64)
    population = np.zeros((len(keys), n_parameters(sizes)), dtype=np.float32)
    drawn = 0
    for first, middle, _, fan_in, fan_out in layer_places(sizes):
        places = np.arange(drawn, drawn + fan_in * fan_out)
        drawn += fan_in * fan_out
        bound = np.float32(np.sqrt(6.0 / fan_in))
        unit = uniforms(keys[:, None], FIRST_WEIGHTS, places)
        population[:, first:middle] = (np.float32(2) * unit - np.float32(1)) * bound
    return population


def write_arrays(
    path: str | Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]
) -> None:
    """Write arrays as safetensors, atomically, ``metadata`` as JSON in the header.

    The same arrays and metadata make the same bytes.
    """
    kept = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    try:
        text = json.dumps(dict(metadata))
    except (TypeError, ValueError) as problem:
        raise OutputError(
            f"cannot write {path}: {problem}", expected="metadata of plain JSON values"
        ) from None
    write_whole(path, import_safetensors().numpy.save(kept, metadata={_METADATA: text}))


def read_arrays(path: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the arrays and the metadata of a safetensors file.

    Files of others may hold each piece of metadata in an entry of its own.
    """
    safetensors = import_safetensors()
    file_path = as_path(path, DataError)
    try:
        # It calls every file missing that it cannot open.
        file_path.open("rb").close()
        with safetensors.safe_open(str(path), framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            header = file.metadata() or {}
    except FileNotFoundError:
        raise DataError(f"no file {path}", hint="check the path") from None
    except (OSError, ValueError) as problem:
        raise DataError(
            f"cannot read {path}: {reason(problem)}",
            expected="a safetensors file",
            hint="check the path",
        ) from None
    except safetensors.SafetensorError as problem:
        raise DataError(
            f"{path} is not a safetensors file ({problem})",
            expected="a safetensors file",
            hint="it may be of another kind or cut short; make it again",
        ) from None
    except (TypeError, AttributeError) as problem:  # a kind of number that NumPy does not have
        raise DataError(
            f"{path} holds numbers of a kind that NumPy lacks ({problem})",
            expected="float32, or another of NumPy's kinds",
            hint="convert the tensors, as by tensor.float(), and store them again",
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
    check_rows(
        np.isfinite(found),
        lambda place: f"{name} is {found[place]}",
        expected="finite numbers in the range of float32",
        hint="the training that made it diverged; use another file",
    )
    found.flags.writeable = False
    return found


def _check_layers(weights: Sequence[Floats], biases: Sequence[Floats]) -> None:
    if not weights or len(weights) != len(biases):
        raise DataError(
            f"{len(weights)} weights and {len(biases)} biases",
            expected="at least one layer, each with a weight and a bias",
        )
    fan_in: int | None = None
    for k, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        if weight.ndim != 2 or weight.size == 0 or weight.shape[1] != (fan_in or weight.shape[1]):
            raise DataError(
                f"weight_{k} has shape {weight.shape}",
                expected=f"(fan_out, {'fan_in' if fan_in is None else fan_in})",
                hint="weights are (outputs, inputs), as torch.nn.Linear has them",
            )
        fan_in = weight.shape[0]
        if bias.shape != (fan_in,):
            raise DataError(
                f"bias_{k} has shape {bias.shape}", expected=f"({fan_in},), as weight_{k} has rows"
            )
