"""Files that are whole or not there, written in one way.

A file is written under a name that nobody else has, in the folder where it shall be, brought to the
disk, and then takes its name in one step. Readers see the old file or the new one; two writers do
not tear each other's; what fails or is killed leaves the old file alone.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from pathlib import Path
from typing import Any

from spibb.errors import OutputError, SpibbError

# What a process that was killed leaves behind ends with it.
UNFINISHED = ".unfinished"


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


def write_whole(path: Any, content: Any) -> None:
    """Write a file, whole or not at all.

    A link stays, and the file that it points to is replaced; a device or a pipe is written to.

    Args:
        path: Where.
        content: Bytes, or what a binary stream takes for such.
    """
    given = as_path(path)
    try:
        # Replacing would put the file in the link's place.
        file = Path(os.path.realpath(given))
        if file.exists() and not file.is_file():
            file.write_bytes(content)
        else:
            replace_whole(file, content)
    except (OSError, ValueError) as problem:
        raise OutputError(f"cannot write {path}: {reason(problem)}") from problem


def reason(problem: BaseException) -> str:
    """Return what the system says, or Python of a name that no file can have."""
    return getattr(problem, "strerror", None) or str(problem)


def unfinished_name() -> str:
    """Return a name that nobody else has, for what is not finished yet."""
    return f".spibb-{secrets.token_hex(8)}{UNFINISHED}"


def replace_whole(file: Path, content: Any) -> None:
    """Write beside a file and take its name at the end; nothing is left where that fails.

    Args:
        file: The file, no link.
        content: Bytes, or what a binary stream takes for such.
    """
    part = file.with_name(unfinished_name())
    # Never an existing file, and never through a link that somebody has put there.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    flags |= getattr(os, "O_BINARY", 0)
    descriptor = os.open(part, flags, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if file.exists():  # who may read it does not change
            os.chmod(part, stat.S_IMODE(file.stat().st_mode))
        part.replace(file)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_folder(file.parent)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk, where the system can."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # folders cannot be opened everywhere
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def write_json(path: Path, facts: dict[str, Any], *, is_long: bool = False) -> None:
    """Write strict JSON, with a line for each fact unless there are very many."""
    indent = None if is_long else 2
    text = json.dumps(facts, indent=indent, allow_nan=False, ensure_ascii=False)
    write_whole(path, (text + "\n").encode())
