"""Find networks that have died: their Q no longer depends on the state.

A network is dead if one of its hidden layers has no active unit at any state of its data set. What
comes after that layer is the same for all of them, and no gradient passes it: training can only
move the output, never bring the layer back. There is no tolerance in this, hence no false alarm.

A living network shows an active unit of each layer in the first few states, so that looking costs
next to nothing: only those that show none are asked about more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spibb.deep.forward import Networks, layer_places
from spibb.deep.population import PopulationState, TrainingBatch

# States that a network is asked about at first, and all that are silent together from then on.
_FEW, _MANY = 32, 2**14


def dead_members(trainings: TrainingBatch, state: PopulationState) -> NDArray[np.bool_]:
    """Say which members are dead, shape (R,); those that diverged are not."""
    recipes, sizes = trainings.recipes, trainings.sizes
    is_whole = np.isfinite(state.params).all(axis=1) & (state.diverged_at < 0)
    dead = np.zeros_like(is_whole)
    for k, (_, _, end, _, _) in enumerate(layer_places(sizes)[:-1]):
        silent, first, n_states = np.flatnonzero(is_whole & ~dead), 0, _FEW
        while len(silent) and first < recipes.n_rows.max():
            # A data set that is over begins again.
            rows = np.arange(first, first + n_states) % recipes.n_rows[silent, None]
            seen = trainings.records.state[recipes.first_row[silent, None] + rows]
            # A network that ends with this layer tells what its ReLU is given.
            units = Networks(state.params[silent, :end], sizes[: k + 2]).q(seen)
            silent = silent[~(units.max(axis=(1, 2)) > 0.0)]
            first, n_states = first + n_states, max(_FEW, _MANY // max(len(silent), 1))
        dead[silent] = True
    return dead
