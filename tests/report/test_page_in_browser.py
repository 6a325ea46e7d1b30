"""The report in Chromium: no errors, the verdict as in the files, tables that sort and search."""

import json

import numpy as np
import pytest
from browser import probe, show
from typer.testing import CliRunner

import spibb
from spibb.cli.app import app
from spibb.report.folder import write_result

TABLE = """
  const table = document.getElementById("changes"), box = table.closest("[data-box]");
  const column = (k) => [...table.tBodies[0].rows].map((row) => row.cells[k].textContent);
  const sort = (k) => table.tHead.rows[0].cells[k].querySelector("button").click();
  const search = box.querySelector("input");
  const said = () => box.querySelector("[role=status]").textContent;
  const find = (text) => { search.value = text; search.dispatchEvent(new Event("input")); };
"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "demo"
    assert CliRunner().invoke(app, ["demo", "--out", str(folder)]).exit_code == 0
    return folder


def test_the_demo(demo, tmp_path):
    dom, said = show(demo / "report.html", tmp_path / "profile")
    assert said == [], "the page's own policy for content lets its own script run"
    assert dom.count('<tr><th scope="row">') >= 25, "the script has filled the table"
    asked = (
        TABLE
        + """
      const first = column(0);
      sort(1); const rows = column(1).map(Number), arrow = table.tHead.rows[0].cells[1].ariaSort;
      sort(0); const names = column(0);
      find("kidneys-ok DRUG-B"); const found = column(0), told = said();
      find("no such state"); const none = said();
      return { verdict: document.querySelector("h1").textContent, first, rows, arrow, names, found,
               told, none, labelled: document.querySelector(`label[for=${search.id}]`) !== null };
    """
    )
    seen, said = probe(demo / "report.html", tmp_path / "profile", f"() => {{ {asked} }}")
    summary = json.loads((demo / "summary.json").read_text("utf-8"))
    states = [row["state"] for row in summary["changes"]]
    assert said == []
    assert seen["verdict"] == summary["verdict"]["sentence"]
    assert seen["first"] == states[:25]
    assert seen["rows"] == sorted((r["n_rows"] for r in summary["changes"]), reverse=True)[:25]
    assert seen["arrow"] == "descending"
    assert seen["names"] == sorted(states)[:25]
    both = [r for r in summary["changes"] if "drug-b" in (r["less"], r["more"])]
    assert seen["found"] == sorted(r["state"] for r in both if "kidneys-ok" in r["state"])
    assert seen["told"] == f"{len(seen['found'])} of {len(seen['found'])} shown, of 30 in all"
    assert seen["none"] == "0 of 0 shown, of 30 in all"
    assert seen["labelled"]


def test_names_run_nothing_and_stand_in_natural_order(tmp_path):
    """A script in a name would change the title; an unescaped tag would be an element."""
    evil = "<script>document.title='run'</script><u id='made'>"
    names = (evil, "ward 10", "ward 2")
    log = spibb.Log.from_arrays(
        state=np.repeat(np.arange(3), 8), action=np.tile([0, 1], 12),
        reward=np.tile([0.0, 1.0], 12), episode=np.arange(24), state_labels=names,
        action_labels=(evil, "O'Brien & S\u00f6hne </script>"),
    )  # fmt: skip
    result = spibb.BasicRL().improve(log, baseline="estimate", gamma=0.9)
    write_result(result, tmp_path / "out")
    asked = (
        TABLE
        + """
      sort(0);
      return { title: document.title, made: document.querySelectorAll("u, i:not([style])").length,
               names: column(0), more: column(3)[0] };
    """
    )
    page = tmp_path / "out/report.html"
    seen, said = probe(page, tmp_path / "profile", f"() => {{ {asked} }}")
    assert said == []
    assert "run" not in seen["title"]
    assert seen["made"] == 0
    assert seen["names"] == [evil, "ward 2", "ward 10"]
    assert seen["more"].startswith("O'Brien & S\u00f6hne </script> 50")


def test_twenty_thousand_states(tmp_path):
    """The page is under 3 MB, its first paint under 2 s, and a search finds one state of all."""
    n = 20_000
    state = np.repeat(np.arange(n), 4)
    log = spibb.Log.from_arrays(
        state=state, action=np.tile([0, 1], 2 * n), reward=np.tile([0.0, 1.0], 2 * n),
        episode=np.arange(4 * n), n_states=n,
    )  # fmt: skip
    baseline = spibb.TabularPolicy.uniform(n, 2)
    result = spibb.PiBSPIBB(n_wedge=1).improve(log, baseline=baseline, gamma=0.9)
    write_result(result, tmp_path / "out")
    page = tmp_path / "out/report.html"
    assert page.stat().st_size < 3_000_000
    asked = (
        TABLE
        + """
      const paint = await new Promise((done) => new PerformanceObserver((list) =>
        done(list.getEntries()[0].startTime)).observe({ type: "paint", buffered: true }));
      const shown = said(); find("19999"); const start = performance.now(); sort(0);
      return { paint, shown, found: column(0), sorting: performance.now() - start };
    """
    )
    seen, said = probe(page, tmp_path / "profile", f"async () => {{ {asked} }}")
    assert said == []
    assert seen["shown"] == "25 of 20,000 shown"
    assert seen["found"] == ["19999"]
    assert seen["paint"] < 2_000
