"""Folders that appear when they are complete, or not at all.

A folder is filled under a name of its own and then renamed. While it is, its process holds a lock
on it: what lies there unlocked was left by one that was killed. It is swept when the same folder is
written again, and an earlier result that was put aside at that moment is put back.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from spibb.atomic_files import reason, sync_folder
from spibb.errors import OutputError

try:
    import fcntl
except ImportError:  # Windows: nothing is locked, and nothing swept
    fcntl = None  # type: ignore[assignment]

_EARLIER = "-earlier"


def check_replaceable(folder: Path, *, overwrite: bool, known: Collection[str]) -> None:
    """Refuse a folder that exists, or that holds anything but the known names."""
    try:
        _sweep(folder.resolve())
        if not folder.exists():
            return
        is_folder = folder.is_dir()
        foreign = sorted({part.name for part in folder.iterdir()} - {*known}) if is_folder else []
    except (OSError, RuntimeError, ValueError) as error:
        raise _not_written(folder, error) from None
    if not is_folder:
        raise OutputError(f"{folder} is a file", expected="a folder", hint="choose another name")
    if not overwrite:
        raise OutputError(
            f"{folder} exists already", hint="choose another folder, or add --overwrite"
        )
    if foreign:
        raise OutputError(
            f"{folder} holds {foreign[0]!r}, which is not part of a result, so it is not replaced",
            hint="choose another folder",
        )


def write_folder(
    folder: Path, fill: Callable[[Path], None], *, overwrite: bool = False, known: Collection[str]
) -> None:
    """Let ``fill`` write into a folder that appears when it is complete, or not at all.

    Args:
        folder: Where it shall appear.
        fill: Writes the files into the folder it is given.
        overwrite: Replace an earlier folder, if it holds nothing but the known names.
        known: Names that such a folder may hold.
    """
    folder = Path(folder)
    check_replaceable(folder, overwrite=overwrite, known=known)
    try:
        # Resolved, so that "." and links stand for the folder that they mean.
        target = folder.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        with _new_folder(target) as part:
            try:
                fill(part)
                sync_folder(part)
                # Somebody else may have been faster.
                check_replaceable(folder, overwrite=overwrite, known=known)
                _replace(target, part)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    except OutputError as error:
        if error.__cause__ is None:
            raise
        # A file in it, under a name that nobody knows.
        raise _not_written(folder, error.__cause__) from None
    except (OSError, RuntimeError) as error:
        raise _not_written(folder, error) from None


@contextmanager
def _new_folder(target: Path) -> Iterator[Path]:
    """Make a folder beside the target, and hold it."""
    while True:
        part = target.with_name(f"{_prefix(target)}{secrets.token_hex(8)}")
        part.mkdir()  # as readable as the user's mask has it
        with _held(part) as is_free:
            if is_free and part.exists():  # not swept in between
                yield part
                return


def _prefix(target: Path) -> str:
    # By a hash: names may be too long for more, and nobody else calls a folder so.
    return f".spibb-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}-"


@contextmanager
def _held(folder: Path) -> Iterator[bool]:
    """Hold a folder as one in use; yields whether nobody else does."""
    if fcntl is None:
        yield True
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_free = True
        except OSError:
            is_free = False
        yield is_free
    finally:
        os.close(descriptor)


def _replace(target: Path, finished: Path) -> None:
    """Put a finished folder in place; an earlier one is given up only when that has worked."""
    if not target.exists():
        finished.rename(target)
        return
    earlier = finished.with_name(finished.name + _EARLIER)
    with _held(target):
        target.rename(earlier)
        try:
            finished.rename(target)
        except OSError:
            earlier.rename(target)
            raise
        shutil.rmtree(earlier)


def _sweep(target: Path) -> None:
    """Remove what killed processes have left of this folder, and put back what they put aside."""
    if fcntl is None or not target.parent.is_dir():
        return
    left = re.compile(re.escape(_prefix(target)) + r"[0-9a-f]{16}(-earlier)?")
    entries = [entry for entry in target.parent.iterdir() if left.fullmatch(entry.name)]
    # Results that were put aside come first: they are what must not be lost.
    for entry in sorted(entries, key=lambda entry: not entry.name.endswith(_EARLIER)):
        try:
            with _held(entry) as is_free:
                if not is_free:
                    continue
                if entry.name.endswith(_EARLIER) and not target.exists():
                    entry.rename(target)
                else:
                    shutil.rmtree(entry, ignore_errors=True)
        except OSError:  # gone, or not ours
            continue


def _not_written(folder: Path, error: BaseException) -> OutputError:
    return OutputError(
        f"cannot write {folder}: {reason(error)}",
        hint="check that the disk has room and that you may write there",
    )
