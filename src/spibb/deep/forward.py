"""Values of dense ReLU networks on NumPy arrays, by the compiled products of the training.

A BLAS rounds a row as the other rows of its batch suggest, and its threads wait for each other,
which on a busy machine costs many times the product. Here each element is one fixed chain of sums:
a state's values are the same bits in every batch, and threads share out blocks of states.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import inlined_jit, jit
from spibb.compiled.threads import over_chunks
from spibb.deep.products import product

Floats = NDArray[np.float32]
# States that go through a network together: small enough for the cache.
_BLOCK = 64
_ZERO, _LEAST = np.float32(0.0), np.float32(-np.inf)


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
    n_actions = sizes[len(sizes) - 1]
    buffers = np.empty((2, _BLOCK * sizes.max()), np.float32)
    source = states.reshape(-1)
    for place in chosen:
        m, first = place // n_blocks, place % n_blocks * _BLOCK
        n_rows = min(_BLOCK, states.shape[1] - first)
        at = (m * states.shape[1] + first) * sizes[0]
        flat = params[m if len(params) > 1 else 0]
        found = run_layers(sizes, n_rows, flat, source, at, buffers)
        for e in range(n_rows):
            for a in range(n_actions):
                out[m, first + e, a] = found[e * n_actions + a]


@inlined_jit
def run_layers(sizes, n_rows, params, source, source_at, buffers):  # type: ignore[no-untyped-def]
    """Run one network on rows of states; return the buffer that holds Q, flat."""
    here, at = source, 0
    for k in range(len(sizes) - 1):
        fan_in, fan_out = sizes[k], sizes[k + 1]
        after = buffers[k % 2]
        bias = at + fan_in * fan_out
        floor = _ZERO if k + 2 < len(sizes) else _LEAST
        product(here, source_at if k == 0 else 0, fan_in, 1, params, at, params, bias, floor, after,
                0, n_rows, fan_out, fan_in)  # fmt: skip
        here, at = after, bias + fan_out
    return here
