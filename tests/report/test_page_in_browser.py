"""The report in Chromium: no errors, the verdict as in the files, tables that sort and search."""

import json

import numpy as np
import pytest
from browser import Browser
from typer.testing import CliRunner

import spibb
from spibb.cli.app import app
from spibb.report.evaluation import evaluation_facts, write_evaluation
from spibb.report.folder import write_result
from spibb.testing.checks import random_problem

TABLE = """
  const table = document.getElementById("changes"), box = table.closest("[data-box]");
  const column = (k) => [...table.tBodies[0].rows].map((row) => row.cells[k].textContent);
  const head = (k) => table.tHead.rows[0].cells[k];
  const sort = (k) => head(k).querySelector("button").click();
  const search = box.querySelector("input"), more = box.querySelector("button.more");
  const said = () => box.querySelector("[role=status]").textContent;
  const find = (text) => { search.value = text; search.dispatchEvent(new Event("input")); };
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "demo"
    assert CliRunner().invoke(app, ["demo", "--out", str(folder)]).exit_code == 0
    return folder


def test_a_complaint_would_be_heard(browser, tmp_path):
    page = tmp_path / "bad.html"
    page.write_text("<script>throw new Error('no')</script><img src='http://127.0.0.1:9/'>")
    assert len(browser.open(page).complaints) >= 1


def test_the_demo(browser, demo):
    page = browser.open(demo / "report.html")
    summary = json.loads((demo / "summary.json").read_text("utf-8"))
    states = [row["state"] for row in summary["changes"]]
    assert (
        page.ask("return document.querySelector('h1').textContent")
        == (summary["verdict"]["sentence"])
    )
    seen = page.ask(
        TABLE + "const first = column(0); more.click(); const all = column(0);"
        "sort(1); const rows = column(1).map(Number), order = head(1).ariaSort;"
        "sort(0); return { first, all, rows, order, names: column(0) }"
    )
    assert seen["first"] == states[:25]
    assert seen["all"] == states
    assert seen["rows"] == sorted((row["n_rows"] for row in summary["changes"]), reverse=True)
    assert seen["order"] == "descending"
    assert seen["names"] == sorted(states)
    seen = page.ask(
        TABLE + "find('kidneys-ok DRUG-B'); const found = column(0), told = said();"
        "find('no such state'); return { found, told, none: said() }"
    )
    both = [row for row in summary["changes"] if "drug-b" in (row["less"], row["more"])]
    found = sorted(row["state"] for row in both if "kidneys-ok" in row["state"])
    assert seen["found"] == found
    assert seen["told"] == f"{len(found)} of {len(found)} shown, of {len(states)} in all"
    assert seen["none"] == f"0 of 0 shown, of {len(states)} in all"
    assert page.complaints == []


def test_what_hears_or_types_can_use_it(browser, demo):
    """Every control has a name and the focus; pictures and tables say what they are."""
    page = browser.open(demo / "report.html")
    nameless = page.ask(
        "return [...document.querySelectorAll('input, button, a, summary')].filter((part) =>"
        " !(part.textContent.trim() || part.labels?.length) || part.tabIndex < 0).length"
    )
    silent = page.ask(
        "return [...document.querySelectorAll('svg')].filter((part) =>"
        " !part.closest('[aria-label], [aria-hidden=true]')).length"
    )
    assert (nameless, silent) == (0, 0)
    assert page.ask("return document.querySelectorAll('main, h1').length") == 2
    narrow = {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    page.call("Emulation.setDeviceMetricsOverride", **narrow)
    assert page.ask("return document.documentElement.scrollWidth") <= 360


def test_pages_of_comparisons_and_evaluations(browser, tmp_path):
    _, baseline, log = random_problem(3, n_episodes=60)
    problem = spibb.Problem.of(log, baseline=baseline, gamma=0.9)
    facts = spibb.compare(problem, [spibb.BasicRL()]).write(tmp_path / "compared")
    found = spibb.evaluate_policy(problem, policy=baseline, estimators=["is"])
    told = evaluation_facts(found)
    write_evaluation(found, told, tmp_path / "evaluated", overwrite=False)
    for folder, statement in (("compared", facts["statement"]), ("evaluated", told["statement"])):
        page = browser.open(tmp_path / folder / "report.html")
        assert page.ask("return document.querySelector('h1').textContent") == statement
        assert page.complaints == []


def test_names_run_nothing_and_stand_in_natural_order(browser, tmp_path):
    """A script in a name would change the title; an unescaped tag would be an element."""
    evil = "<script>document.title='run'</script><u id='made'>"
    names, actions = (evil, "ward 10", "ward 2"), (evil, "O'Brien & S\u00f6hne </script>")
    log = spibb.Log.from_arrays(
        state=np.repeat(np.arange(3), 8), action=np.tile([0, 1], 12),
        reward=np.tile([0.0, 1.0], 12), episode=np.arange(24), state_labels=names,
        action_labels=actions,
    )  # fmt: skip
    result = spibb.BasicRL().improve(log, baseline="estimate", gamma=0.9)
    write_result(result, tmp_path / "out")
    page = browser.open(tmp_path / "out/report.html")
    seen = page.ask(
        TABLE + "sort(0); return { title: document.title, names: column(0), more: column(3),"
        " made: document.querySelectorAll('u').length }"
    )
    assert "run" not in seen["title"]
    assert seen["made"] == 0
    assert seen["names"] == [evil, "ward 2", "ward 10"]
    assert seen["more"] == [f"{actions[1]}: 50 → 100 %"] * 3
    assert page.complaints == []


def test_twenty_thousand_states(browser, tmp_path):
    """The page is under 3 MB, its first paint under 2 s, and a search finds one state of all."""
    n = 20_000
    log = spibb.Log.from_arrays(
        state=np.repeat(np.arange(n), 4), action=np.tile([0, 1], 2 * n),
        reward=np.tile([0.0, 1.0], 2 * n), episode=np.arange(4 * n), n_states=n,
    )  # fmt: skip
    baseline = spibb.TabularPolicy.uniform(n, 2)
    result = spibb.PiBSPIBB(n_wedge=1).improve(log, baseline=baseline, gamma=0.9)
    write_result(result, tmp_path / "out")
    assert (tmp_path / "out/report.html").stat().st_size < 3_000_000
    page = browser.open(tmp_path / "out/report.html")
    seen = page.ask(
        TABLE + "const paint = await new Promise((done) => new PerformanceObserver((list) =>"
        " done(list.getEntries()[0].startTime)).observe({ type: 'paint', buffered: true }));"
        "const shown = said(); sort(0); find('19999'); return { paint, shown, found: column(0) }"
    )
    assert seen["shown"] == "25 of 20,000 shown"
    assert seen["found"] == ["19999"]
    assert seen["paint"] < 2_000
    assert page.complaints == []
