"""The kinds of table files. A new one is a class of `source`, and a line here."""

from __future__ import annotations

from pathlib import Path

from spibb.tables.arrow_files import ArrowSource
from spibb.tables.csv_files import CsvSource
from spibb.tables.json_lines import JsonLinesSource
from spibb.tables.packing import packing
from spibb.tables.parquet_files import ParquetSource
from spibb.tables.source import Source

SOURCES: tuple[Source, ...] = (
    CsvSource(),
    JsonLinesSource(),
    ParquetSource(),
    ArrowSource(),
)  # fmt: skip


def source_of(file: Path) -> Source | None:
    """Return the kind of a file, by its name; None for other files.

    Args:
        file: The file.
    """
    packed_by = packing(file)
    suffix = (file.with_suffix("") if packed_by else file).suffix.lower()
    for source in SOURCES:
        if suffix in source.suffixes and (source.may_be_packed or not packed_by):
            return source
    return None


def titles() -> str:
    """Return what kinds there are, in words."""
    *most, last = (one.title for one in SOURCES)
    return f"{', '.join(most)} or {last}"


def endings() -> str:
    """Return the usual endings of their names, in words."""
    *most, last = (one.suffixes[0] for one in SOURCES)
    packed = " and ".join(one.suffixes[0] for one in SOURCES if one.may_be_packed)
    return f"{', '.join(most)} or {last} ({packed} with .gz or .zst, too)"
