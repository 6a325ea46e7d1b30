"""Groups of a log: what they earned, and what changes in them."""

import json

import numpy as np
import pytest

import spibb
from spibb.report.groups import Group, list_groups, shown_groups
from spibb.report.summary import result_summary

HEAD = "ward,episode,step,state,action,reward,next_state,terminated\n"
# Rows are not in order: ward 10 holds odd episodes, ward 2 even ones and the second steps of all.
ROWS = "".join(
    f"""ward 2,{2 * k + 1},1,b,go,4,end,true
ward 10,{2 * k + 1},0,a,stop,0,b,false
ward 2,{2 * k},0,a,go,1,b,false
ward 2,{2 * k},1,b,stop,2,end,true
"""
    for k in range(10)
)


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
        Group("ward 2", 30, 10, 1 + 0.5 * 2, pytest.approx((moved[a] + 2 * moved[b]) / 3)),
        Group("ward 10", 10, 10, 0 + 0.5 * 4, pytest.approx(moved[a])),
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


def judged(groups, **columns):
    """Judge a policy on a log of one row an episode, in groups of these sizes."""
    names = [name for name, n in groups.items() for _ in range(n)]
    n = len(names)
    log = spibb.Log.from_arrays(
        state=[0] * n, action=np.arange(n) % 2, reward=np.arange(n, dtype=float),
        group=[list(groups).index(name) for name in names], group_labels=list(groups),
        **({"episode": range(n)} | columns),
    )  # fmt: skip
    return spibb.Assessment.of(spibb.BasicRL().improve(log, baseline="estimate", gamma=0.5))


def told(groups):
    return {one.name: one.n_episodes for one in list_groups(judged(groups))}


def test_small_groups_are_one_row():
    groups = {"a": 6, "b": 12, "c": 9, "d": 15}
    assert told(groups) == {"b": 12, "d": 15, "other groups (2)": 15}
    found = list_groups(judged(groups))[-1]
    assert (found.n_rows, found.n_groups) == (15, 2)
    # Rewards are the numbers of the rows: of 'a' 0 to 5, of 'c' 18 to 26.
    assert found.log_return == pytest.approx((sum(range(6)) + sum(range(18, 27))) / 15)


def test_a_row_of_few_episodes_takes_the_next_larger_group_in():
    """Else its figures were those of the log minus those of the rows that are shown."""
    assert told({"a": 20, "b": 3, "c": 12}) == {"a": 20, "other groups (2)": 15}
    assert told({"a": 20, "b": 3, "c": 0}) == {"all groups (3)": 23}
    assert told({"a": 20, "b": 0, "c": 30}) == {"c": 30, "other groups (2)": 20}


def test_of_fewer_than_ten_episodes_nothing_is_told():
    for groups in ({"a": 4, "b": 5}, {"a": 9}):
        (found,) = list_groups(judged(groups))
        assert (found.n_rows, found.n_episodes, found.log_return, found.moved) == (None,) * 4
    assert told({"a": 10}) == {"a": 10}


def test_no_figure_of_a_small_group_follows_from_the_others():
    """Over many sizes: what is left when shown rows are taken from the total is ten or more."""
    rng = np.random.default_rng(5)
    for _ in range(300):
        sizes = rng.integers(0, 25, rng.integers(1, 6)).tolist()
        shown, others = shown_groups(sizes)
        assert sorted(shown + others) == list(range(len(sizes)))
        assert all(sizes[g] >= 10 for g in shown)
        left = sum(sizes) - sum(sizes[g] for g in shown)
        assert left == sum(sizes[g] for g in others)
        assert not others or left >= 10 or not shown
        small = [g for g in others if sizes[g] < 10]
        assert not others or small, "nothing is merged without need"


def test_rows_count_where_there_are_no_episodes():
    known = {"episode": None, "next_state": [0] * 27}
    found = list_groups(judged({"a": 15, "b": 12}, **known))
    assert [(one.name, one.n_rows, one.log_return) for one in found] == [
        ("a", 15, None), ("b", 12, None),
    ]  # fmt: skip
    assert len(list_groups(judged({"a": 20, "b": 7}, **known))) == 1


def test_ids_of_episodes_as_groups_are_not_told(tmp_path, capsys, monkeypatch):
    """A column of ids to group by makes groups of one episode each."""
    from spibb.cli.app import main

    rows = "".join(f"patient-{k},0,{k % 2},{k % 2}\n" for k in range(40))
    (tmp_path / "log.csv").write_text("episode,state,action,reward\n" + rows, "utf-8")
    words = ["improve", str(tmp_path / "log.csv"), "--baseline", "estimate", "--gamma", "0.5"]
    words += ["--by", "episode", "--algorithm", "basic-rl"]
    for more in ([], ["--show-ids"]):
        out = tmp_path / f"out{len(more)}"
        monkeypatch.setattr("sys.argv", ["spibb", *words, "--out", str(out), *more])
        with pytest.raises(SystemExit):
            main()
        ran = capsys.readouterr()
        assert "patient-" not in ran.out + ran.err
        for file in out.iterdir():
            assert b"patient-" not in file.read_bytes(), file.name
        assert "all groups (40)" in ran.out


def test_few_episodes_are_said_to_be_few(tmp_path, capsys, monkeypatch):
    from spibb.cli.app import main

    rows = "".join(f"w{k % 3},{k},0,{k % 2},{k % 2}\n" for k in range(9))
    (tmp_path / "log.csv").write_text("ward,episode,state,action,reward\n" + rows, "utf-8")
    words = ["improve", str(tmp_path / "log.csv"), "--baseline", "estimate", "--gamma", "0.5"]
    monkeypatch.setattr("sys.argv", ["spibb", *words, "--by", "ward", "--algorithm", "basic-rl",
                                     "--out", str(tmp_path / "out")])  # fmt: skip
    with pytest.raises(SystemExit):
        main()
    assert "fewer than 10" in capsys.readouterr().out
    page = (tmp_path / "out/report.html").read_text("utf-8")
    assert "fewer than 10" in page
    (group,) = json.loads((tmp_path / "out/summary.json").read_text("utf-8"))["groups"]
    assert group == {"name": "all groups (3)", "n_rows": None, "n_episodes": None,
                     "log_return": None, "moved": None, "n_groups": 3}  # fmt: skip
