"""The table and the picture of gains in finer states: odd numbers, odd names, narrow pages."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import spibb
from spibb.assessment.assessment import Assessment
from spibb.report.html import finer_states, render_page, render_report
from spibb.report.inspection import format_place
from spibb.report.representation import (
    representation_cells,
    representation_line,
    representation_sentences,
    states_remark,
)
from spibb.report.summary import result_summary
from spibb.representation.agreement import Agreement, RefinedClaim

NAMES = ("quantiles", "equal widths", "tree", "linear")


def agreement(gains=(0.9, 0.8, 0.7, 0.6), claim=1.0, label_loss=0.0, columns=("age", "ward")):
    made = tuple(
        RefinedClaim(name, gain, 0.1, gain / claim if claim > 0.0 else np.nan, 0.1, label_loss,
                     0.01, 40, holds=gain > 0.5)
        for name, gain in zip(NAMES, gains, strict=True)
    )  # fmt: skip
    return Agreement(columns, claim, 0.1, made, 12, 0.0)


def test_every_row_has_its_words():
    cells = representation_cells(agreement().to_dict())
    assert cells[0] == ("states of the log", "12", "+1", "0.2", "", "0 %", "")
    assert cells[1] == ("quantiles", "40", "+0.9", "0.2", "90 %", "1 %", "yes")
    assert cells[4] == ("linear", "40", "+0.6", "0.2", "60 %", "", "yes")
    assert representation_cells(agreement((0.9, 0.8, 0.4, 0.6)).to_dict())[3][-1] == "no"


def test_a_claim_of_nothing_has_no_half_and_no_shares():
    facts = agreement((-1.0, -2.0, 0.0, 0.1), claim=-0.5).to_dict()
    assert json.dumps(facts, allow_nan=False)
    assert facts["refinements"][0]["share"] is None
    assert [cells[4] for cells in representation_cells(facts)] == [""] * 5
    shown = finer_states(facts)
    assert all('class="half"' not in row["picture"] for row in shown["rows"])
    assert "dashed" not in " ".join(shown["sentences"])


def test_a_gain_far_away_leaves_room_for_the_others():
    shown = finer_states(agreement((0.9, 0.8, 0.7, -1e9)).to_dict())
    places = [
        float(re.search(r'<circle class="\w+" cx="([\d.]+)"', row["picture"])[1])
        for row in shown["rows"]
    ]
    assert places[4] < places[3] < places[0]
    assert shown["sentences"][-1].endswith("What lies beyond the picture stands at its end.")
    assert "beyond the picture" not in finer_states(agreement().to_dict())["sentences"][-1]
    assert places[0] - places[3] > 3.0, "what is near is still told apart"
    assert "-1,000,000,000" in shown["rows"][4]["cells"][1] or "e" in shown["rows"][4]["cells"][1]


def test_the_loss_of_acting_in_labels_is_told_where_it_counts():
    def said(loss):
        return " ".join(representation_sentences(agreement(label_loss=loss).to_dict()))

    assert "would itself lose up to 0.25 an episode against today" in said(0.25)
    assert "would itself lose" not in said(0.001)
    assert "would itself lose" not in said(-0.3)
    assert "more than 50 % of the gain" in said(0.0)
    assert "split them by age, ward:" in said(0.0)


def test_the_line_of_a_comparison():
    line = representation_line(agreement((0.9, 0.8, 0.4, 0.6)), "")
    assert line == (
        "gain +1 in the states, least gain in finer states +0.4 (tree): it does not survive"
    )
    assert representation_line(agreement(), "").endswith("+0.6 (linear): enough of it survives")
    assert representation_line(None, "too many states") == "not checked: too many states"


def test_names_of_columns_are_escaped():
    log = spibb.Log.from_arrays(
        state=np.zeros(400, int), action=np.tile([0, 1], 200), reward=np.tile([0.0, 1.0], 200),
        episode=np.arange(400), terminated=np.ones(400, bool),
        features={"<script>x</script>": np.arange(400.0) % 7},
    )  # fmt: skip
    uniform = spibb.TabularPolicy.uniform(1, 2)
    judged = Assessment.of(spibb.BasicRL().improve(log, baseline=uniform, gamma=0.5))
    summary = result_summary(judged)
    assert summary["representation"]["columns"] == ["<script>x</script>"]
    page = render_report(judged, summary)
    assert "<script>x" not in page
    assert "&lt;script&gt;x" in page


def test_it_stands_on_the_page_of_an_evaluation():
    page = render_page(
        "evaluation.html", finer=finer_states(agreement().to_dict()), rows=[], axis="",
        sensitivity=[], sensitivity_question="",
        objective={"sentences": ()},
        facts={"statement": "So.", "command": None},
        found=SimpleNamespace(n_episodes=1, n_rows=1, n_truncated=0, delta=0.05, bound="bca",
                              is_exact=False, is_baseline_estimated=False, warnings=(),
                              estimates=(), assumptions=()),
    )  # fmt: skip
    assert page.count('<th scope="row">') == 5


@pytest.mark.parametrize(
    ("tests", "findings", "said"),
    [
        ([("memory", 0.4), ("persistent-rewards", 0.9)], [], "found nothing."),
        ([("memory", 0.4), ("persistent-rewards", None)], [], "found nothing."),
        ([("memory", None), ("persistent-rewards", None)], [], "could not be run."),
        ([("memory", 1e-9), ("persistent-rewards", 0.9)], ["memory"], "found something: memory."),
        ([("memory", 0.4), ("persistent-rewards", 0.9)], ["drift"], "found nothing."),
    ],
)
def test_what_is_said_without_raw_columns(tests, findings, said):
    inspection = SimpleNamespace(
        tests=[SimpleNamespace(check=name, p_value=p) for name, p in tests],
        findings=[SimpleNamespace(check=name) for name in findings],
    )
    log = SimpleNamespace(features=None)
    judged = SimpleNamespace(inspection=inspection, problem=SimpleNamespace(log=log))
    told = states_remark(judged)
    assert told.startswith("The states were taken as given: to have them checked, name raw columns")
    assert told.endswith(f"(memory, persistent rewards) {said}")
    counts = SimpleNamespace(inspection=None, problem=SimpleNamespace(log=None))
    assert "counts keep neither raw columns nor the past" in states_remark(counts)


def test_shares_of_a_finding_are_percentages():
    assert format_place("of actions", 0.0312) == "3.1 %"
    assert format_place("in_log", 0.72) == "0.72"
    assert format_place("rows", 12_000) == "12,000"
    assert format_place("state", "a") == "a"


def test_a_gain_that_is_no_number_is_not_told(monkeypatch):
    from spibb.representation import agreement as module
    from spibb.representation.refine import Refiner

    log = spibb.Log.from_arrays(
        state=[0] * 4, action=[0, 1] * 2, reward=[0.0, 1.0] * 2, episode=range(4),
        features={"x": [1.0, 2.0, 3.0, 4.0]},
    )  # fmt: skip

    tables = np.array([[0.0, 1.0]]), np.array([[0.5, 0.5]])
    assert isinstance(module.find_agreement(log, *tables, 0.5), Agreement)
    monkeypatch.setattr(
        Refiner, "gains", lambda self: iter([("tree", replace(self.claim, gain=np.nan))])
    )
    assert module.find_agreement(log, *tables, 0.5) == (
        "gains in finer states are no finite numbers on this log"
    )
