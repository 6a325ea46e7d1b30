"""Values of dense ReLU networks on NumPy arrays, by the compiled products of the training.

A BLAS rounds a row as the other rows of its batch suggest, and its threads wait for each other,
which on a busy machine costs many times the product. Here each element is one fixed chain of sums:
a state's values are the same bits in every batch, and threads share out blocks of states.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.compiled.threads import over_chunks
from spibb.deep.products import product

Floats = NDArray[np.float32]
# States that go through a network together: small enough for the cache.
_BLOCK = 64


def q_values(params: Floats, sizes: Sequence[int], states: Floats) -> Floats:
    """Return the values of states (R, E, d), member r's by network r: shape (R, E, A).

    Args:
        params: Flat parameters, shape (R, P), or (1, P) for one network that serves all.
        sizes: Units of each layer.
        states: States, float32.
    """
    # Compiled for one kind of array only.
    states, params = (np.require(part, np.float32, ["C", "A", "W"]) for part in (states, params))
    n_members, n_states = states.shape[:2]
    out = np.empty((n_members, n_states, sizes[-1]), np.float32)
    n_blocks = -(-n_states // _BLOCK)
    units = np.array(sizes, np.int64)
    over_chunks(
        lambda chosen: _fill_q(chosen, n_blocks, params, units, states, out),
        np.arange(n_members * n_blocks),
    )
    return out


@jit
def _fill_q(chosen, n_blocks, params, sizes, states, out):  # type: ignore[no-untyped-def]
    """Write the values of some blocks, numbered member by member."""
    n_layers = len(sizes) - 1
    buffers = np.empty((2, _BLOCK * sizes.max()), np.float32)
    for place in chosen:
        m, first = place // n_blocks, place % n_blocks * _BLOCK
        flat = params[m if len(params) > 1 else 0]
        n_rows = min(_BLOCK, states.shape[1] - first)
        here, after = buffers[0], buffers[1]
        for e in range(n_rows):
            for k in range(sizes[0]):
                here[e * sizes[0] + k] = states[m, first + e, k]
        at = 0
        for k in range(n_layers):
            fan_in, fan_out = sizes[k], sizes[k + 1]
            floor = np.float32(0.0) if k + 1 < n_layers else np.float32(-np.inf)
            bias = at + fan_in * fan_out
            product(here, 0, fan_in, 1, flat, at, flat, bias, floor, after, 0, n_rows, fan_out,
                    fan_in)  # fmt: skip
            at = bias + fan_out
            here, after = after, here
        for e in range(n_rows):
            for a in range(sizes[n_layers]):
                out[m, first + e, a] = here[e * sizes[n_layers] + a]
