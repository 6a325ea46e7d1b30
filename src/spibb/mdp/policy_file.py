"""Read the long table ``state, action, probability``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.errors import PolicyError
from spibb.mdp.policy import TabularPolicy
from spibb.tables import Labels, encode, read_table, require_columns


def read_policy(path: str | Path) -> TabularPolicy:
    """Read a policy file; pairs that are left out have probability 0."""
    table = read_table(path, what="policy")
    require_columns(table.column_names, ("state", "action", "probability"), path)
    states, state_labels = _without_gaps(*encode(table["state"], "state", path))
    actions, action_labels = encode(table["action"], "action", path)
    probability = _numbers(table["probability"], path)
    shape = (_size(states, state_labels), _size(actions, action_labels))
    _refuse_duplicates(states, actions, shape[1], path)
    probabilities = np.zeros(shape)
    probabilities[states, actions] = probability
    return TabularPolicy(probabilities, state_labels, action_labels)


def _without_gaps(codes: NDArray[np.int64], labels: Labels) -> tuple[NDArray[np.int64], Labels]:
    """Name integer states if some are left out, so that a missing state stays missing."""
    if labels is not None:
        return codes, labels
    present, places = np.unique(codes, return_inverse=True)
    if len(present) == int(present[-1]) + 1:
        return codes, None
    return places.astype(np.int64), tuple(str(state) for state in present)


def _numbers(column: Any, path: str | Path) -> NDArray[np.float64]:
    import pyarrow as pa

    try:
        values = column.cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid as error:
        raise PolicyError(
            f"column 'probability' of {path} holds something that is not a number ({error})"
        ) from None
    bad = ~np.isfinite(values)
    if bad.any():
        raise PolicyError(
            "a probability is missing or not finite",
            where=f"row {int(np.argmax(bad)) + 1} of {path}",
            expected="a number between 0 and 1",
        )
    return np.asarray(values, dtype=np.float64)


def _size(codes: NDArray[np.int64], labels: Labels) -> int:
    return int(codes.max()) + 1 if labels is None else len(labels)


def _refuse_duplicates(
    states: NDArray[np.int64], actions: NDArray[np.int64], n_actions: int, path: str | Path
) -> None:
    pairs = states * n_actions + actions
    _, first, n_rows = np.unique(pairs, return_index=True, return_counts=True)
    if (n_rows > 1).any():
        row = int(first[np.argmax(n_rows > 1)])
        raise PolicyError(
            "the same state and action are listed twice",
            where=f"row {row + 1} of {path}",
            hint="keep one row for each pair",
        )
