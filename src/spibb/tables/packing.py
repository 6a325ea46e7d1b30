"""Files that are packed as a whole, opened as what is in them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spibb.errors import DataError

# What packs a whole file; Parquet and Arrow pack what is inside of them.
_PACKED = {".gz": "gzip", ".zst": "zstd"}
_BUFFER = 1 << 20
# Longer lines of a packed file are none: few bytes unpack to more than the memory holds.
_LONGEST_LINE = 1 << 26


def packing(file: Path) -> str | None:
    """Return how a file is packed, by its name; None where it is not."""
    return _PACKED.get(file.suffix.lower())


@contextmanager
def opened(file: Path) -> Iterator[tuple[io.BufferedReader[Any], io.BufferedReader[Any]]]:
    """Open a file for reading, unpacked, and as it is: the place there tells how far it was read.

    What is packed and damaged raises OSError when it is read.
    """
    import pyarrow as pa

    packed_by = packing(file)
    with file.open("rb") as raw:
        if packed_by is None:
            yield raw, raw
            return
        unpacked = _Lines(pa.CompressedInputStream(raw, packed_by), file)
        with io.BufferedReader(unpacked, _BUFFER) as stream:
            yield stream, raw


class _Lines(io.RawIOBase):
    """A stream of text whose lines are of bearable length."""

    def __init__(self, stream: Any, file: Path) -> None:
        self._stream, self._file, self._length = stream, file, 0

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes; refuse those that make a line too long."""
        found = self._stream.read(len(buffer))
        buffer[: len(found)] = found
        end = found.rfind(b"\n")
        self._length = len(found) - end - 1 if end >= 0 else self._length + len(found)
        if self._length > _LONGEST_LINE:
            raise DataError(
                f"a line of {self._file} has more than {_LONGEST_LINE >> 20} MB, unpacked",
                expected="a table with a row on each line",
                hint="unpack the file and look at it: it may be damaged or made to do harm",
            )
        return len(found)
