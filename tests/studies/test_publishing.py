"""Publishing: pages say what lies beside them, and nothing else of the docs is touched."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from folded_study import content

from spibb.errors import DataError, OutputError
from spibb.studies.gallery import draw_study
from spibb.studies.helicopter.page import COSTS
from spibb.studies.publishing import _figures, fill_page, publish
from spibb.studies.registry import PLANS, STUDIES, read_plan, read_results
from spibb.studies.results.aggregates import FILE, Results, aggregate
from spibb.studies.results.cell_aggregates import Kept
from spibb.studies.results.merging import merge_studies

DOCS = Path(__file__).parents[2] / "docs"
VERSION1 = Path(__file__).parent / "data" / "version1"
PAGE = """\
Ours.

<!-- fill: complexity -->
old
<!-- end: complexity -->
<!-- fill: other -->
kept
<!-- end: other -->
<!-- fill: complexity-claims -->
<!-- end: complexity-claims -->
"""


@pytest.fixture
def docs(tmp_path):
    """Docs with a page for the study of run time."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "random-mdps.md").write_text(PAGE, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def times(tmp_path_factory):
    """A study of run time, whose figures are drawn."""
    folder = tmp_path_factory.mktemp("times") / "study"
    shutil.copytree(VERSION1 / "complexity/1", folder)
    draw_study(folder)
    return folder


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("random-mdps.md", ["random-mdps", "spibb-search"]),
        ("random-mdps.md", ["complexity"]),
        ("costs.md", ["costs"]),
        ("helicopter.md", ["helicopter"]),
    ],
)
def test_pages_say_what_lies_beside_them(page, names):
    """Every number of the docs, computed again from what is published."""
    found = [read_results(DOCS / "results" / name) for name in names]
    study = found[0][0]
    blocks = dict(study.pages([results for _, results in found])[page])
    text = (DOCS / page).read_text("utf-8")
    assert set(blocks) >= {"complexity"} or set(blocks) >= {"facts"}
    if "fill: figures" in text:
        drawings = list(study.draw(found[0][1]))
        blocks["figures"] = _figures(drawings, DOCS / "results" / names[0], DOCS)
        for drawing in drawings:
            assert (DOCS / "results" / names[0] / "figures" / f"{drawing.stem}.svg").exists()
    assert fill_page(text, blocks) == text


def test_published_figures_need_no_font_that_browsers_have_not():
    for file in (DOCS / "results").glob("*/figures/*.svg"):
        assert "STIXSize" not in file.read_text("utf-8"), file


def test_a_study_is_put_beside_its_page(times, docs):
    published = publish([times], docs)
    place = docs / "results" / "times"
    assert published.results == [place]
    assert published.places == {docs / "random-mdps.md": ["complexity", "complexity-claims"]}
    assert sorted(content(place)) == [
        FILE, "figures/performance-by-actions.svg", "figures/time-to-convergence.svg", "plan.toml",
        "timings.parquet",
    ]  # fmt: skip
    drawn = content(times / "figures")
    assert (place / "figures/time-to-convergence.svg").read_bytes() == (
        drawn["time-to-convergence.svg"]
    )
    text = (docs / "random-mdps.md").read_text("utf-8")
    assert text.startswith("Ours.\n\n<!-- fill: complexity -->\nOne log of the gridworld")
    assert "<!-- fill: other -->\nkept\n<!-- end: other -->" in text
    assert text.count("| claim | verdict | numbers |") == 1
    # Again, from elsewhere and from where it is: the same.
    before = content(docs)
    publish([times], docs)
    assert content(docs) == before
    publish([place], docs)
    assert content(docs) == before


def test_a_study_without_a_page(tmp_path, docs):
    """Rows stay where they are; the statistics are what is published."""
    folder = tmp_path / "study"
    shutil.copytree(VERSION1 / "rows/1", folder)
    plan = (folder / "plan.toml").read_text("utf-8").replace("etas = [0.9, 0.5]", "etas = [0.5]")
    (folder / "plan.toml").write_text(plan, encoding="utf-8")
    with pytest.raises(DataError, match=r"the results hold the eta 0\.9, which the plan has not"):
        publish([folder], docs)
    assert sorted(content(docs)) == ["random-mdps.md"]
    shutil.copy(VERSION1 / "rows/1/plan.toml", folder)
    published = publish([folder], docs)
    assert published.places == {}
    files = sorted(content(docs / "results/tiny"))
    assert [name for name in files if not name.startswith("figures/")] == [FILE, "plan.toml"]
    _, ours = read_results(folder)
    _, theirs = read_results(docs / "results/tiny")
    assert theirs.aggregates.to_table(theirs.plan).equals(ours.aggregates.to_table(ours.plan))


def test_what_claims_need_is_published_too(tmp_path, docs):
    """Rows of the helicopter, what it cost, and its table as a file."""
    folder = tmp_path / "study"
    merge_studies(
        folder, [VERSION1 / "helicopter/1", VERSION1 / "helicopter/2"], read_plan=read_plan
    )
    rename(folder, "flights", "helicopter")
    (folder / COSTS).write_text(json.dumps({"machine": "abacus"}), encoding="utf-8")
    names = ("facts", "table", "figures", "claims", "costs")
    text = "".join(f"<!-- fill: {name} -->\n<!-- end: {name} -->\n" for name in names)
    (docs / "helicopter.md").write_text(text, encoding="utf-8")
    published = publish([folder], docs)
    assert sorted(published.places[docs / "helicopter.md"]) == sorted(names)
    place = docs / "results/helicopter"
    assert sorted(path.name for path in place.iterdir()) == [
        FILE, COSTS, "figures", "parts", "plan.toml",
    ]  # fmt: skip
    assert content(place / "parts") == content(folder / "parts")
    text = (docs / "helicopter.md").read_text("utf-8")
    assert "* machine: abacus\n" in text
    shown = [line.split("](")[1][:-1] for line in text.splitlines() if line.startswith("![")]
    assert shown == [
        f"results/helicopter/figures/helicopter-{name}.svg"
        for name in ("domain", "by-size", 200, 300)
    ]
    assert all((docs / file).exists() for file in shown)


def rename(folder, old, new):
    file = folder / "plan.toml"
    text = file.read_text("utf-8")
    assert f'name = "{old}"' in text
    file.write_text(text.replace(f'name = "{old}"', f'name = "{new}"'), encoding="utf-8")


def test_where_nothing_can_be_published(times, docs, tmp_path):
    with pytest.raises(OutputError, match=r"absent is no folder; expected the folder of the docs"):
        publish([times], tmp_path / "absent")
    with pytest.raises(OutputError, match=r"random-mdps\.md is no folder"):
        publish([times], docs / "random-mdps.md")
    with pytest.raises(DataError, match=r"is no study: it has no plan\.toml"):
        publish([docs], docs)
    (docs / "results").write_text("a file")
    with pytest.raises(OutputError, match=r"cannot write .*results"):
        publish([times], docs)


@pytest.mark.parametrize("page", [None, "nothing to fill", PAGE.replace("complexity-claims", "x")])
def test_a_page_that_is_not_there_or_has_no_place(times, docs, page):
    file = docs / "random-mdps.md"
    file.unlink()
    if page is not None:
        file.write_text(page, encoding="utf-8")
    message = r"cannot read the page .*No such file" if page is None else "has no place for 'compl"
    before = content(docs)
    with pytest.raises(DataError, match=message):
        publish([times], docs)
    assert content(docs) == before


@pytest.mark.parametrize("name", ["../up", "/elsewhere", "..", ".", "a/b", ""])
def test_the_name_of_a_plan_leads_nowhere_else(tmp_path, docs, name):
    folder = tmp_path / "study"
    merge_studies(folder, [VERSION1 / "rows/1"], read_plan=read_plan)
    rename(folder, "tiny", name)
    before = content(tmp_path)
    with pytest.raises(OutputError, match="expected a name that a folder can have"):
        publish([folder], docs)
    assert content(tmp_path) == before


def test_places_are_filled_and_nothing_else():
    text = "a\n<!-- fill: x -->\n1\n\n2\n<!-- end: x -->\nb\n<!-- fill: y -->\n<!-- end: y -->"
    filled = fill_page(text, {"x": r"\1 <!-- $", "y": "| t |\n"})
    assert filled == (
        "a\n<!-- fill: x -->\n\\1 <!-- $\n<!-- end: x -->\nb\n"
        "<!-- fill: y -->\n| t |\n<!-- end: y -->"
    )
    assert fill_page(text, {}) == text
    with pytest.raises(DataError, match="no place for 'z'; expected <!-- fill: z --> and <!-- end"):
        fill_page(text, {"x": "", "z": ""})


def test_every_place_of_the_docs_is_one_that_something_fills():
    """A place that nobody fills would grow old."""
    filled = {"facts", "table", "figures", "claims", "costs", "guard", "search", "complexity",
              "complexity-claims", "baselines"}  # fmt: skip
    for page in ("random-mdps.md", "helicopter.md", "costs.md"):
        text = (DOCS / page).read_text("utf-8")
        begun = [line.split()[2] for line in text.splitlines() if line.startswith("<!-- fill:")]
        assert set(begun) <= filled
        assert all(f"<!-- end: {name} -->" in text for name in begun)


def test_a_plan_of_the_same_name_that_says_less_has_no_place_in_the_page():
    """Its own strengths and settings are its maker's choice, not what the page tells of."""
    for name, changes in (("costs", {"share": (0.1,)}), ("spibb-search", {"eta": (0.5,)})):
        plan = replace(PLANS[name], n_runs=1, runs_per_job=1, **changes)
        empty = aggregate(Kept.empty(plan), plan)
        assert STUDIES[plan.study].pages([Results(plan, empty, Path("nowhere"))]) == {}
