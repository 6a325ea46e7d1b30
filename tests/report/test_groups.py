"""Groups of a log: what they earned, and what changes in them."""

import json

import numpy as np
import pytest

import spibb
from spibb.report.groups import Group, list_groups
from spibb.report.summary import result_summary

HEAD = "ward,episode,step,state,action,reward,next_state,terminated\n"
# Rows are not in order: ward 10 holds episode 1, ward 2 episode 0 and the second step of 1.
ROWS = """ward 2,1,1,b,go,4,end,true
ward 10,1,0,a,stop,0,b,false
ward 2,0,0,a,go,1,b,false
ward 2,0,1,b,stop,2,end,true
"""


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(HEAD + ROWS, encoding="utf-8")
    return path


def test_rows_returns_and_changes_by_group(log):
    """Greed moves half of the probability in both states: a goes for 'go', b for 'go'."""
    read = spibb.read_log(log, by="ward")
    assert read.group_labels == ("ward 2", "ward 10"), "2 comes before 10"
    result = spibb.BasicRL().improve(read, baseline="estimate", gamma=0.5)
    judged = spibb.Assessment.of(result)
    moved = result.certificate.states.moved
    a, b = (read.states.places[name] for name in "ab")
    assert list_groups(judged) == [
        Group("ward 2", 3, 1, 1 + 0.5 * 2, pytest.approx((moved[a] + 2 * moved[b]) / 3)),
        Group("ward 10", 1, 1, 0 + 0.5 * 4, pytest.approx(moved[a])),
    ]
    total = np.average([one.moved for one in list_groups(judged)], weights=[3, 1])
    assert total == pytest.approx(result_summary(judged)["moved"])


def test_groups_change_nothing_else(log):
    plain, grouped = spibb.read_log(log), spibb.read_log(log, by="ward")
    for name in ("state", "action", "reward", "next_state", "episode", "step"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(grouped, name))
    result = spibb.BasicRL().improve(plain, baseline="estimate", gamma=0.5)
    assert list_groups(spibb.Assessment.of(result)) == []


def test_a_column_may_serve_twice_and_have_empty_cells(log):
    text = log.read_text("utf-8").replace("ward 10,", ",")
    log.write_text(text, encoding="utf-8")
    assert spibb.read_log(log, by="ward").group_labels == ("(empty)", "ward 2")
    assert spibb.read_log(log, columns={"action": "action"}, by="action").group_labels == (
        "go", "stop",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("by", "said"),
    [
        ("wrad", "no column 'wrad' in .*to group by; expected one of ward, .* write --by ward"),
        ("many", "'many' of .* has 1,001 different values; expected at most 1,000 groups"),
    ],
)
def test_what_is_no_group(tmp_path, by, said):
    path = tmp_path / "log.csv"
    rows = "".join(f"w,{k},{k},0,0,1\n" for k in range(1_001))
    path.write_text("ward,many,episode,state,action,reward\n" + rows)
    with pytest.raises(spibb.SpibbError, match=said):
        spibb.read_log(path, by=by)


def test_a_table_has_groups_too(log):
    frame = pytest.importorskip("pandas").read_csv(log)
    assert spibb.read_log(frame, by="ward").group_labels == ("ward 2", "ward 10")


def test_the_command_line_tells_groups(log, tmp_path, capsys, monkeypatch):
    from spibb.cli.app import main

    words = ["improve", str(log), "--baseline", "estimate", "--gamma", "0.5", "--by", "ward"]
    monkeypatch.setattr("sys.argv", ["spibb", *words, "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit):
        main()
    assert "Group by group" in capsys.readouterr().out
    summary = json.loads((tmp_path / "out/summary.json").read_text("utf-8"))
    assert [one["name"] for one in summary["groups"]] == ["ward 2", "ward 10"]
    assert "groups-data" in (tmp_path / "out/report.html").read_text("utf-8")
