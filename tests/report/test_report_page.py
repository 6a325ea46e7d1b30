"""The report: self-contained, escaped, and as a real browser shows it."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest
from typer.testing import CliRunner

from spibb.algorithms.basic_rl import BasicRL
from spibb.algorithms.soft_spibb import ApproxSoftSPIBB
from spibb.cli.app import app
from spibb.data.log import Log
from spibb.mdp.policy import TabularPolicy
from spibb.pictures import to_svg
from spibb.report.changes import list_changes
from spibb.report.figures import change_figure
from spibb.report.html import render_report
from spibb.report.summary import result_summary


class Page(HTMLParser):
    """Collects the tags of a page, the text, and how many rows each table has."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags = []
        self.texts = []
        self.n_rows = {}
        self.table = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "table":
            self.table = dict(attrs).get("id", "")
        if tag == "tr":
            self.n_rows[self.table] = self.n_rows.get(self.table, 0) + 1

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def page_of(result):
    changes = list_changes(result.policy, result.baseline.policy, result.certificate.states)
    return render_report(result, result_summary(result), changes), changes


def improved(n_states=3, n_actions=2, state_labels=None, action_labels=None, algorithm=None):
    """A result in which every state changes: action 0 pays, the others do not."""
    states = np.repeat(np.arange(n_states), 2 * n_actions)
    actions = np.tile(np.arange(n_actions), 2 * n_states)
    log = Log.from_arrays(
        state=states, action=actions, reward=(actions == 0).astype(float),
        episode=np.arange(len(states)), state_labels=state_labels, action_labels=action_labels,
    )  # fmt: skip
    baseline = TabularPolicy(
        np.full((n_states, n_actions), 1 / n_actions), state_labels, action_labels
    )
    chosen = algorithm or ApproxSoftSPIBB(epsilon=0.5)
    return chosen.improve(log, baseline=baseline, gamma=0.5)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "demo"
    assert CliRunner().invoke(app, ["demo", "--out", str(folder)]).exit_code == 0
    return folder


def test_the_page_loads_nothing(demo):
    page = Page((demo / "report.html").read_text("utf-8"))
    loading = {"src", "href", "xlink:href", "srcset", "data", "action", "poster", "background"}
    for tag, attributes in page.tags:
        assert tag not in {"script", "link", "iframe", "object", "embed", "img", "base"}
        for name, value in attributes.items():
            if name in loading:
                assert value.startswith("#"), f"{tag} loads {value}"
            assert not name.startswith("on"), f"{tag} runs {name}"
            assert all(part.startswith("url(#") for part in re.findall(r"url\([^)]*", value or ""))
    style = "".join(
        re.findall(r"<style.*?</style>", (demo / "report.html").read_text("utf-8"), re.S)
    )
    assert "@import" not in style
    assert "http" not in style


def test_the_page_says_what_the_files_say(demo):
    page = Page((demo / "report.html").read_text("utf-8"))
    summary = json.loads((demo / "summary.json").read_text("utf-8"))
    certificate = json.loads((demo / "certificate.json").read_text("utf-8"))
    assert " ".join(certificate["statement"].split()) in page.text
    for text in certificate["guarantee"]["assumptions"]:
        assert text in page.text
    assert f"{summary['n_states_changed']} of {summary['n_states']}" in page.text
    assert page.n_rows["changes"] == summary["n_states_changed"] + 1
    assert [tag for tag, _ in page.tags].count("svg") == 2  # the changes, and the log


def test_names_are_escaped():
    names = ("<script>alert(1)</script>", "--><i>x</i>", "a & b <i>")
    text, _ = page_of(improved(state_labels=names, action_labels=("<img src=x>", "</svg>")))
    page = Page(text)
    assert not {"script", "img", "i"} & {tag for tag, _ in page.tags}
    for name in (*names, "<img src=x>"):
        assert name in page.text
    assert "<script" not in text
    assert "<img" not in text


def test_nothing_changed():
    text, changes = page_of(improved(algorithm=ApproxSoftSPIBB(epsilon=0.0)))
    assert changes == []
    assert "Nowhere: the policy is the baseline." in text
    assert text.count("<svg") == 1, "the log alone is drawn"


def test_a_result_without_a_theorem_of_its_own_has_the_regret_test():
    page = Page(page_of(improved(algorithm=BasicRL()))[0])
    assert "Regret test: with probability at least 0.95" in page.text
    assert "Beside it" not in page.text
    assert "Beside it" in Page(page_of(improved())[0]).text


def test_estimates_that_mean_nothing_are_withheld_with_the_reason():
    page = Page(page_of(improved())[0])
    assert "Estimates by the model are withheld: 100 % of the new policy's visits" in page.text
    assert page.text.count("withheld") == 3


def test_long_lists_are_cut_and_it_is_said():
    text, changes = page_of(improved(n_states=130))
    assert len(changes) == 130
    page = Page(text)
    assert page.n_rows["changes"] == 100 + 1
    assert "the first 100 of 130" in page.text


def test_the_picture_is_the_same_each_time():
    result = improved()
    assert page_of(result)[0] == page_of(result)[0]


def test_the_picture_shows_old_and_new_shares():
    result = improved(state_labels=("a", "b", "c"), action_labels=("go", "stop"))
    changes = page_of(result)[1]
    svg = to_svg(change_figure(result.policy, result.baseline.policy, changes))
    new = 100 * result.policy.probabilities[0, 0]
    for text in ("go", "stop", "a", "b", "c", f"50 → {new:.0f}"):
        assert f">{text}<" in svg


def test_the_picture_keeps_to_the_states_and_actions_that_change_most():
    """Of 40 actions those that move are 0, which pays, and whatever it is paid for by."""
    result = improved(n_states=30, n_actions=40, action_labels=[f"act-{a:02}" for a in range(40)])
    changes = page_of(result)[1]
    svg = to_svg(change_figure(result.policy, result.baseline.policy, changes, n_shown=5))
    assert ">act-00<" in svg
    assert svg.count(">act-") == 8
    shown = [change.state for change in changes[:5]]
    assert all(f">{state}<" in svg for state in shown)
    assert f">{changes[6].state}<" not in svg


@pytest.mark.parametrize(
    "name", ["$x$", "$\\undefined$", "\u4e2d\u6587", "two\nlines", "w" * 500, "\x07bell", "%d {x}"]
)
def test_the_picture_takes_any_name(name):
    result = improved(state_labels=(name, "b", "c"), action_labels=(name, "stop"))
    changes = page_of(result)[1]
    svg = to_svg(change_figure(result.policy, result.baseline.policy, changes))
    shown = "".join(mark if mark.isprintable() else " " for mark in name)
    assert (shown if len(shown) <= 32 else shown[:31] + "…") in svg


def find_browser():
    return shutil.which("chromium") or shutil.which("chromium-browser")


def rendered(page, profile):
    """Return the page as Chromium shows it."""
    browser = find_browser()
    if browser is None:
        pytest.skip("chromium is not on the PATH, and pages are tested in a real browser")
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--no-first-run",
         f"--user-data-dir={profile}", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, encoding="utf-8", timeout=80, check=True,
    )  # fmt: skip
    return done.stdout


def test_chromium_shows_the_report(demo, tmp_path):
    dom = Page(rendered(demo / "report.html", tmp_path / "profile"))
    summary = json.loads((demo / "summary.json").read_text("utf-8"))
    certificate = json.loads((demo / "certificate.json").read_text("utf-8"))
    assert " ".join(certificate["statement"].split()) in dom.text
    assert [tag for tag, _ in dom.tags].count("svg") == 2
    assert dom.n_rows["changes"] == summary["n_states_changed"] + 1
    assert dom.n_rows[""] >= len(certificate["checks"]) + 1
    assert summary["advice"] in dom.text


def test_chromium_runs_no_name(tmp_path):
    """A script in a name would change the title; an unescaped tag would be an element."""
    name = "<script>document.title='run'</script><u id='made'>"
    text, changes = page_of(improved(state_labels=(name, "b", "c"), action_labels=(name, "stop")))
    page = tmp_path / "report.html"
    page.write_text(text, encoding="utf-8")
    dom = rendered(page, tmp_path / "profile")
    assert "<title>spibb: approx-soft-spibb</title>" in dom
    assert "u" not in {tag for tag, _ in Page(dom).tags}
    assert Page(dom).n_rows["changes"] == len(changes) + 1
