"""Groups of rows, by a column of a log that decides nothing: wards, sites, years."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spibb.data.log_columns import check_column
from spibb.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

EMPTY = "(empty)"
_MOST_GROUPS = 1_000


def encode_groups(table: pa.Table, by: str, path: str | Path) -> dict[str, Any]:
    """Return the places of a column's values, and the values, in natural order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    check_column(table, by, path, "to group by", "--by")
    try:
        texts = table[by].cast(pa.string()).fill_null(EMPTY)
    except pa.ArrowException:
        raise DataError(
            f"column {by!r} of {path} holds values of type {table[by].type}",
            expected="texts or numbers to group by",
        ) from None
    labels = sorted(pc.unique(texts).to_pylist(), key=natural)
    if len(labels) > _MOST_GROUPS:
        raise DataError(
            f"column {by!r} of {path} has {len(labels):,} different values",
            expected=f"at most {_MOST_GROUPS:,} groups",
            hint="group by a column with fewer, or make classes of its values",
        )
    places = pc.index_in(texts, value_set=pa.array(labels, pa.string()))
    codes = np.asarray(places.to_numpy(), dtype=np.int64)
    return {"group": codes, "group_labels": labels}


def natural(name: str) -> list[tuple[bool, int, str]]:
    """Return a key that puts 'ward 2' before 'ward 10'.

    Example:
        >>> sorted(["ward 10", "b", "ward 2"], key=natural)
        ['b', 'ward 2', 'ward 10']
    """
    parts = re.findall(r"([0-9]+)|([^0-9]+)", name)
    return [(not digits, int(digits or 0), digits or text) for digits, text in parts]
