"""The behaviour policy, from the command line: propensities, targets, several policies."""

import json
import sqlite3
from contextlib import closing

import pandas as pd
import pytest

from spibb import read_log

HEAD = "episode,step,state,action,reward,next_state,terminated"
PROBABILITY = {"drug": 0.4, "rest": 0.6}


def with_columns(ward, name, **columns):
    """The ward's log with more columns, each a function of a row's number and cells."""
    head, *rows = ward.text.splitlines()
    lines = [",".join([head, *columns])]
    for place, row in enumerate(rows):
        cells = dict(zip(head.split(","), row.split(","), strict=True))
        lines.append(",".join([row, *(str(make(place, cells)) for make in columns.values())]))
    return ward.write(name, "\n".join(lines) + "\n")


def propensity(place, cells):
    return PROBABILITY[cells["action"]]


def half(place, cells):
    return 0.5


def estimates(ran):
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    return {part["estimator"]: part["estimate"] for part in found["estimates"]}, found


def test_a_target_needs_neither_policy_nor_baseline(ward, spibb):
    log = with_columns(ward, "acted.csv", propensity=propensity, target_probability=half)
    usual = ("--gamma", 0.9, "--format", "json")
    by_row, facts = estimates(spibb("evaluate", log, *usual))
    coin = ward.write(
        "coin.csv", "state,action,probability\n"
        + "".join(f"{x},{a},0.5\n" for x in ("fever", "calm") for a in ("drug", "rest")),
    )  # fmt: skip
    by_table, _ = estimates(
        spibb("evaluate", ward.log, "--policy", coin, "--baseline", ward.baseline, *usual)
    )
    assert by_row == pytest.approx({name: by_table[name] for name in by_row})
    assert list(by_row) == ["is", "pdis", "wis", "cwpdis"]
    assert not facts["is_baseline_estimated"]
    both, _ = estimates(spibb("evaluate", log, "--baseline", ward.baseline, *usual))
    assert both == pytest.approx(by_row)
    printed = spibb("evaluate", log, "--gamma", 0.9)
    assert "Left out: dr, model" in " ".join(printed.out.split())


def test_columns_may_be_called_otherwise(ward, spibb):
    log = with_columns(ward, "acted.csv", pscore=propensity, new=half)
    usual = ("--gamma", 0.9, "--format", "json")
    columns = "propensity=pscore,target_probability=new"
    assert estimates(spibb("evaluate", log, "--columns", columns, *usual))[0]


def test_propensities_of_every_action_stand_for_the_baseline(ward, spibb):
    log = with_columns(
        ward, "acted.csv", propensity_drug=lambda *_: 0.4, propensity_rest=lambda *_: 0.6
    )
    usual = ("--gamma", 0.9, "--format", "json", "--out")
    given = spibb("improve", ward.log, "--baseline", ward.baseline, *usual, ward.folder / "a")
    recorded = spibb("improve", log, *usual, ward.folder / "b")
    assert given.code == recorded.code == 0, recorded.err
    one, other = ((ward.folder / part / "policy.csv").read_bytes() for part in "ab")
    assert one == other


@pytest.mark.parametrize(
    ("value", "fragments"),
    [
        (0, ["propensity is 0 in 1 rows", "row 3", "(0, 1]"]),
        (1.2, ["propensity is 1.2 in 1 rows", "row 3"]),
        ("", ["propensity is missing in 1 rows", "row 3", "drop the column"]),
        ("x", ["'propensity'", "not a number: 'x'", "row 3"]),
        (0.7, ["baseline says 0.", "row 3", "1 rows disagree"]),
    ],
)
def test_bad_propensities(ward, refused, value, fragments):
    log = with_columns(
        ward, "bad.csv", propensity=lambda k, cells: value if k == 2 else propensity(k, cells)
    )
    message = refused(*ward.improve(log=log))
    for fragment in fragments:
        assert fragment in message


def test_an_action_without_its_column(ward, refused):
    log = with_columns(ward, "bad.csv", propensity_drug=lambda *_: 0.4)
    message = refused("improve", log, "--gamma", 0.9, "--out", ward.folder / "out")
    assert "no column 'propensity_rest', but propensity_drug" in message


def test_columns_that_only_look_like_it_have_no_meaning(ward, spibb):
    log = with_columns(ward, "odd.csv", propensity_score=lambda *_: 7)
    assert spibb(*ward.improve(log=log)).code == 0


def test_what_is_lacking_is_said(ward, refused):
    usual = ("--gamma", 0.9)
    assert "--baseline FILE" in refused("evaluate", ward.log, "--policy", ward.baseline, *usual)
    message = refused("evaluate", ward.log, "--baseline", ward.baseline, *usual)
    assert "policy is not given" in message
    assert "target_probability" in message
    message = refused("improve", ward.log, *usual, "--out", ward.folder / "out")
    assert "baseline is not given" in message
    log = with_columns(ward, "acted.csv", propensity=propensity)
    message = refused("improve", log, *usual, "--out", ward.folder / "out")
    assert "the probabilities of logged actions alone" in message
    twice = ("--baseline", ward.baseline)
    message = refused("improve", ward.log, *twice, *twice, *usual, "--out", ward.folder / "out")
    assert "--baseline is given twice" in message


def shift(place, cells):
    """Whose patient it is: every third stay is the night's."""
    return "night" if int(cells["episode"]) % 3 == 0 else "day"


def test_several_policies_and_the_one_that_runs_today(ward, spibb):
    log = with_columns(ward, "two.csv", policy=shift)
    each = ("--baseline", f"day={ward.baseline}", "--baseline", "night=estimate")
    usual = ("--improve-on", "day", "--gamma", 0.9, "--format", "json")
    ran = spibb("improve", log, *each, *usual, "--out", ward.folder / "out")
    assert ran.code == 0, ran.err
    facts = json.loads((ward.folder / "out" / "summary.json").read_text())
    assert facts["policies"]["improved"] == "day"
    assert facts["policies"]["n_episodes"] == {"day": 53, "night": 27}
    assert facts["n_rows"] == len(ward.text.splitlines()) - 1
    assert facts["log_return"]["n_episodes"] == 53
    assert "53 episodes of 'day' alone" in facts["policies"]["used"]
    page = (ward.folder / "out" / "report.html").read_text("utf-8")
    assert "53 episodes of" in page
    policy = ward.folder / "out" / "policy.csv"
    found, told = estimates(spibb("evaluate", log, *each, *usual, "--policy", policy))
    assert found
    assert told["n_episodes"] == 53
    assert told["improved_on"] == "day"
    _, all_of_them = estimates(
        spibb("evaluate", log, *each, *usual, "--policy", policy, "--all-episodes")
    )
    assert all_of_them["n_episodes"] == 80
    assert all_of_them["is_baseline_estimated"]
    plain = ("--baseline", ward.baseline)
    ran = spibb("audit", log, *plain, *usual, "--policy", policy)
    assert ran.code == 0, ran.err
    assert "counted together" in ran.out
    for baseline in (each, plain, ()):
        ran = spibb("inspect", log, *baseline, "--improve-on", "day", "--format", "json")
        assert ran.code == 0, ran.err
        assert json.loads(ran.out)["facts"]["policies"].keys() == {"day", "night"}
    printed = " ".join(spibb("inspect", log).out.split())
    assert "by 'day'" in printed
    assert "by 'night'" in printed
    ids = ("--compare", "pi-b-spibb,hcpi")
    ran = spibb("improve", log, *each, *usual, *ids, "--out", ward.folder / "several")
    assert ran.code == 0, ran.err


def test_a_file_may_be_called_with_an_equals_sign(ward, spibb, refused):
    odd = ward.write("run=3.csv", ward.baseline.read_text())
    assert spibb(*ward.improve(baseline=odd)).code == 0
    log = with_columns(ward, "two.csv", policy=shift)
    more = ("--improve-on", "day", "--overwrite")
    assert spibb(*ward.improve(*more, log=log, baseline=odd.name)).code == 0
    assert spibb(*ward.improve(*more, log=log, baseline=f"day={odd}")).code == 0
    inside = ward.folder / "out" / "policy.csv"
    message = refused(*ward.improve(*more, log=log, baseline=f"day={inside}"))
    assert "which is read, so it is not replaced" in message


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        ([], ["2 policies made the log: 'day', 'night'", "--improve-on day"]),
        (["--improve-on", "evening"], ["improve_on is 'evening'", "one of 'day', 'night'"]),
        (["--improve-on", "nigth"], ["write 'night'"]),
        (["--improve-on", "day", "--baseline", "dya=b.csv"], ["no such policy: b.csv"]),
        (["--improve-on", "day", "--baseline", "dya=baseline.csv"],
         ["a baseline is given for 'dya'", "'day', 'night'", "write 'day'"]),
        (["--improve-on", "day", "--baseline", "night=estimate"], ["baseline is not given"]),
        (["--improve-on", "day", "--baseline", "day=estimate", "--baseline", "day=estimate"],
         ["--baseline is given twice for day"]),
        (["--improve-on", "day", "--baseline", "day=estimate", "--baseline", "baseline.csv"],
         ["with and without a name"]),
    ],
)  # fmt: skip
def test_refused_names(ward, refused, options, fragments):
    log = with_columns(ward, "two.csv", policy=shift)
    message = refused(*ward.improve(*options, log=log))
    for fragment in fragments:
        assert fragment in message


def test_all_episodes_need_every_policy(ward, refused):
    log = with_columns(ward, "two.csv", policy=shift)
    usual = ("--improve-on", "day", "--gamma", 0.9, "--policy", ward.baseline, "--all-episodes")
    message = refused("evaluate", log, "--baseline", ward.baseline, *usual)
    assert "baseline of 'night' is not given" in message
    assert "--baseline night=FILE" in message


def test_a_name_without_the_column(ward, refused):
    message = refused(*ward.improve("--improve-on", "day"))
    assert "a log with the column 'policy'" in message


def test_propensities_of_every_action_by_a_query(tmp_path):
    rows = {"state": [0, 0, 1, 1], "action": ["a", "b", "a", "b"], "reward": [0.0, 1.0, 1.0, 0.0]}
    rows |= {"propensity_a": [0.25, 0.25, 0.5, 0.5], "propensity_b": [0.75, 0.75, 0.5, 0.5]}
    with closing(sqlite3.connect(tmp_path / "log.db")) as base:
        pd.DataFrame(rows).to_sql("log", base, index=False)
    log = read_log(tmp_path / "log.db", query="SELECT * FROM log")
    assert log.acted.propensities.tolist() == [[0.25, 0.75]] * 2 + [[0.5, 0.5]] * 2


def test_policies_are_named_as_actions_are_through_every_door(tmp_path):
    rows = {"state": [0, 0, 1, 1], "action": ["a", "b", "a", "b"], "reward": [0.0, 1.0, 1.0, 0.5]}
    frame = pd.DataFrame(rows | {"policy": [1.0, 1.0, 2.0, 2.0]})
    frame.to_csv(tmp_path / "log.csv", index=False)
    frame.to_parquet(tmp_path / "log.parquet", index=False)
    frame.to_json(tmp_path / "log.jsonl", orient="records", lines=True)
    for file in ("log.csv", "log.parquet", "log.jsonl"):
        assert read_log(tmp_path / file).acted.names == ("1", "2"), file
    assert read_log(frame).acted.names == ("1", "2")
    spaced = (tmp_path / "log.csv").read_text().replace("1.0\n", " day\n")
    (tmp_path / "spaced.csv").write_text(spaced)
    assert read_log(tmp_path / "spaced.csv").acted.names == ("2", "day")


def test_a_baseline_by_name_for_a_log_that_names_none(ward, refused, spibb):
    assert spibb("count", ward.log, "--out", "counts.npz").code == 0
    for log in (ward.log, "counts.npz"):
        told = refused(*ward.improve(log=log, baseline=f"day={ward.baseline}"))
        assert "is that of 'day', and the log names no policies" in told
        assert f"--baseline {ward.baseline}" in told
