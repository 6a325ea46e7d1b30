"""The figures of a study: which are drawn, what stands in them, and their files."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest

from spibb.errors import DataError, OutputError, SettingsError
from spibb.runner.store import Store
from spibb.studies.drawing import Drawing
from spibb.studies.gallery import draw_study, render_gallery
from spibb.studies.plan import Setting
from spibb.studies.random_mdps.figures import draw_random_mdps
from spibb.studies.random_mdps.plans import RandomMDPPlan
from spibb.studies.results.aggregates import Results, aggregate
from spibb.studies.results.cell_aggregates import Kept
from spibb.studies.results.cells import to_rows

BENCHMARK = ["performance-by-size", "influence-of-eta", "cvar-by-eta", "mean-by-eta"]
SEARCHES = [
    "sensitivity-to-hyper-parameter", "epsilon-search-mean", "epsilon-search-cvar",
    "n-wedge-search", "kappa-search", "delta-search",
]  # fmt: skip
SOFT = ("Exact-Soft-SPIBB", "Approx-Soft-SPIBB")
GROUPS = {
    **{f"epsilon: {name}{step}": (1.0, 2.0) for name in SOFT for step in ("", " 1-step")},
    "n_wedge: Pi_b-SPIBB": (5.0, 10.0, 20.0),
    "n_wedge: Pi_<=b-SPIBB": (5.0, 10.0, 20.0),
    "kappa: RaMDP": (0.001, 0.003),
    "delta: Robust MDP": (0.001, 0.9),
    "delta: HCPI doubly robust": (0.001, 0.9),
}
N_RUNS = 3


def make_plan(groups=GROUPS, eta=(0.1, 0.4, 0.6, 0.9), **changes):
    config = {"algorithm": "basic-rl"}
    settings = [Setting("Basic RL", config)] + [
        Setting(f"{group} {value:g}", config, *group.split(": ")[::-1], value)
        for group, values in groups.items()
        for value in values
    ]
    plan = RandomMDPPlan(
        name="tiny", seed=1, n_runs=N_RUNS, runs_per_job=1, eta=eta,
        trajectories=(10, 50), max_steps=50, second_goal=1.0, settings=tuple(settings),
    )  # fmt: skip
    return replace(plan, **changes)


def make_results(plan, n_runs=N_RUNS):
    """Scores that grow with the size and fall with eta, and those of one setting far below."""
    run, eta, size, code = np.indices((n_runs, *plan.shape))
    score = 0.3 * size - np.array(plan.eta)[eta] / 2 + 0.1 * run
    score[code == 0] = -12.3
    return to_rows(plan, range(n_runs), {"score": score.astype(np.float32)})


def make_study(folder, plan):
    store = Store(folder)
    store.parts.mkdir(parents=True)
    (folder / "plan.toml").write_text(plan.to_toml(), encoding="utf-8")
    store.write("0000000", make_results(plan))
    return folder


def draw(plan, table=None):
    table = make_results(plan) if table is None else table
    aggregates = aggregate(Kept.of_table(table, plan), plan)
    return {x.stem: x for x in draw_random_mdps(Results(plan, aggregates, Path()))}


def heatmaps(drawing):
    """Return the axes of a figure but the colour bar."""
    return [axes for axes in drawing.figure.axes if axes.get_title()]


def plain(text):
    """Return what a number in a cell says, with the sign that a keyboard has."""
    assert "-" not in text.get_text()
    return text.get_text().replace("\N{MINUS SIGN}", "-")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = make_study(tmp_path_factory.mktemp("study") / "tiny", make_plan(eta=(0.9,)))
    draw_study(folder)
    return folder


@pytest.fixture(scope="module")
def drawings():
    return draw(make_plan())


def test_every_figure_is_written_as_svg_and_png(folder):
    expected = {f"{stem}.{kind}" for stem in BENCHMARK + SEARCHES for kind in ("svg", "png")}
    assert {path.name for path in (folder / "figures").iterdir()} == expected | {"index.html"}
    assert (folder / "aggregates.parquet").exists()


@pytest.mark.parametrize("stem", BENCHMARK + SEARCHES)
def test_files_are_what_they_say(folder, stem):
    svg = (folder / "figures" / f"{stem}.svg").read_text(encoding="utf-8")
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert "tiny, 3 runs" in svg
    assert "date" not in svg
    png = (folder / "figures" / f"{stem}.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    assert b"tIME" not in png
    assert b"Software" not in png


def test_another_process_draws_the_same_bytes(tmp_path):
    plan = make_plan({"kappa: RaMDP": (0.001, 0.003)}, eta=(0.1, 0.9))
    here, there = (make_study(tmp_path / name, plan) for name in ("here", "there"))
    draw_study(here)
    code = f"""
import pathlib, sys
from spibb.studies.gallery import draw_study
assert "matplotlib" not in sys.modules, "it is to be loaded when a figure is drawn"
draw_study(pathlib.Path({str(there)!r}))
"""
    command = [sys.executable, "-W", "error", "-c", code]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": "7"})
    files = [*(here / "figures").iterdir(), here / "aggregates.parquet"]
    assert len(files) == 10
    for file in files:
        assert (there / file.relative_to(here)).read_bytes() == file.read_bytes(), file.name


def test_the_gallery_shows_every_figure_and_loads_nothing_else(folder):
    text = (folder / "figures" / "index.html").read_text(encoding="utf-8")
    stems = BENCHMARK + SEARCHES
    assert re.findall('id="([^"]*)"', text) == stems
    images = re.findall('<img src="([^"]*)" alt="[^"]+">', text)
    assert images == [f"{stem}.svg" for stem in stems]
    assert all((folder / "figures" / image).is_file() for image in images)
    assert text.count("<img") == len(stems)
    for loader in ("http", "url(", "@import", "<script", "<link", "<iframe", "<object"):
        assert loader not in text
    links = re.findall('href="([^"]*)"', text)
    assert set(links) == {name for x in stems for name in (f"#{x}", f"{x}.svg", f"{x}.png")}
    assert "3 runs of 21 settings" in text


def test_the_gallery_escapes_what_it_prints():
    page = render_gallery("<a>", {"b&c": "<script>"}, [Drawing('x#1"', "<t>", '"', None)])
    assert "<script>" not in page
    assert "&lt;t&gt;" in page
    # A file's name is a name also where it has signs that addresses give a meaning.
    assert '<img src="x%231%22.svg" alt="&lt;t&gt;. &quot;">' in page
    assert '<section id="x#1&quot;">' in page
    assert page.count('href="#x%231%22"') == page.count('href="x%231%22.png"') == 1


def test_what_is_drawn_for_whom(drawings):
    """The panels of the paper's figures, by their titles."""
    titles = {stem: [axes.get_title() for axes in heatmaps(x)] for stem, x in drawings.items()}
    pi_b, pi_leq_b = r"$\Pi_b$-SPIBB", r"$\Pi_{\leq b}$-SPIBB"
    assert titles["influence-of-eta"] == [
        "0.1 %-CVaR: RaMDP, κ = 0.003", "0.1 %-CVaR: Approx-Soft-SPIBB, ε = 2",
    ]  # fmt: skip
    assert titles["mean-by-eta"] == [
        "mean: Basic RL", "mean: RaMDP, κ = 0.003", "mean: Robust MDP, δ = 0.001",
        "mean: HCPI doubly robust, δ = 0.9", rf"mean: {pi_b}, $N_\wedge$ = 10",
        rf"mean: {pi_leq_b}, $N_\wedge$ = 10", "mean: Exact-Soft-SPIBB 1-step, ε = 2",
        "mean: Exact-Soft-SPIBB, ε = 2", "mean: Approx-Soft-SPIBB 1-step, ε = 2",
        "mean: Approx-Soft-SPIBB, ε = 2",
    ]  # fmt: skip
    assert len(titles["cvar-by-eta"]) == 10
    assert titles["n-wedge-search"] == [
        f"mean: {pi_b}, η = 0.9", f"1 %-CVaR: {pi_b}, η = 0.9", f"mean: {pi_leq_b}, η = 0.9",
        f"1 %-CVaR: {pi_leq_b}, η = 0.9", rf"1 %-CVaR: {pi_b}, $N_\wedge$ = 10",
        rf"1 %-CVaR: {pi_leq_b}, $N_\wedge$ = 10",
    ]  # fmt: skip
    assert titles["kappa-search"] == [
        f"{name}: RaMDP, η = {eta}" for eta in (0.1, 0.4, 0.6, 0.9) for name in ("mean", "1 %-CVaR")
    ]
    assert len(titles["epsilon-search-mean"]) == len(titles["epsilon-search-cvar"]) == 8


def test_every_cell_has_its_number_and_is_hatched_below_the_baseline(drawings):
    """RaMDP by eta (upwards) and size: the mean is 0.1 - eta / 2, and 0.3 more to the right."""
    axes = heatmaps(drawings["mean-by-eta"])[1]
    numbers = {text.get_position(): plain(text) for text in axes.texts}
    assert numbers == {
        (0.5, 0.5): "0.05", (1.5, 0.5): "0.35", (0.5, 1.5): "-0.10", (1.5, 1.5): "0.20",
        (0.5, 2.5): "-0.20", (1.5, 2.5): "0.10", (0.5, 3.5): "-0.35", (1.5, 3.5): "-0.05",
    }  # fmt: skip
    strokes = np.concatenate([line.get_xydata() for line in axes.lines])
    middles = (strokes[0::3] + strokes[1::3]) / 2
    assert {tuple(cell) for cell in np.floor(middles)} == {(0, 1), (0, 2), (0, 3), (1, 3)}
    assert {plain(text) for text in heatmaps(drawings["mean-by-eta"])[0].texts} == {"-12"}


def test_the_colours_of_a_figure_are_on_one_scale_around_the_baseline(drawings):
    """From its least value to its greatest; what is below -1 is as dark as -1."""
    for stem, drawing in drawings.items():
        if stem == "performance-by-size":
            continue
        maps = [m for axes in heatmaps(drawing) for m in axes.collections
                if m.get_array() is not None]  # fmt: skip
        ((low, high),) = {m.get_clim() for m in maps}
        values = np.concatenate([m.get_array().ravel() for m in maps])
        assert low == pytest.approx(max(-1.0, min(-0.1, values.min())))
        assert high == pytest.approx(min(1.0, max(0.1, values.max())))
        assert drawing.figure.axes[-1].get_ylabel().endswith("(0: baseline, 1: optimum)")


def test_the_curves_show_every_algorithm_of_the_benchmark(drawings):
    left, right = drawings["performance-by-size"].figure.axes
    labels = [line.get_label() for line in left.lines if not line.get_label().startswith("_")]
    assert len(labels) == 11
    assert labels[-1] == "baseline"
    assert "Approx-Soft-SPIBB, ε = 2" in labels
    assert left.get_xscale() == right.get_xscale() == "log"
    assert right.get_title() == "1 %-CVaR, cut off at \N{MINUS SIGN}1"


def test_titles_say_when_runs_are_too_few():
    plan = make_plan({}, eta=(0.9,), n_runs=1_000)
    found = draw(plan, make_results(plan, n_runs=500))
    heads = {stem: x.figure.get_suptitle().replace("\n", " ") for stem, x in found.items()}
    assert heads["mean-by-eta"].endswith("tiny, 500 of 1,000 runs")
    assert "tiny, 500 of 1,000 runs; the 0.1 %-CVaR of 500 runs is" in heads["cvar-by-eta"]
    assert "the mean of 5: too few for an interval" in heads["performance-by-size"]


def test_settings_with_fewer_runs_or_none_say_so():
    plan = make_plan({"kappa: RaMDP": (0.003,), "delta: HCPI": (0.9,)}, eta=(0.1, 0.9))
    table = make_results(plan)
    run, eta, label = (table[name].to_numpy() for name in ("run", "eta", "setting"))
    is_left_out = ((label == "kappa: RaMDP 0.003") & (run == 2)) | (
        (label == "delta: HCPI 0.9") & (eta == 0.1)
    )
    found = draw(plan, table.filter(pa.array(~is_left_out)))["mean-by-eta"]
    titles = [axes.get_title() for axes in heatmaps(found)]
    assert titles[1:] == ["mean: RaMDP, κ = 0.003 (2 runs)", "mean: HCPI, δ = 0.9 (0 runs)"]
    assert "0 to 3 runs" in found.figure.get_suptitle()
    assert [len(axes.texts) for axes in heatmaps(found)] == [4, 4, 2]


@pytest.mark.parametrize(
    ("groups", "etas", "expected"),
    [
        ({}, (0.9,), ["performance-by-size", "cvar-by-eta", "mean-by-eta"]),
        ({}, (0.1, 0.5), ["cvar-by-eta", "mean-by-eta"]),
        ({"kappa: RaMDP": (0.1, 0.2)}, (0.4,), ["cvar-by-eta", "mean-by-eta", "kappa-search"]),
        ({"n_wedge: Pi_b-SPIBB": (10.0,)}, (0.1,), ["cvar-by-eta", "mean-by-eta"]),
    ],
)
def test_only_what_the_plan_has_is_drawn(groups, etas, expected):
    assert list(draw(make_plan(groups, etas))) == expected


def test_names_may_hold_dollars(tmp_path):
    settings = (Setting("$a_{ $", {"algorithm": "basic-rl"}),)
    plan = make_plan({}, eta=(0.9,), settings=settings, name="$b_{ $")
    draw_study(make_study(tmp_path / "study", plan))
    svg = (tmp_path / "study" / "figures" / "mean-by-eta.svg").read_text("utf-8")
    assert "$a_{ $" in svg
    assert "$b_{ $" in svg


def test_names_that_would_be_wrong_as_mathematics(tmp_path):
    config, wrong = {"algorithm": "basic-rl"}, r"$\frac$"
    settings = (
        Setting("x", config, f"Pi_b {wrong}", wrong, 1.0),
        *(Setting(f"{value}", config, wrong, "kappa", value) for value in (1.0, 2.0)),
    )
    plan = make_plan({}, eta=(0.9,), settings=settings, name=wrong)
    draw_study(make_study(tmp_path / "study", plan))
    for file in (tmp_path / "study" / "figures").glob("*.svg"):
        assert wrong in file.read_text("utf-8")


def test_a_folder_that_is_no_study(tmp_path):
    with pytest.raises(DataError, match=r"is no study: it has no plan\.toml"):
        draw_study(tmp_path)


@pytest.mark.parametrize(
    ("study", "error", "message"),
    [
        ("random-mdps", DataError, r"has no results yet.*run the study first"),
        ("other", SettingsError, "no study is called 'other'"),
    ],
)
def test_a_study_without_parts_or_figures(tmp_path, study, error, message):
    text = make_plan().to_toml().replace('study = "random-mdps"', f'study = "{study}"')
    (tmp_path / "plan.toml").write_text(text, encoding="utf-8")
    with pytest.raises(error, match=message):
        draw_study(tmp_path)
    assert not (tmp_path / "figures").exists()


def test_a_place_that_cannot_be_written(tmp_path):
    folder = make_study(tmp_path / "study", make_plan({}, eta=(0.1,)))
    (folder / "figures").write_text("a file")
    with pytest.raises(OutputError, match="cannot write the figures: File exists"):
        draw_study(folder)


def test_nothing_global_is_touched(monkeypatch):
    import matplotlib

    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    names = [name for name in matplotlib.rcParams if name != "backend"]  # found out when asked
    before = {name: matplotlib.rcParams[name] for name in names}
    draw(make_plan({}))["mean-by-eta"].figure.draw_without_rendering()
    assert "matplotlib.pyplot" not in sys.modules
    assert {name: matplotlib.rcParams[name] for name in names} == before
