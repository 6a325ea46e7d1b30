"""What separates the fields of a CSV file: told by its first lines, refused where these do not."""

from __future__ import annotations

import re
from pathlib import Path

from spibb.errors import DataError

# What each is called in messages.
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_QUOTED = re.compile(rb'"[^"]*"')


def find_delimiter(start: bytes, file: Path, what: str) -> str:
    """Return the mark between the names of the columns.

    Where the header holds several marks, the one by which all lines have as many fields as it, and
    of such the one by which these are the most.

    Args:
        start: The first lines.
        file: The file, for messages.
        what: What it is to the user.
    """
    lines = [line for line in _QUOTED.sub(b"", start).splitlines() if line.strip()]
    n_fields = {mark: [1 + line.count(mark.encode()) for line in lines] for mark in DELIMITERS}
    present = [mark for mark, found in n_fields.items() if found and found[0] > 1]
    if len(present) < 2:
        return present[0] if present else ","
    even = [mark for mark in present if len(set(n_fields[mark])) == 1] or present
    most = max(n_fields[mark][0] for mark in even)
    best = [mark for mark in even if n_fields[mark][0] == most]
    if len(best) == 1:
        return best[0]
    raise DataError(
        f"cannot tell whether fields of the {what} {file} are separated by "
        f"{' or '.join(DELIMITERS[mark] for mark in best)}",
        where="the header",
        expected=f"one of {', '.join(DELIMITERS.values())}",
        hint="use one of them, and put quotation marks around fields that contain another",
    )
