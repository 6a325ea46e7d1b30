"""Columns of a table that describe the behaviour policy, as `Log.from_arrays` takes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spibb.data.log_columns import OF_AN_ACTION
from spibb.errors import DataError
from spibb.names import Names
from spibb.tables.columns import read_numbers
from spibb.tables.label_columns import encode

if TYPE_CHECKING:
    import pyarrow as pa


def with_acted(given: dict[str, Any], table: pa.Table, path: str | Path) -> dict[str, Any]:
    """Add what a table says of the behaviour policy to what it says besides.

    Columns ``propensity_ACTION`` count where one of them is called after an action of the log; then
    every action that was taken needs one, and others may have one.

    Args:
        given: What `Log.from_arrays` takes, without it.
        table: The table, under the names that columns have here.
        path: The file, for messages.
    """
    found = dict(given)
    for name in ("propensity", "target_probability"):
        if name in table.column_names:
            found[name] = read_numbers(table[name], name, path)
    if "policy" in table.column_names:
        codes, names = encode(table["policy"], "policy", path)
        found["policy"] = codes.astype(str) if names is None else np.array(names)[codes]
    every = [name for name in table.column_names if name.startswith(OF_AN_ACTION)]
    labels = found["action_labels"]
    old = Names(labels, int(found["action"].max()) + 1 if labels is None else len(labels))
    named = tuple(name.removeprefix(OF_AN_ACTION) for name in every)
    if not set(named) & set(old):
        return found
    taken = {old[place] for place in np.unique(found["action"]).tolist()}
    if lacking := sorted(taken - set(named)):
        raise DataError(
            f"{path} has no column '{OF_AN_ACTION}{lacking[0]}', but {', '.join(every)}",
            expected="a column for every action that was taken, or for none",
        )
    new = old.union(Names(named, len(named)))
    table_of_all = np.zeros((len(found["action"]), new.size))
    for name, column in zip(named, every, strict=True):
        table_of_all[:, new.places[name]] = read_numbers(table[column], column, path)
    found["action"] = old.within(new)[found["action"]]
    return {
        **found, "propensities": table_of_all, "action_labels": new.labels, "n_actions": new.size,
    }  # fmt: skip
