"""Files that are whole or not there: networks, policies, checkpoints."""

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
            _replace(file, content)
    except (OSError, ValueError) as problem:
        raise OutputError(f"cannot write {path}: {reason(problem)}") from None


def reason(problem: Exception) -> str:
    """Return what the system says, or Python of a name that no file can have."""
    return getattr(problem, "strerror", None) or str(problem)


def unfinished(file: Path) -> Path:
    """Return where a file is written before it takes its name."""
    return file.with_name(file.name + ".part")


def _replace(file: Path, content: bytes) -> None:
    part = unfinished(file)
    try:
        with part.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(file)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
