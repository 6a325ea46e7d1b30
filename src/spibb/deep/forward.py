"""Values of dense ReLU networks, one or a population of them.

One network is a row of P numbers: for each layer the weights (fan_in, fan_out) in C order, so that
``h_out = h_in @ w + b``, then the biases.

Tensors go through batched products where they are. NumPy arrays go through the compiled products
of the training: a BLAS rounds a row as the other rows of its batch suggest, and its threads wait
for each other, which on a busy machine costs many times the product. Here each element is one fixed
chain of sums: a state's values are the same bits in every batch, and threads share out blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.arrays import import_torch, is_tensor
from spibb.compiled.jit import inlined_jit, jit
from spibb.compiled.threads import over_chunks
from spibb.deep.products import product

Floats = NDArray[np.float32]
Layers = list[tuple[Any, Any]]
# States that go through a network together: small enough for the cache.
BLOCK = 64
ZERO, LEAST = np.float32(0.0), np.float32(-np.inf)


def n_parameters(sizes: Sequence[int]) -> int:
    """Return the length of one member's row.

    Example:
        >>> n_parameters((4, 32, 128, 32, 9))
        8809
    """
    return sum(a * b + b for a, b in pairwise(sizes))


def layer_places(sizes: Sequence[int]) -> list[tuple[int, int, int, int, int]]:
    """Return (first weight, first bias, end, fan_in, fan_out) of each layer in a row."""
    places, at = [], 0
    for fan_in, fan_out in pairwise(sizes):
        middle = at + fan_in * fan_out
        places.append((at, middle, middle + fan_out, fan_in, fan_out))
        at = middle + fan_out
    return places


class Networks:
    """Networks of one shape, ready to be asked.

    Args:
        params: Flat parameters, shape (R, P), float32.
        sizes: Units of each layer.
    """

    def __init__(self, params: Floats, sizes: Sequence[int]) -> None:
        self._params = np.require(params, np.float32, ["C", "A", "W"])
        self._units = np.array(sizes, np.int64)
        self._layers: dict[str, Layers] = {}

    def q(self, states: Any) -> Any:
        """Return the values of states (R, E, d), member r's in row r: shape (R, E, A)."""
        if is_tensor(states):
            torch, device = import_torch(), str(states.device)
            if device not in self._layers:
                flat = torch.tensor(self._params, device=states.device)
                self._layers[device] = tensor_layers(flat, self._units.tolist())
            with torch.no_grad():
                return run_tensors(self._layers[device], states.to(torch.float32))[-1]
        # Compiled for one kind of array only.
        rows = np.require(states, np.float32, ["C", "A", "W"])
        n_members, n_states = rows.shape[:2]
        out = np.empty((n_members, n_states, self._units[-1]), np.float32)
        n_blocks = -(-n_states // BLOCK)
        about = (n_blocks, self._params, self._units, rows, out)
        over_chunks(lambda chosen: _fill_q(chosen, *about), np.arange(n_members * n_blocks))
        return out


def tensor_layers(flat: Any, sizes: Sequence[int]) -> Layers:
    """Return views (R, fan_in, fan_out) and (R, 1, fan_out) of each layer of tensors (R, P)."""
    return [
        (flat[:, first:middle].unflatten(1, (fan_in, fan_out)), flat[:, None, middle:last])
        for first, middle, last, fan_in, fan_out in layer_places(sizes)
    ]


def run_tensors(layers: Layers, states: Any) -> list[Any]:
    """Return the activations of every layer, from the states (R, E, d) to Q."""
    torch = import_torch()
    values = [states]
    for k, (weight, bias) in enumerate(layers):
        found = torch.baddbmm(bias, values[-1], weight)
        values.append(found.relu_() if k + 1 < len(layers) else found)
    return values


@jit
def _fill_q(chosen, n_blocks, params, sizes, states, out):  # type: ignore[no-untyped-def]
    """Write the values of some blocks, numbered member by member."""
    n_actions = sizes[len(sizes) - 1]
    first = layer_firsts(sizes, BLOCK)
    values = np.empty(first[len(sizes)], np.float32)
    source = states.reshape(-1)
    for place in chosen:
        m, at = place // n_blocks, place % n_blocks * BLOCK
        n_rows = min(BLOCK, states.shape[1] - at)
        place_in = (m * states.shape[1] + at) * sizes[0]
        run_layers(sizes, n_rows, params[m], source, place_in, values, first)
        for e in range(n_rows):
            for a in range(n_actions):
                out[m, at + e, a] = values[first[len(sizes) - 1] + e * n_actions + a]


@inlined_jit
def layer_firsts(sizes, n_rows):  # type: ignore[no-untyped-def]
    """Return where the units of each layer begin if rows of them follow each other, and the end."""
    first = np.zeros(len(sizes) + 1, np.int64)
    for k in range(len(sizes)):
        first[k + 1] = first[k] + n_rows * sizes[k]
    return first


@inlined_jit
def run_layers(sizes, n_rows, params, source, source_at, values, first):  # type: ignore[no-untyped-def]
    """Run one network on rows of states; write the units of layer k to ``values[first[k]:]``."""
    here, here_at, at = source, source_at, 0
    for k in range(len(sizes) - 1):
        fan_in, fan_out = sizes[k], sizes[k + 1]
        bias = at + fan_in * fan_out
        floor = ZERO if k + 2 < len(sizes) else LEAST
        product(here, here_at, fan_in, 1, params, at, params, bias, floor, values, first[k + 1],
                n_rows, fan_out, fan_in)  # fmt: skip
        here, here_at, at = values, first[k + 1], bias + fan_out
