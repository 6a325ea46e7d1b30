"""Several studies become one: in any order of the folders, and as if it had been run in one go."""

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from folded_study import CONFIG, KEEPING, PLAN, KeptPlan, content, record

from spibb.cli.study_command import merge_folders
from spibb.errors import DataError, OutputError, SettingsError
from spibb.runner.store import Store
from spibb.studies.gallery import draw_study
from spibb.studies.plan import Setting
from spibb.studies.registry import read_plan
from spibb.studies.results.aggregates import FILE, Aggregates
from spibb.studies.results.cell_aggregates import Retention
from spibb.studies.results.merging import merge_plans
from spibb.studies.results.merging import merge_studies as merge_any
from spibb.studies.results.recording import Recorder, read_results, read_rows

HCPI = Setting("HCPI", CONFIG, "HCPI", "delta", 0.9)
OTHER = replace(PLAN, name="others", n_runs=24, settings=(HCPI,))
PIECES = ((0, 24), (24, 48), (48, 80))


def merge_studies(out, folders, *, keeping=None, read_plan=read_plan):
    return merge_any(out, folders, read_plan=read_plan, keeping=keeping)


def merged(out, folders, keeping=KEEPING):
    merge_studies(out, folders, keeping=keeping)
    return content(out)


@pytest.fixture(scope="module", params=[KEEPING, replace(KEEPING, rows=80)], ids=["folded", "rows"])
def keeping(request):
    return request.param


@pytest.fixture(scope="module")
def pieces(tmp_path_factory, keeping):
    root = tmp_path_factory.mktemp("pieces")
    return [record(PLAN, root / f"{piece[0]}", piece=piece, keeping=keeping) for piece in PIECES]


def test_pieces_become_what_one_go_gives(tmp_path, pieces, keeping):
    whole = content(record(PLAN, tmp_path / "whole", keeping=keeping))
    for number, order in enumerate(permutations(pieces)):
        assert merged(tmp_path / f"{number}", order, keeping) == whole
    two = tmp_path / "two"
    merge_studies(two, pieces[1:], keeping=keeping)
    assert merged(tmp_path / "again", [two, pieces[0]], keeping) == whole


def test_some_of_the_pieces(tmp_path, pieces, keeping):
    """The beginning of a study can be gone on with; a part of it that lacks the beginning not."""
    merge_studies(tmp_path / "begin", pieces[:2], keeping=keeping)
    whole = content(record(PLAN, tmp_path / "whole", keeping=keeping))
    assert content(record(PLAN, tmp_path / "begin", keeping=keeping)) == whole
    out = tmp_path / "end"
    merge_studies(out, pieces[1:], keeping=keeping)
    assert read_results(Store(out), PLAN, keeping).n.tolist() == [56] * 8
    if keeping.rows < PLAN.n_runs:
        with (
            pytest.raises(OutputError, match=r"was merged from pieces and lacks some.*merge again"),
            Recorder.open(PLAN, out, resume=True, keeping=keeping),
        ):
            pass


def test_other_settings_on_the_same_draws(tmp_path, pieces, keeping):
    """Each keeps its own number of runs, and all rows of the small one are kept."""
    other = record(OTHER, tmp_path / "other", keeping=replace(keeping, rows=80))
    first = merged(tmp_path / "one", [*pieces, other], keeping)
    assert merged(tmp_path / "two", [other, *pieces[::-1]], keeping) == first
    store = Store(tmp_path / "one")
    plan = read_plan(store.plan())
    assert plan == replace(PLAN, name="made-up + others", settings=(*PLAN.settings, HCPI))
    found = Aggregates.of_study(tmp_path / "one", plan)
    assert [set(found.n[:, :, place].ravel()) for place in range(3)] == [{80}, {80}, {24}]
    alone = Aggregates.of_study(other, OTHER)
    np.testing.assert_array_equal(found.cvar[0.01].value[:, :, 2], alone.cvar[0.01].value[:, :, 0])
    np.testing.assert_array_equal(found.mean.low[:, :, 2], alone.mean.low[:, :, 0])
    np.testing.assert_array_equal(
        np.asarray(found.mean)[..., :2],
        Aggregates.of_study(record(PLAN, tmp_path / "whole"), PLAN).mean,
    )
    with (
        pytest.raises(OutputError, match="was merged from pieces and lacks some"),
        Recorder.open(plan, tmp_path / "one", resume=True),
    ):
        pass


def test_rows_that_are_needed_are_kept(tmp_path):
    """Plans of other settings, one of them of fewer runs and larger jobs, in any order."""
    plans = [KeptPlan.from_toml(plan.to_toml()) for plan in (PLAN, replace(OTHER, runs_per_job=24))]
    folders = [record(plan, tmp_path / plan.name) for plan in plans]
    for number, order in enumerate((folders, folders[::-1])):
        kept = {"keeping": KEEPING, "read_plan": KeptPlan.from_toml}
        merge_studies(tmp_path / f"{number}", order, **kept)
    assert content(tmp_path / "0") == content(tmp_path / "1")
    store, plan = Store(tmp_path / "0"), merge_plans(plans)
    assert [file.stem for file in store.files()] == [job for job, _, _ in PLAN.jobs()]
    keys = ["run", "eta", "trajectories", "setting", "score"]
    found = read_rows(store, plan).select(keys).to_pylist()
    parts = [read_rows(Store(folder), one) for folder, one in zip(folders, plans, strict=True)]
    expected = [row for part in parts for row in part.select(keys).to_pylist()]
    assert sorted(map(str, found)) == sorted(map(str, expected))
    assert [row["run"] for row in found] == sorted(row["run"] for row in found)
    folded = record(OTHER, tmp_path / "folded")
    with pytest.raises(DataError, match="folded keeps no rows but the worst"):
        merge_studies(tmp_path / "no", [folders[0], folded], read_plan=KeptPlan.from_toml)
    assert not list(tmp_path.glob("no*"))


def test_a_study_that_is_not_finished(tmp_path):
    some = record(PLAN, tmp_path / "some", order=lambda jobs: [jobs[1], jobs[5]])
    out = tmp_path / "out"
    merge_studies(out, [some], keeping=KEEPING)
    assert read_results(Store(out), PLAN, KEEPING).runs[0].ranges == ((8, 16), (40, 48))


def test_an_overlap_names_the_first_run(tmp_path, pieces, keeping):
    over = record(PLAN, tmp_path / "over", piece=(40, 56), keeping=keeping)
    with pytest.raises(DataError, match=r"run 40 of Basic RL is in .*24 and in .*over; expected"):
        merge_studies(tmp_path / "out", [over, *pieces], keeping=keeping)
    with pytest.raises(DataError, match="run 0 of Basic RL is in"):
        merge_studies(tmp_path / "out", [*pieces, pieces[0]], keeping=keeping)
    assert not list(tmp_path.glob("out*"))


def test_other_draws_are_refused():
    with pytest.raises(DataError, match="do not draw the same: seed is 1 in made-up and 2 in b"):
        merge_plans([replace(PLAN, seed=2, name="b", n_runs=5), PLAN])
    with pytest.raises(DataError, match="mean different settings by 'Basic RL'"):
        merge_plans([PLAN, replace(PLAN, settings=(replace(HCPI, label="Basic RL"),))])
    assert merge_plans([PLAN, replace(PLAN, runs_per_job=4, n_runs=60)]) == PLAN


def test_a_place_that_is_taken(tmp_path, pieces):
    (tmp_path / "empty").mkdir()
    merge_studies(tmp_path / "empty", pieces)
    before = content(tmp_path / "empty")
    with pytest.raises(OutputError, match=r"empty holds .*, which is not part of a result"):
        merge_studies(tmp_path / "empty", pieces)
    assert content(tmp_path / "empty") == before
    (tmp_path / "file").write_text("a file")
    for wrong in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OutputError, match=r"file is a file|cannot write .*below"):
            merge_studies(wrong, pieces)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file"]


def test_the_folder_one_stands_in(tmp_path, monkeypatch, pieces):
    with pytest.raises(OutputError, match=r"/ holds .*so it is not replaced"):
        merge_studies(Path("/"), pieces)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    merge_studies(Path(), pieces)
    assert (tmp_path / "here" / "plan.toml").exists()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(OutputError, match=r"\. holds .*so it is not replaced"):
        merge_studies(Path(), pieces)
    assert [path.name for path in tmp_path.iterdir()] == ["here"]


def test_nothing_to_merge(tmp_path):
    with pytest.raises(SettingsError, match="nothing to merge"):
        merge_studies(tmp_path / "out", [])
    with pytest.raises(DataError, match="is no study"):
        merge_studies(tmp_path / "out", [tmp_path])
    (tmp_path / "plan.toml").write_text(PLAN.to_toml(), encoding="utf-8")
    with pytest.raises(DataError, match="has no results yet"):
        merge_studies(tmp_path / "out", [tmp_path])


def test_the_command_says_what_is_there(tmp_path, pieces, capsys):
    other = record(OTHER, tmp_path / "other", keeping=Retention())
    merge_folders(tmp_path / "one", pieces)
    merge_folders(tmp_path / "two", [*pieces, other])
    assert [line.split(" are in ")[0] for line in capsys.readouterr().out.splitlines()] == [
        "80 runs of 2 settings", "24 to 80 runs of 3 settings",
    ]  # fmt: skip


def test_figures_of_rows_folded_merged_and_published_studies(tmp_path):
    """A published study has its plan and its aggregates only."""
    rows = record(PLAN, tmp_path / "rows", keeping=Retention())
    folded = record(PLAN, tmp_path / "folded", keeping=Retention(rows=10))
    merge_studies(tmp_path / "merged", [folded], keeping=Retention(rows=10))
    published = tmp_path / "published"
    published.mkdir()
    for folder in (rows, folded, tmp_path / "merged"):
        draw_study(folder)
    for name in ("plan.toml", FILE):
        (published / name).write_bytes((folded / name).read_bytes())
    draw_study(published)
    expected = content(rows / "figures")
    assert len(expected) > 5
    for folder in (folded, tmp_path / "merged", published):
        assert content(folder / "figures") == expected
        assert (folder / FILE).read_bytes() == (rows / FILE).read_bytes()


def test_figures_say_which_settings_have_fewer_runs(tmp_path, pieces):
    plan = replace(OTHER, settings=(replace(HCPI, family="", parameter=""),))
    other = record(plan, tmp_path / "other", keeping=Retention())
    merge_studies(tmp_path / "out", [*pieces, other])
    draw_study(tmp_path / "out")
    svg = (tmp_path / "out" / "figures" / "mean-by-eta.svg").read_text(encoding="utf-8")
    assert "HCPI (24 runs)" in svg
    assert "24 to 80 runs" in svg
