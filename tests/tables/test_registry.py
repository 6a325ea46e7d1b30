"""The kinds of table files: how they are told, and how one is added."""

from pathlib import Path

import pyarrow as pa
import pytest

from spibb import read_log
from spibb.errors import DataError
from spibb.tables import registry
from spibb.tables.files import find_files
from spibb.tables.registry import SOURCES, source_of
from spibb.tables.source import Source, StreamedSource, Wanted


class ColumnsSource(Source):
    """A made-up format: each line is a column, its name first."""

    title = "columns"
    suffixes = (".columns",)

    def read(self, file: Path, wanted: Wanted) -> pa.Table:
        lines = [line.split() for line in file.read_text().splitlines()]
        return pa.table({name: [float(x) for x in cells] for name, *cells in lines})


def test_a_new_kind_is_a_class_and_a_line(tmp_path, monkeypatch):
    file = tmp_path / "log.columns"
    file.write_text("state 0 1 0\naction 1 0 1\nreward 0.5 1 2\n")
    with pytest.raises(DataError, match="cannot tell the format"):
        read_log(file)
    monkeypatch.setattr(registry, "SOURCES", (*SOURCES, ColumnsSource()))
    log = read_log(file)
    assert log.state.tolist() == [0, 1, 0]
    assert log.reward.tolist() == [0.5, 1.0, 2.0]
    with pytest.raises(DataError, match=r"\.arrow or \.columns"):
        find_files(_written(tmp_path / "log.xyz"), what="log")


def _written(file):
    file.write_text("")
    return file


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("a.csv", "CSV"), ("a.TSV", "CSV"), ("a.csv.gz", "CSV"), ("a.b.jsonl.zst", "JSON lines"),
        ("a.ndjson", "JSON lines"), ("a.pq", "Parquet"), ("a.feather", "Arrow"),
    ],
)  # fmt: skip
def test_kinds_are_told_by_the_name(name, title):
    assert source_of(Path(name)).title == title


@pytest.mark.parametrize("name", ["a", "a.gz", "a.parquet.gz", "a.txt", "csv"])
def test_other_names_are_of_no_kind(name):
    assert source_of(Path(name)) is None


def test_each_kind_has_endings_of_its_own_and_advice():
    endings = [suffix for source in SOURCES for suffix in source.suffixes]
    assert len(set(endings)) == len(endings)
    assert all(source.advice.startswith("check") for source in SOURCES)
    assert [source.title for source in SOURCES if isinstance(source, StreamedSource)] == [
        "CSV", "Parquet",
    ]  # fmt: skip
