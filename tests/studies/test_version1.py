"""Folders of version 1, written before factors had names: read, merged and drawn as ever.

``data/version1`` holds such folders, each study in two pieces, and in ``statistics.json`` the
fingerprints of their plans and the statistics of both pieces together, as they were then.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from folded_study import content

from spibb.errors import DataError, SettingsError
from spibb.runner.store import Store
from spibb.studies.gallery import draw_study
from spibb.studies.plan import VERSION
from spibb.studies.registry import PLANS, find_plan, read_plan, read_results
from spibb.studies.results.merging import merge_studies
from spibb.studies.results.recording import read_rows
from spibb.studies.running import rerun, run_study

DATA = Path(__file__).parent / "data" / "version1"
PUBLISHED = Path(__file__).parents[2] / "docs" / "results"
KNOWN = json.loads((DATA / "statistics.json").read_text("utf-8"))
# What "eta" and "size" were in each.
FACTORS = {
    "rows": ("eta", "trajectories"),
    "folded": ("eta", "trajectories"),
    "processes": ("share", "trajectories"),
    "processes-folded": ("share", "trajectories"),
    "steps": ("share", "steps"),
    "complexity": ("temperature", "actions"),
    "helicopter": ("evaluation", "transitions"),
}
each = pytest.mark.parametrize("name", FACTORS)


def pieces(name):
    return [DATA / name / "1", DATA / name / "2"]


def plan_of(folder):
    return read_plan(Store(folder).plan())


def cells(columns, names):
    """Return the numbers of the other columns by what names the cell; NaN for none."""
    others = sorted(set(columns) - set(names))
    numbers = np.array([columns[name] for name in others], dtype=np.float64).T
    return dict(zip(zip(*(columns[name] for name in names), strict=True), numbers, strict=True))


def expected(name):
    """Return the statistics of version 1, cells named as today."""
    columns = dict(KNOWN[name]["statistics"])
    eta, size = FACTORS[name]
    columns[eta], columns[size] = columns.pop("eta"), columns.pop("size")
    if eta == "evaluation":
        columns[eta] = [{0.0: "short", 1.0: "long"}[value] for value in columns[eta]]
    if name.startswith("processes"):
        pairs = [label.split(": ") for label in columns["setting"]]
        columns["process"], columns["setting"] = zip(*pairs, strict=True)
    if name == "steps":
        columns["process"] = ["wet-chicken"] * len(columns["setting"])
    return columns


def statistics(folder):
    _, results = read_results(folder)
    table = results.aggregates.to_table(results.plan)
    table = table.drop_columns(["family", "parameter", "value"])
    return {name: table[name].to_pylist() for name in table.column_names}


def assert_as_they_were(folder, name):
    """The same cells, each with the same numbers."""
    found, known = statistics(folder), expected(name)
    assert set(found) == set(known)
    names = [*plan_of(folder).factors, "setting"]
    ours, theirs = cells(found, names), cells(known, names)
    # A process of version 1 could lack a setting.
    assert {cell for cell, n in zip(ours, found["n"], strict=True) if n} == set(theirs)
    for cell, numbers in theirs.items():
        np.testing.assert_allclose(ours[cell], numbers, rtol=1e-6, err_msg=str(cell))


@each
def test_plans_are_read_under_their_old_fingerprint(name):
    for folder in pieces(name):
        text = Store(folder).plan()
        plan = read_plan(text)
        assert plan.version1 == text
        assert plan.fingerprint == KNOWN[name]["fingerprint"]
        assert set(FACTORS[name]) <= set(plan.factors)
        again = read_plan(plan.to_toml())
        assert again == plan
        assert again.version1 == ""
        assert f"version = {VERSION}\n" in plan.to_toml()


def test_what_they_say_is_said_by_name_today():
    plan = plan_of(DATA / "processes/1")
    assert plan.process == ("queue", "inventory")
    assert (plan.share, plan.trajectories) == ((0.3, 0.1), (20, 5))
    assert plan.labels == [
        "Basic RL", "Approx-Soft-SPIBB, epsilon=1", "Approx-Soft-SPIBB, epsilon=4",
        "Basic RL (unseen end)", "RaMDP (unseen end), kappa=0.5",
    ]  # fmt: skip
    families = [(setting.family, setting.parameter) for setting in plan.settings]
    assert families[1:] == [
        ("Approx-Soft-SPIBB", "epsilon"), ("Approx-Soft-SPIBB", "epsilon"), ("", ""),
        ("RaMDP (unseen end)", "kappa"),
    ]  # fmt: skip
    assert [setting.unseen for setting in plan.settings] == ["average"] * 3 + ["terminal"] * 2
    shape = plan_of(DATA / "processes-folded/1").shape
    assert shape == (2, 1, 1, 5)
    assert len(KNOWN["processes-folded"]["statistics"]["n"]) == 9
    assert plan_of(DATA / "steps/1").steps == (100, 200)
    assert plan_of(DATA / "complexity/1").actions == (4, 8)
    assert plan_of(DATA / "helicopter/1").evaluation == ("short", "long")


@each
def test_merging_gives_a_folder_of_today_with_the_same_statistics(tmp_path, name):
    folders = pieces(name)
    merge_studies(tmp_path / "one", folders, read_plan=read_plan)
    merge_studies(tmp_path / "two", folders[::-1], read_plan=read_plan)
    assert content(tmp_path / "one") == content(tmp_path / "two")
    assert Store(tmp_path / "one").plan().startswith(f"version = {VERSION}\n")
    assert plan_of(tmp_path / "one").version1 == ""
    assert_as_they_were(tmp_path / "one", name)


@pytest.mark.parametrize("name", ["rows", "processes", "steps", "complexity", "helicopter"])
def test_rows_stay_rows(tmp_path, name):
    folders = pieces(name)
    merge_studies(tmp_path / "both", folders, read_plan=read_plan)
    tables = [read_rows(Store(folder), plan_of(folder)) for folder in folders]
    found = read_rows(Store(tmp_path / "both"), plan_of(tmp_path / "both"))
    given = pa.concat_tables(tables).select(found.column_names)
    order = [(name, "ascending") for name in found.column_names]
    assert found.sort_by(order).equals(given.sort_by(order))


def test_a_piece_of_version_1_is_merged_with_one_of_today(tmp_path):
    """Both draw the same, so that together they are what version 1 would have come to."""
    first, last = pieces("rows")
    plan = find_plan(str(last / "plan.toml"))
    for _ in run_study(plan, tmp_path / "last", workers=1, piece="2/2"):
        pass
    merge_studies(tmp_path / "both", [first, tmp_path / "last"], read_plan=read_plan)
    found, known = statistics(tmp_path / "both"), expected("rows")
    assert found["n"] == known["n"]
    for column in ("mean", "cvar_1", "worse"):
        assert found[column] == pytest.approx(known[column], abs=1e-5)


@pytest.mark.parametrize(
    ("name", "stems"),
    [
        ("rows", {"performance-by-size", "cvar-by-eta", "mean-by-eta"}),
        ("processes-folded", {
            f"{process}-{figure}" for process in ("queue", "inventory")
            for figure in ("performance-0.3", "epsilon-search")
        }),
        ("complexity", {"time-to-convergence", "performance-by-actions"}),
        ("helicopter", {
            "helicopter-domain", "helicopter-200", "helicopter-300", "helicopter-by-size",
        }),
    ],
)  # fmt: skip
def test_they_are_drawn(tmp_path, name, stems):
    shutil.copytree(DATA / name / "1", tmp_path / "study")
    drawings = draw_study(tmp_path / "study")
    assert {drawing.stem for drawing in drawings} == stems
    assert {file.stem for file in (tmp_path / "study/figures").glob("*.svg")} == stems
    page = (tmp_path / "study/figures/index.html").read_text("utf-8")
    assert f"fingerprint {KNOWN[name]['fingerprint']}" in page
    # What was written is read again, without the rows.
    first = statistics(tmp_path / "study")
    for folder in ("parts", "compact"):
        shutil.rmtree(tmp_path / "study" / folder, ignore_errors=True)
    assert statistics(tmp_path / "study") == first


@each
def test_nobody_goes_on_with_them(tmp_path, name):
    folder = tmp_path / "study"
    shutil.copytree(DATA / name / "1", folder)
    before = content(folder)
    plan = find_plan(str(folder / "plan.toml"))
    assert plan.version1 == ""
    message = rf"the study {plan.name} in .*study is of version 1; expected one that .*drawn"
    with pytest.raises(SettingsError, match=message):
        next(run_study(plan, folder, workers=1, resume=True, piece="1/2"))
    with pytest.raises(SettingsError, match=message):
        rerun(folder, 0)
    assert content(folder) == before


def test_nor_with_those_of_older_rules(tmp_path):
    shutil.copytree(PUBLISHED / "spibb-search", tmp_path / "study")
    with pytest.raises(SettingsError, match="follows rules 1; expected rules 2"):
        next(run_study(PLANS["spibb-search"], tmp_path / "study", workers=1, resume=True))


@pytest.mark.parametrize("name", ["processes", "rows"])
def test_a_label_that_the_plan_has_not(tmp_path, name):
    shutil.copytree(DATA / name / "1", tmp_path / "study")
    file = next((tmp_path / "study/parts").iterdir())
    table = pq.read_table(file)
    place = table.column_names.index("setting")
    odd = pa.array(["HCPI"] * len(table)).dictionary_encode().cast(table.schema.types[place])
    pq.write_table(table.set_column(place, "setting", odd), file)
    with pytest.raises(DataError, match="which the plan has not"):
        read_results(tmp_path / "study")


def test_folded_results_of_another_plan(tmp_path):
    shutil.copytree(DATA / "folded/1", tmp_path / "study")
    plan = replace(plan_of(DATA / "folded/1"), seed=3)
    (tmp_path / "study/plan.toml").write_text(plan.to_toml(), encoding="utf-8")
    with pytest.raises(DataError, match="does not belong to the plan beside it"):
        read_results(tmp_path / "study")


FINITE = (DATA / "processes/1/plan.toml").read_text("utf-8")
HEAD = FINITE.partition("[[settings]]")[0]
LABEL = 'label = "queue: Basic RL"'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (FINITE, HEAD, "the plan lacks an entry 'settings'"),
        (FINITE, f"{HEAD}settings = 3\n", "settings is 3; expected a list of tables"),
        (FINITE, f"{HEAD}settings = [3]\n", "a setting is 3; expected a table"),
        (f"{LABEL}\n", "", "a setting lacks an entry 'label'"),
        (LABEL, "label = 3", "the label of a setting is 3; expected a text"),
        ('group = ""', "group = 3", "the group of a setting is 3; expected a text"),
        ('process = "queue"', 'process = "maze"', "no process is called 'maze'; expected one of"),
        ('process = "queue"', 'process = "taxi"', "baselines of .* have no"),
        ("etas = [0.3, 0.1]", "etas = []", "the plan has no etas"),
        ("etas = [0.3, 0.1]\n", "", "the plan has no share or temperature or eta"),
        ("kappa = 0.5", "kappa = 0.7", "is another setting than that of another process"),
        ("seed = 2026", "seed = 2026\nversion = 3", "of version 3; expected 1 or 2"),
    ],
)
def test_wrong_plans_of_version_1(old, new, message):
    assert old in FINITE
    n_times = -1 if "process" in old else 1
    with pytest.raises(SettingsError, match=message):
        read_plan(FINITE.replace(old, new, n_times))
