"""Study folders that somebody damaged, plans with odd names: one message each, and nothing lost."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spibb.errors import DataError
from spibb.studies.registry import PLANS
from spibb.studies.results.cell_aggregates import Kept, from_files, to_files

SMOKE = PLANS["random-mdps-smoke"]
TINY = replace(
    SMOKE, name="tiny", n_states=6, n_actions=2, n_successors=2, max_steps=10, eta=(0.5,),
    trajectories=(5, 20), n_runs=4, runs_per_job=2, settings=SMOKE.settings[:2],
)  # fmt: skip
RESULTS = Path(__file__).parents[2] / "docs/results"


def renamed(table, old, new):
    return table.rename_columns([new if name == old else name for name in table.column_names])


def with_facts(table, facts):
    return table.replace_schema_metadata(facts)


@pytest.fixture
def published(tmp_path):
    """A folder of a plan and aggregates only, as published studies are."""
    folder = tmp_path / "study"
    folder.mkdir()
    for name in ("plan.toml", "aggregates.parquet"):
        shutil.copy(RESULTS / "costs" / name, folder / name)
    return folder


@pytest.mark.parametrize(
    "damage",
    [
        lambda table: renamed(table, "mean", "average"),
        lambda table: table.slice(3),
        lambda table: table.set_column(
            table.column_names.index("n"), "n", pa.array(["x"] * len(table))
        ),
        lambda table: with_facts(table, {b"spibb": b"{"}),
        lambda table: with_facts(table, {b"spibb": b"[]"}),
        lambda table: with_facts(table, {b"spibb": b"\xff"}),
        lambda table: with_facts(table, None),
    ],
)
def test_aggregates_that_are_not_what_was_written(published, refused, damage):
    file = published / "aggregates.parquet"
    pq.write_table(damage(pq.read_table(file)), file)
    message = refused("study", "figures", published)
    assert "aggregates.parquet" in message
    assert "make it anew" in message


@pytest.mark.parametrize("content", [b"", b"PAR1", b"\x00" * 500])
def test_aggregates_that_are_no_table(published, refused, content):
    (published / "aggregates.parquet").write_bytes(content)
    assert "cannot read" in refused("study", "figures", published)


def test_a_number_that_was_changed_is_noticed(tmp_path, spibb, refused, ward):
    """Pages have no checksums here; the table has one of its own."""
    plan = ward.write("plan.toml", TINY.to_toml())
    assert spibb("study", "run", plan, "--out", "s", "--workers", 1).code == 0
    assert spibb("study", "figures", "s").code == 0
    file = ward.folder / "s" / "aggregates.parquet"
    only = ward.folder / "only"
    only.mkdir()
    shutil.copy(ward.folder / "s" / "plan.toml", only)
    table = pq.read_table(file)
    pq.write_table(table, only / "aggregates.parquet")
    assert spibb("study", "figures", only).code == 0, "however it is stored"
    place = table.column_names.index("mean")
    mean = table["mean"].to_numpy() + np.eye(len(table))[0] * 1e-9
    pq.write_table(table.set_column(place, "mean", pa.array(mean)), only / "aggregates.parquet")
    assert "its numbers are not those written" in refused("study", "figures", only)


@pytest.mark.parametrize(
    "damage",
    [
        lambda table: renamed(table, "total", "sum"),
        lambda table: table.slice(1),
        lambda table: with_facts(table, {b"spibb": b"{}"}),
        lambda table: with_facts(table, {b"spibb": b"nonsense"}),
    ],
)
def test_folded_results_that_are_not_what_was_written(tmp_path, damage):
    for name, content in to_files(Kept.empty(TINY), TINY).items():
        (tmp_path / name).write_bytes(content)
    from_files(tmp_path, TINY)
    file = tmp_path / "cells.parquet"
    pq.write_table(damage(pq.read_table(file)), file, write_page_checksum=True)
    with pytest.raises(DataError, match=r"cells\.parquet|does not belong to the plan"):
        from_files(tmp_path, TINY)


@pytest.mark.parametrize(
    "name", ["{x}", "[/x]", "{task.fields[rate]}", "[bold]", "a:smile:b", "%s"]
)
def test_names_are_names(ward, spibb, name):
    plan = ward.write("plan.toml", replace(TINY, name=name, n_runs=2).to_toml())
    ran = spibb("study", "run", plan, "--out", "s", "--workers", 1)
    assert ran.code == 0, ran.err
    assert spibb("study", "figures", "s").code == 0


@pytest.mark.parametrize("name", ["a\x1b[31mb", "two\nlines", "\x00", "\x9b1m"])
def test_names_that_would_command_a_terminal_are_refused(ward, refused, name):
    text = TINY.to_toml().replace('"tiny"', '"' + "".join(f"\\u{ord(c):04x}" for c in name) + '"')
    message = refused("study", "run", ward.write("plan.toml", text), "--out", "s")
    assert "letters that can be seen" in message
    assert message.strip("\n").isprintable()


def test_a_label_with_an_underscore_is_in_the_legend(ward, spibb):
    mine = replace(TINY.settings[0], label="_mine")
    plan = ward.write("plan.toml", replace(TINY, settings=(mine, TINY.settings[1])).to_toml())
    assert spibb("study", "run", plan, "--out", "s", "--workers", 1).code == 0
    assert spibb("study", "figures", "s").code == 0
    drawn = [file.read_text("utf-8") for file in (ward.folder / "s/figures").glob("*.svg")]
    assert any("_mine" in text for text in drawn)


def test_values_that_look_alike_have_figures_of_their_own(ward, spibb):
    grid = PLANS["gridworld"]
    alike = {"temperature": (0.5, 0.5000001), "trajectories": (10,)}
    few = replace(grid, n_runs=1, settings=grid.settings[:2], **alike)
    plan = ward.write("plan.toml", few.to_toml())
    assert spibb("study", "run", plan, "--out", "s", "--workers", 1).code == 0
    assert spibb("study", "figures", "s").code == 0
    names = {file.stem for file in (ward.folder / "s/figures").glob("*-performance-*.svg")}
    assert names == {"gridworld-performance-0.5", "gridworld-performance-0.5000001"}


def test_figures_on_a_full_disk_leave_the_old_ones(ward, spibb, monkeypatch):
    plan = ward.write("plan.toml", TINY.to_toml())
    assert spibb("study", "run", plan, "--out", "s", "--workers", 1).code == 0
    assert spibb("study", "figures", "s").code == 0
    folder = ward.folder / "s" / "figures"
    before = {file.name: file.read_bytes() for file in folder.iterdir()}

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    ran = spibb("study", "figures", "s")
    assert ran.code == 2
    assert "No space left on device" in ran.err
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
