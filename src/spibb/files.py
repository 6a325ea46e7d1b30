"""Files that are whole or not there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from spibb.errors import OutputError, SpibbError


def as_path(path: Any, error: type[SpibbError] = OutputError) -> Path:
    """Return a path, or say that it is none.

    Args:
        path: A text or a path.
        error: What is raised.
    """
    try:
        return Path(path)
    except TypeError:
        raise error(f"a path is {path!r}", expected="a text or a pathlib.Path") from None


def write_whole(path: Any, content: bytes) -> None:
    """Write a file, whole or not at all.

    A link stays, and the file that it points to is replaced; a device or a pipe is written to.
    """
    given = as_path(path)
    try:
        # Replacing would put the file in the link's place.
        file = Path(os.path.realpath(given))
        if file.exists() and not file.is_file():
            file.write_bytes(content)
        else:
            replace_whole(file, unfinished(file), content)
    except (OSError, ValueError) as problem:
        raise OutputError(f"cannot write {path}: {reason(problem)}") from None


def reason(problem: Exception) -> str:
    """Return what the system says, or Python of a name that no file can have."""
    return getattr(problem, "strerror", None) or str(problem)


def unfinished(file: Path) -> Path:
    """Return where a file is written before it takes its name."""
    return file.with_name(file.name + ".part")


def replace_whole(file: Path, part: Path, content: Any) -> None:
    """Write beside a file and take its name at the end; nothing is left where that fails.

    Args:
        file: The file.
        part: Where its content is collected, on the same disk.
        content: Bytes, or what a binary stream takes for such.
    """
    try:
        with part.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(file)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
