"""Which files are tables, by their names; how they are found, and opened where they are packed."""

from __future__ import annotations

import glob
import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from spibb.errors import DataError

_FORMATS = {
    ".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet",
    ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip
# What packs a whole file; Parquet and Arrow pack what is inside of them.
_PACKED = {".gz": "gzip", ".zst": "zstd"}
_EXPECTED = "a table in CSV, JSON lines (.jsonl), Parquet or Arrow: a file, folder or glob"
# What the first bytes of a database say.
_DATABASES = {"sqlite": (0, b"SQLite format 3\x00"), "duckdb": (8, b"DUCK")}
# Bytes below which files may be alike by chance: a day with few rows.
_LEAST_COPY = 1_000
_BUFFER = 1 << 20
# Longer lines of a packed file are none: few bytes unpack to more than the memory holds.
_LONGEST_LINE = 1 << 26
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def table_format(file: Path) -> str:
    """Return csv, json, parquet or arrow, by the name of a file; an empty text for other files."""
    packing = _packing(file)
    found = _FORMATS.get((file.with_suffix("") if packing else file).suffix.lower(), "")
    return "" if packing and found not in ("csv", "json") else found


def _packing(file: Path) -> str | None:
    return _PACKED.get(file.suffix.lower())


@contextmanager
def opened(file: Path) -> Iterator[tuple[io.BufferedReader[Any], io.BufferedReader[Any]]]:
    """Open a file for reading, unpacked, and as it is: the place there tells how far it was read.

    What is packed and damaged raises OSError when it is read.
    """
    import pyarrow as pa

    packing = _packing(file)
    with file.open("rb") as raw:
        if packing is None:
            yield raw, raw
            return
        unpacked = _Lines(pa.CompressedInputStream(raw, packing), file)
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
        raise DataError(f"the path of the {what} is empty", expected=_EXPECTED)
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
            expected=_EXPECTED,
            hint="check the path; for files in sub-folders, give a glob as 'logs/**/*.csv'",
        )
    for file in files:
        if table_format(file):
            continue
        if database_kind(file):
            raise DataError(
                f"the {what} {file} is a database",
                expected="a query beside it",
                hint="say --query 'SELECT ...' (in Python read_log(path, query=...))",
            )
        raise DataError(
            f"cannot tell the format of the {what} {file}",
            expected="a name in .csv, .jsonl, .parquet or .arrow (.csv and .jsonl with .gz or "
            ".zst, too)",
            hint="save the table as CSV or Parquet",
        )
    if what == "log":
        _check_different(files, path)
    return files


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
        elif table_format(found):
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
