"""Find networks that have died: their Q no longer depends on the state.

A network is dead if one of its hidden layers has no active unit at any state of its data set. What
comes after that layer is the same for all of them, and no gradient passes it: training can only
move the output, never bring the layer back. There is no tolerance in this, hence no false alarm.

A living network shows an active unit of each layer in the first few states, so that looking costs
next to nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.compiled.threads import over_chunks
from spibb.deep.population import PopulationState, Trainings
from spibb.deep.products import product

# States that go through a network together.
_BLOCK = 64
_ZERO = np.float32(0.0)


def dead_members(trainings: Trainings, state: PopulationState) -> NDArray[np.bool_]:
    """Say which members are dead, shape (R,); those that diverged are not."""
    dead = np.zeros(len(state.params), np.bool_)
    is_whole = np.isfinite(state.params).all(axis=1) & (state.diverged_at < 0)
    recipes, states = trainings.recipes, trainings.records.state
    sizes = np.array(trainings.sizes, np.int64)
    over_chunks(
        lambda places: _find(
            places, sizes, state.params, states, recipes.first_row, recipes.n_rows, dead
        ),
        np.flatnonzero(is_whole),
    )
    return dead


@jit
def _find(places, sizes, params, states, first_row, n_rows, dead):  # type: ignore[no-untyped-def]
    n_hidden = len(sizes) - 2
    buffers = np.empty((2, _BLOCK * sizes.max()), np.float32)
    is_active = np.empty(n_hidden, np.bool_)
    source = states.reshape(-1)
    for m in places:
        flat, first, last = params[m], first_row[m], first_row[m] + n_rows[m]
        is_active[:] = False
        n_active = 0
        while first < last and n_active < n_hidden:
            n_states = min(_BLOCK, last - first)
            here, here_at, at = source, first * sizes[0], 0
            for k in range(n_hidden):
                fan_in, fan_out = sizes[k], sizes[k + 1]
                after = buffers[k % 2]
                bias = at + fan_in * fan_out
                product(here, here_at, fan_in, 1, flat, at, flat, bias, _ZERO, after, 0, n_states,
                        fan_out, fan_in)  # fmt: skip
                here, here_at, at = after, 0, bias + fan_out
                for i in range(n_states * fan_out):
                    if is_active[k]:
                        break
                    if after[i] > _ZERO:
                        is_active[k] = True
                        n_active += 1
            first += n_states
        dead[m] = n_active < n_hidden
