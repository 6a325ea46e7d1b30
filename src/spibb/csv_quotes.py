"""Whether the quotation marks of a CSV file are closed, before anything is read.

A mark that is opened and never closed makes one field of everything behind it, and a reader that
goes by the rules returns the rows before as if the file ended there.
"""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np

from spibb.compiled.jit import jit
from spibb.errors import DataError

_QUOTE, _COMMA, _LF, _CR = ord('"'), ord(","), ord("\n"), ord("\r")
_CLOSED, _OPEN, _FOLLOWED = 0, 1, 2


def scan_quotes(file: Path, what: str) -> bool:
    """Refuse a file with a field whose quotation marks do not match.

    Returns:
        Whether fields go over several lines.
    """
    with file.open("rb") as stream:
        if not stream.read(1):
            return False
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as view:
            if view.find(b'"') < 0:
                return False
            begin = 3 if view[:3] == b"\xef\xbb\xbf" else 0  # a mark of UTF-8
            data = np.frombuffer(view, dtype=np.uint8)[begin:]
            problem, row, has_newlines = _scan(data)
            del data  # a view that is in use cannot be closed
    if problem == _CLOSED:
        return bool(has_newlines)
    found = "is never closed" if problem == _OPEN else "is followed by more text in its field"
    raise DataError(
        f"cannot read the {what} {file}: a quotation mark {found}",
        where=f"row {row}",
        expected='fields in quotation marks as "so", and a mark inside of one twice',
        hint="close the field, or remove the mark",
    )


@jit  # Ctrl-C is heard meanwhile
def _scan(data):  # type: ignore[no-untyped-def]
    """Return what is wrong, in which row of the table, and whether a field goes over lines."""
    at_start, plain, quoted, closed = 0, 1, 2, 3
    state, row, opened, has_newlines = at_start, 0, 0, False
    for place in range(len(data)):
        byte = data[place]
        ends_line = byte == _LF or (
            byte == _CR and not (place + 1 < len(data) and data[place + 1] == _LF)
        )
        if state == quoted:
            if byte == _QUOTE:
                state = closed
            elif ends_line:
                has_newlines = True
            continue
        if state == closed and byte == _QUOTE:
            state = quoted
        elif byte == _COMMA:
            state = at_start
        elif ends_line:
            state = at_start
            row += 1
        elif byte == _CR:  # of a line that ends with two
            pass
        elif state == closed:
            return _FOLLOWED, opened, has_newlines
        elif state == at_start and byte == _QUOTE:
            state, opened = quoted, row
        else:
            state = plain
    return (_OPEN if state == quoted else _CLOSED), opened, has_newlines
