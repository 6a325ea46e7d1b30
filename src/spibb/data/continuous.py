"""States and actions that are measurements: of those, each occurs once, and nothing is learnt."""

from __future__ import annotations

import re
from pathlib import Path

from spibb.errors import DataError
from spibb.table_files import Labels

_FRACTION = re.compile(r"-?\d*\.\d+(?:[eE][-+]?\d+)?")
# Fewer rows may look like anything.
_FEWEST_ROWS = 20


def refuse_continuous(name: str, labels: Labels, n_rows: int, path: str | Path) -> None:
    """Refuse names that are fractions and hardly repeat.

    Args:
        name: What they name, "state" or "action".
        labels: Those that occur.
        n_rows: In how many rows.
        path: The file, for messages.
    """
    if labels is None or n_rows < _FEWEST_ROWS or 2 * len(labels) < n_rows:
        return
    fractions = [label for label in labels if _FRACTION.fullmatch(label)]
    # Some measurements are whole numbers.
    if 10 * len(fractions) < 9 * len(labels):
        return
    raise DataError(
        f"the {name} of {path} looks continuous: {len(labels):,} different values in "
        f"{n_rows:,} rows, such as {fractions[0]}",
        expected=f"{name}s that occur again and again",
        hint=f"group the values first, for example into low, middle and high, and name the groups "
        f"in the column {name!r}",
    )
