"""Whether the quotation marks of a CSV file are closed, before anything is read.

A mark that is opened and never closed makes one field of everything behind it, and a reader that
goes by the rules returns the rows before as if the file ended there.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from spibb.compiled.jit import jit
from spibb.errors import DataError
from spibb.tables.packing import opened

_QUOTE, _LF, _CR = ord('"'), ord("\n"), ord("\r")
_CLOSED, _OPEN, _FOLLOWED = 0, 1, 2
_AT_START, _PLAIN, _QUOTED, _AFTER = 0, 1, 2, 3
_BYTES = 1 << 24


def scan_quotes(file: Path, what: str, delimiter: str) -> bool:
    """Refuse a file with a field whose quotation marks do not match.

    Returns:
        Whether fields go over several lines.
    """
    state, row, mark_row, has_newlines, problem = _AT_START, 0, 0, False, _CLOSED
    with opened(file) as (stream, _):
        if stream.peek(3)[:3] == b"\xef\xbb\xbf":  # a mark of UTF-8
            stream.read(3)
        # Blocks end where a line does.
        while problem == _CLOSED and (block := stream.read(_BYTES)):
            block += stream.readline()
            if state == _AT_START and b'"' not in block:
                row += block.count(b"\n")
                continue
            data = np.frombuffer(block, dtype=np.uint8)
            problem, state, row, mark_row, has_newlines = _scan(
                data, ord(delimiter), state, row, mark_row, has_newlines
            )
    if problem == _CLOSED and state == _QUOTED:
        problem = _OPEN
    if problem == _CLOSED:
        return bool(has_newlines)
    found = "is never closed" if problem == _OPEN else "is followed by more text in its field"
    raise DataError(
        f"cannot read the {what} {file}: a quotation mark {found}",
        where=f"row {mark_row}",
        expected='fields in quotation marks as "so", and a mark inside of one twice',
        hint="close the field, or remove the mark",
    )


@jit  # Ctrl-C is heard meanwhile
def _scan(data, delimiter, state, row, mark_row, has_newlines):  # type: ignore[no-untyped-def]
    """Go on with a block; return what is wrong, and where its end leaves what was given.

    That is: in which part of a field, which row of the table, the row of the mark that was opened
    last, and whether a field goes over lines.
    """
    for place in range(len(data)):
        byte = data[place]
        ends_line = byte == _LF or (
            byte == _CR and not (place + 1 < len(data) and data[place + 1] == _LF)
        )
        if state == _QUOTED:
            if byte == _QUOTE:
                state = _AFTER
            elif ends_line:
                has_newlines = True
            continue
        if state == _AFTER and byte == _QUOTE:
            state = _QUOTED
        elif byte == delimiter:
            state = _AT_START
        elif ends_line:
            state = _AT_START
            row += 1
        elif byte == _CR:  # of a line that ends with two
            pass
        elif state == _AFTER:
            return _FOLLOWED, state, row, mark_row, has_newlines
        elif state == _AT_START and byte == _QUOTE:
            state, mark_row = _QUOTED, row
        else:
            state = _PLAIN
    return _CLOSED, state, row, mark_row, has_newlines
