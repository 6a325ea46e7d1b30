"""How the files of a table are found."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from spibb.errors import DataError
from spibb.tables.registry import endings, source_of, titles

# What the first bytes of a database say.
_DATABASES = {"sqlite": (0, b"SQLite format 3\x00"), "duckdb": (8, b"DUCK")}
# Bytes below which files may be alike by chance: a day with few rows.
_LEAST_COPY = 1_000
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def database_kind(path: str | Path) -> str | None:
    """Return sqlite or duckdb, by the first bytes of a file; None for anything else."""
    try:
        if not Path(path).is_file():
            return None
        with Path(path).open("rb") as stream:
            start = stream.read(16)
    except (OSError, ValueError):
        return None
    found = (name for name, (at, mark) in _DATABASES.items() if start[at:].startswith(mark))
    return next(found, None)


def find_files(path: str | Path, *, what: str) -> list[Path]:
    """Return the table files that a path, folder or glob stands for, sorted by name.

    Those of a folder are the ones in it, and in folders of partitions, which are called ``day=3``.
    """
    if not str(path):
        raise DataError(
            f"the path of the {what} is empty",
            expected=_expected(),
        )
    root = Path(path)
    nothing = f"no such {what}: {path}"
    try:
        if root.is_dir():
            files = sorted(_tables_in(root))
            nothing += " is a folder without tables"
        elif root.exists():
            files = [root]
        else:
            files = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
            nothing += " matches no file" if glob.has_magic(str(path)) else ""
    except OSError as error:
        raise DataError(f"cannot read the {what} {path}: {error.strerror}") from None
    if not files:
        raise DataError(
            nothing,
            expected=_expected(),
            hint="check the path; for files in sub-folders, give a glob as 'logs/**/*.csv'",
        )
    for file in files:
        if source_of(file):
            continue
        if database_kind(file):
            raise DataError(
                f"the {what} {file} is a database",
                expected="a query beside it",
                hint="say --query 'SELECT ...' (in Python read_log(path, query=...))",
            )
        raise DataError(
            f"cannot tell the format of the {what} {file}",
            expected=f"a name in {endings()}",
            hint="save the table as CSV or Parquet",
        )
    if what == "log":
        _check_different(files, path)
    return files


def _expected() -> str:
    return f"a table in {titles()}: a file, folder or glob"


def _check_different(files: list[Path], path: str | Path) -> None:
    """Refuse two files of a log that hold the same bytes: one was copied under another name.

    Small files may be alike by chance, and partitions may be.
    """
    by_size: dict[int, list[Path]] = {}
    for file in files:
        if file.is_file() and (size := file.stat().st_size) >= _LEAST_COPY:
            by_size.setdefault(size, []).append(file)
    for alike in by_size.values():
        known: dict[tuple[str, str], Path] = {}
        for file in alike if len(alike) > 1 else ():
            key = (_digest(file), str(partition_of(file, path)))
            if key in known:
                raise DataError(
                    f"the files {known[key]} and {file} hold the same bytes",
                    expected="files of which each holds rows of its own",
                    hint="remove the copies: each row would count as often as there are copies",
                )
            known[key] = file


def _digest(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return str(file)  # whoever reads it says what is wrong


def _tables_in(folder: Path) -> Iterator[Path]:
    for found in folder.iterdir():
        if found.is_dir() and "=" in found.name:
            yield from _tables_in(found)
        elif source_of(found):
            yield found


def partition_of(file: Path, path: str | Path) -> dict[str, str | None]:
    """Return what the folders between a path and a file of it say: ``ward=icu`` is a column.

    Args:
        file: One of the files that `find_files` found.
        path: The folder or glob.
    """
    root = Path(path)
    given = list(file.parts[:-1])
    if root.is_dir():
        given = given[len(root.parts) :]
    elif root == file:
        given = []
    else:
        is_fixed = [not glob.has_magic(part) for part in root.parts]
        given = given[[*is_fixed, False].index(False) :]
    pairs = (part.split("=", 1) for part in given if "=" in part)
    return {
        unquote(name).strip(): None if value == _NO_VALUE else unquote(value)
        for name, value in pairs
    }
