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
from spibb.deep.forward import BLOCK, layer_firsts, run_layers
from spibb.deep.population import PopulationState, Trainings


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
    first = layer_firsts(sizes, BLOCK)
    values = np.empty(first[len(sizes)], np.float32)
    is_active = np.empty(n_hidden, np.bool_)
    source = states.reshape(-1)
    for m in places:
        is_active[:] = False
        for row in range(first_row[m], first_row[m] + n_rows[m], BLOCK):
            n_states = min(BLOCK, first_row[m] + n_rows[m] - row)
            run_layers(sizes, n_states, params[m], source, row * sizes[0], values, first)
            for k in range(n_hidden):
                units = values[first[k + 1] : first[k + 1] + n_states * sizes[k + 1]]
                is_active[k] = is_active[k] or units.max() > 0.0
            if is_active.all():
                break
        dead[m] = not is_active.all()
