"""The report: self-contained, escaped, and as a real browser shows it."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from typer.testing import CliRunner

from spibb.algorithms.auto_spibb import GRID, AutoSPIBB
from spibb.algorithms.basic_rl import BasicRL
from spibb.algorithms.soft_spibb import ApproxSoftSPIBB
from spibb.assessment.assessment import Assessment
from spibb.cli.app import app
from spibb.data.log import Log
from spibb.mdp.policy import TabularPolicy
from spibb.posterior.penalised_search import PENALTIES
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
    judged = Assessment.of(result)
    return render_report(judged, result_summary(judged))


def data_of(text, name="changes"):
    """Return the rows that a page holds as data."""
    start = f'<script type="application/json" id="{name}-data">'
    return json.loads(text.split(start)[1].split("</script>")[0])


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
    text = (demo / "report.html").read_text("utf-8")
    page = Page(text)
    loading = {"src", "href", "xlink:href", "srcset", "data", "action", "poster", "background"}
    for tag, attributes in page.tags:
        assert tag not in {"link", "iframe", "object", "embed", "img", "base"}
        for name, value in attributes.items():
            if name in loading:
                assert value.startswith("#"), f"{tag} loads {value}"
            assert not name.startswith("on"), f"{tag} runs {name}"
            assert "url(" not in (value or "").replace("url(#", "")
    assert "http" not in "".join(re.findall(r"<style.*?</style>|<script.*?</script>", text, re.S))
    assert "default-src 'none'" in text


def test_the_page_says_what_the_files_say(demo):
    text = (demo / "report.html").read_text("utf-8")
    page = Page(text)
    summary = json.loads((demo / "summary.json").read_text("utf-8"))
    certificate = json.loads((demo / "certificate.json").read_text("utf-8"))
    assert " ".join(certificate["statement"].split()) in page.text
    for said in (
        *certificate["guarantee"]["assumptions"],
        summary["verdict"]["rule"],
        *(one["figure"] for one in summary["answers"]),
        *(one["text"] for one in summary["answers"]),
        *(one["statement"] for one in summary["verdict"]["conditions"]),
        *summary["hashes"].values(),
        summary["command"],
    ):
        assert " ".join(said.split()) in page.text
    assert page.n_rows["risk"] == 2
    low, high = summary["risk"]["interval_95"]
    assert f"{low:+.3g} to {high:+.3g}" in page.text
    found = data_of(text)
    assert [row[0] for row in found["rows"]] == [row["state"] for row in summary["changes"]]
    assert [row[6] for row in found["rows"]] == [row["more_rows"] for row in summary["changes"]]


def test_terminal_states_are_not_in_the_policy(demo):
    policy = TabularPolicy.read(demo / "policy.csv")
    summary = json.loads((demo / "summary.json").read_text("utf-8"))
    assert not {"discharged", "intensive-care"} & set(policy.state_labels)
    assert summary["n_deciding_states"] == policy.n_states == summary["n_states"] - 2


EVIL = ("<script>alert(1)</script>", "--><i>x</i>", "O'Brien & S\u00f6hne </script><b>")


def test_names_are_text_everywhere():
    text = page_of(improved(state_labels=EVIL, action_labels=("<img src=x>", "</svg>")))
    page = Page(text)
    assert not {"img", "i"} & {tag for tag, attributes in page.tags if not attributes}
    assert [tag for tag, _ in page.tags].count("b") == 1, "the verdict alone"
    assert text.count("<script") == text.count("</script>") == 2
    assert "<img" not in text
    assert "O&#39;Brien &amp; S\u00f6hne" in text
    found = data_of(text)
    assert {row[0] for row in found["rows"]} == set(EVIL)
    assert set(found["names"]) == {"<img src=x>", "</svg>"}


def test_nothing_changed():
    text = page_of(improved(algorithm=ApproxSoftSPIBB(epsilon=0.0)))
    assert "Nowhere: the policy is the baseline." in text
    assert "<svg" not in text
    assert "<b>Keep the baseline</b>, since the new policy is the baseline: nothing" in text


def test_a_result_without_a_theorem_of_its_own_has_the_regret_test():
    page = Page(page_of(improved(algorithm=BasicRL())))
    assert "Regret test: with probability at least 0.95" in page.text
    assert "Beside it" not in page.text
    assert "Beside it" in Page(page_of(improved())).text


def test_estimates_that_mean_nothing_are_withheld_with_the_reason():
    page = Page(page_of(improved()))
    told = "Estimates by the model of the counts are withheld: 100 % of the new policy's visits"
    assert told in page.text


def test_what_a_picture_leaves_out_is_said_in_it():
    """Of 40 actions those that move are 0, which pays, and whatever it is paid for by."""
    names = [f"act-{a:02}" for a in range(40)]
    text = page_of(improved(n_states=30, n_actions=40, action_labels=names))
    picture = text[text.index('<table class="bars"') :].split("</figure>")[0]
    assert "the 12 of 30 states that change most" in picture
    assert "8 of 40 actions" in picture
    assert picture.count('<th scope="col">act-') == 8
    assert '<th scope="col">act-00' in picture
    assert '<th scope="col">32 others' in picture
    first = picture.split('<th scope="row">')[1].split("</tr>")[0]
    told = re.findall(r">(?:[0-9]+ → )?([0-9]+) %<", first)
    assert len(told) == 9
    assert 95 <= sum(map(int, told)) <= 105, "a row is whole, but for rounding"
    assert len(data_of(text)["rows"]) == 30


def test_numbers_stand_above_their_bars():
    result = improved(state_labels=("a", "b", "c"), action_labels=("go", "stop"))
    new = 100 * result.policy.probabilities[0, 0]
    assert f'<td>50 → {new:.0f} %<i class="old" style="width:50.0%">' in page_of(result)


def test_the_page_is_the_same_each_time():
    result = improved()
    assert page_of(result) == page_of(result)


def test_the_candidates_of_a_choice_are_all_there():
    """One action pays five more than the other, forty times: every candidate sees that."""
    action = np.repeat([0, 1], 20)
    log = Log.from_arrays(
        state=np.zeros(40, int), action=action, reward=5.0 * action + np.arange(40) % 2,
        episode=np.arange(40), terminated=np.ones(40, bool),
    )  # fmt: skip
    uniform = TabularPolicy.uniform(1, 2)
    text = page_of(AutoSPIBB().improve(log, baseline=uniform, gamma=0.9))
    assert Page(text).n_rows["candidates"] == 1 + len(PENALTIES) + 2 * len(GRID)
    assert text.count('<tr class="chosen">') == 1
    first = text.split('<table id="candidates">')[1].split("<tbody>")[1].split("</tr>")[0]
    assert "chosen: " in first, first
