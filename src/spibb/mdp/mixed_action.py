"""One more action in every state: a mixture of the others, such as "follow the baseline"."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spibb.compiled.jit import jit
from spibb.compiled.threads import over_chunks
from spibb.mdp.batch import ModelBatch


def with_mixed_action(
    batch: ModelBatch, weights: NDArray[np.float64], reward: NDArray[np.float64]
) -> ModelBatch:
    """Add to every state one more action, whose row is a weighted sum of the others.

    Args:
        batch: The models.
        weights: Weight of each action's row, shape (B, S, A); zeros make an action that ends.
        reward: Reward of the new action, shape (B, S).
    """
    n_problems, n_states, n_actions = batch.shape
    lengths = np.diff(batch.indptr).reshape(-1, n_actions)
    used = np.where(weights.reshape(-1, n_actions) > 0, lengths, 0).sum(axis=1)
    sizes = np.concatenate([lengths, used[:, None]], axis=1).ravel()
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    indices, data = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1])
    ending = (weights * (batch.ending - 1.0)).sum(axis=2) + 1.0
    states = np.arange(n_problems * n_states)
    over_chunks(
        lambda part: _write_mixed(part, batch.indptr, batch.indices, batch.data,
                                  weights.reshape(-1, n_actions), indptr, indices, data), states
    )  # fmt: skip
    return replace(
        batch,
        indptr=indptr,
        indices=indices,
        data=data,
        reward=np.concatenate([batch.reward, reward[:, :, None]], axis=2),
        ending=np.concatenate([batch.ending, ending[:, :, None]], axis=2),
    )


@jit
def _write_mixed(states, indptr, indices, data, weights, to_indptr, to_indices, to_data):  # type: ignore[no-untyped-def]
    """Copy the rows of some states and append their weighted sum, successors listed repeatedly."""
    n_actions = weights.shape[1]
    for state in states:
        pair = state * n_actions
        place = to_indptr[state * (n_actions + 1)]
        for k in range(indptr[pair], indptr[pair + n_actions]):
            to_indices[place] = indices[k]
            to_data[place] = data[k]
            place += 1
        for a in range(n_actions):
            if weights[state, a] > 0.0:
                for k in range(indptr[pair + a], indptr[pair + a + 1]):
                    to_indices[place] = indices[k]
                    to_data[place] = weights[state, a] * data[k]
                    place += 1
