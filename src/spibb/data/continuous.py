"""States and actions that are measurements: hardly one of them is met again."""

from __future__ import annotations

import re

import numpy as np

from spibb.data.counts import Counts
from spibb.errors import DataError
from spibb.names import Names

# Fewer rows may look like anything; of as many values as this share of the rows, few repeat.
_FEWEST_ROWS, _SHARE = 50, 0.5
_DECIMAL = re.compile(r"\s*-?(\d+\.\d+|\d+(\.\d*)?[eE][-+]?\d+|\.\d+)\s*")
_N_SHOWN = 200


def hardly_repeat(n_values: int, n_rows: int) -> bool:
    """Whether so many different values are too many for so many rows."""
    return n_rows >= _FEWEST_ROWS and n_values >= _SHARE * n_rows


def are_decimals(names: Names) -> bool:
    """Whether names are decimal numbers; some measurements are whole."""
    sample = [names[place] for place in range(min(names.size, _N_SHOWN))]
    return sum(_DECIMAL.fullmatch(name) is not None for name in sample) > len(sample) / 2


def refuse_continuous(counts: Counts) -> None:
    """Refuse a log whose states or actions are decimal numbers that hardly repeat."""
    n_rows = int(counts.n_sa.sum())
    for axis, name, names in ((1, "state", counts.states), (0, "action", counts.actions)):
        if not hardly_repeat(names.size, n_rows):
            continue
        n_values = int(np.count_nonzero(counts.n_sa.any(axis=axis)))
        if not (hardly_repeat(n_values, n_rows) and are_decimals(names)):
            continue
        raise DataError(
            f"the {name} looks continuous: there are {n_values:,} different {name}s in "
            f"{n_rows:,} rows, decimal numbers such as {names[0]}",
            expected=f"{name}s that occur again and again",
            hint=f"group the readings into {name}s (intervals, clusters), or use networks",
        )
