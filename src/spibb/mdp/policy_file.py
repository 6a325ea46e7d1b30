"""Read the long table ``state, action, probability``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spibb.errors import PolicyError
from spibb.mdp.policy import LOG_HASH, MINIMIZE, TabularPolicy
from spibb.tables.columns import read_numbers, require_columns, without_unnamed
from spibb.tables.data_frames import FRAME, arrow_table, as_text
from spibb.tables.files import find_files
from spibb.tables.label_columns import Labels, check_size, encode
from spibb.tables.parquet_files import ParquetSource
from spibb.tables.reading import read_table
from spibb.tables.registry import source_of

if TYPE_CHECKING:
    import pyarrow as pa


_COLUMNS = ("state", "action", "probability")


def read_policy(path: str | Path) -> TabularPolicy:
    """Read a policy file; pairs that are left out have probability 0."""
    table = read_table(path, what="policy", names=[["state"], ["action"]], numbers=("probability",))
    facts = _facts(path)
    log_hash, minimize = facts.get(LOG_HASH), facts.get(MINIMIZE)
    is_hash = isinstance(log_hash, str) and re.fullmatch("[0-9a-f]{32}", log_hash)
    return policy_from_table(
        table,
        path,
        log_hash=log_hash if is_hash else None,
        minimize=minimize if isinstance(minimize, bool) else None,
    )


def _facts(path: str | Path) -> dict[str, Any]:
    """Return what the file of a policy says beside its table: what the policy was made of."""
    import pyarrow.parquet

    files = find_files(path, what="policy")
    if len(files) > 1 or not isinstance(source_of(files[0]), ParquetSource):
        return {}
    try:
        found = json.loads((pyarrow.parquet.read_schema(files[0]).metadata or {})[b"spibb"])
    except (KeyError, TypeError, ValueError):  # a table that others have written
        return {}
    return found if isinstance(found, dict) else {}


def policy_from_frame(frame: Any) -> TabularPolicy:
    """Make a policy of a pandas, polars or Arrow table, by the rules of a file."""
    table = as_text(without_unnamed(arrow_table(frame), FRAME), _COLUMNS, FRAME)
    if table.num_rows == 0:
        raise PolicyError(f"{FRAME} has no rows", expected="at least one row")
    return policy_from_table(table, FRAME)


def policy_from_table(table: pa.Table, path: str | Path, **made: Any) -> TabularPolicy:
    """Make a policy of an Arrow table.

    Args:
        table: The table.
        path: Where it is, for messages.
        **made: What the policy was made of, as `TabularPolicy` takes it.
    """
    require_columns(table.column_names, _COLUMNS, path, can_rename=False)
    states, state_labels = encode(table["state"], "state", path)
    actions, action_labels = encode(table["action"], "action", path)
    probability = read_numbers(table["probability"], "probability", path, error=PolicyError)
    _check_present(probability, path)
    shape = (_size(states, state_labels), _size(actions, action_labels))
    check_size(*shape, path)
    _check_duplicates(states, actions, shape[1], path)
    probabilities = np.zeros(shape)
    probabilities[states, actions] = probability
    return TabularPolicy(probabilities, state_labels, action_labels, **made)


def _check_present(probability: NDArray[np.float64], path: str | Path) -> None:
    bad = ~np.isfinite(probability)
    if bad.any():
        raise PolicyError(
            "a probability is missing or not finite",
            where=f"row {int(np.argmax(bad)) + 1} of {path}",
            expected="a number between 0 and 1",
            hint="fill it in; a pair that is never chosen may be left out",
        )


def _size(codes: NDArray[np.int64], labels: Labels) -> int:
    return int(codes.max()) + 1 if labels is None else len(labels)


def _check_duplicates(
    states: NDArray[np.int64], actions: NDArray[np.int64], n_actions: int, path: str | Path
) -> None:
    pairs = states * n_actions + actions
    order = np.argsort(pairs, kind="stable")
    twice = np.flatnonzero(pairs[order][1:] == pairs[order][:-1])
    if len(twice):
        first, second = order[twice[0]], order[twice[0] + 1]
        raise PolicyError(
            "the same state and action are listed twice",
            where=f"row {first + 1} of {path}, again in row {second + 1}",
            expected="each pair once",
            hint="keep one row for each pair",
        )
