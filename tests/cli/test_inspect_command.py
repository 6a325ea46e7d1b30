"""``spibb inspect``, and the commands that know what it knows."""

import csv
import io
import json

import numpy as np
import pytest

UNIFORM = "state,action,probability\n" + "".join(
    f"{state},{action},{p}\n"
    for state in ("fever", "calm")
    for action, p in (("drug", 0.9), ("rest", 0.1))
)


def test_a_sound_log(ward, spibb):
    ran = spibb("inspect", ward.log, "--baseline", ward.baseline, "--reward-range", -2, 5)
    assert ran.code == 0, ran
    assert "Nothing was found" in ran.out
    assert "80 episodes" in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80
    alone = spibb("inspect", ward.log)
    assert alone.code == 0
    assert "not run" in alone.out, "without a baseline there is nothing to hold to it"


def test_json_csv_and_pictures(ward, spibb):
    wrong = ward.write("wrong.csv", UNIFORM)
    for name, start in (("look.svg", b"<svg"), ("look.png", b"\x89PNG")):
        picture = ward.folder / name
        ran = spibb("inspect", ward.log, "--baseline", wrong, "--format", "json", "--picture",
                    picture)  # fmt: skip
        assert ran.code == 1, "the other commands refuse this baseline"
        assert picture.read_bytes().startswith(start)
        again = spibb("inspect", ward.log, "--picture", picture)
        assert again.code == 2
        assert "exists already" in again.err
        assert spibb("inspect", ward.log, "--picture", picture, "--overwrite").code == 0
    found = json.loads(ran.out)
    assert found["is_refused"]
    assert found["findings"][0]["check"] == "baseline"
    assert found["findings"][0]["places"]
    rows = list(csv.reader(io.StringIO(spibb("inspect", ward.log, "--baseline", wrong, "--format",
                                             "csv").out)))  # fmt: skip
    assert rows[0][:2] == ["check", "severity"]
    assert rows[1][:2] == ["baseline", "refused"]


def test_a_wrong_baseline_is_refused_and_accepted_by_name(ward, spibb, refused):
    wrong = ward.write("wrong.csv", UNIFORM)
    told = refused(*ward.improve(baseline=wrong))
    assert "does not make the actions" in told
    assert "--accept-baseline" in told
    judged = ["--policy", ward.baseline, "--gamma", 0.9]
    assert "--accept-baseline" in refused("audit", ward.log, "--baseline", wrong, *judged)
    assert "--accept-baseline" in refused("evaluate", ward.log, "--baseline", wrong, *judged)
    for command in (
        ward.improve(baseline=wrong),
        ["audit", ward.log, "--baseline", wrong, *judged],
        ["evaluate", ward.log, "--baseline", wrong, *judged],
    ):
        ran = spibb(*command, "--accept-baseline")
        assert ran.code == 0, ran
    summary = json.loads((ward.folder / "out/summary.json").read_text("utf-8"))
    assert summary["inspection"]["is_refused"]


def test_results_show_how_the_log_looks(ward, spibb):
    rows = ward.text.splitlines()
    gaps = "\n".join([rows[0], *(row for row in rows[1:] if not row.startswith("3,1,"))]) + "\n"
    log = ward.write("gaps.csv", gaps)
    ran = spibb(*ward.improve(log=log))
    assert ran.code == 0, ran
    assert "steps of an episode are missing" in " ".join(ran.out.split())
    page = (ward.folder / "out/report.html").read_text("utf-8")
    assert "How the log looks" in page
    assert "steps of an episode are missing" in page
    assert page.count("<svg") == 2


def test_the_log_travels_with_the_policy(ward, spibb):
    assert spibb(*ward.improve()).code == 0
    policy = ward.folder / "out/policy.parquet"
    asked = ["evaluate", ward.log, "--baseline", ward.baseline, "--policy", policy, "--gamma", 0.9]
    found = json.loads(spibb(*asked, "--format", "json").out)
    assert found["origin"] == "same"
    assert all(part["interval"] == ["-inf", "inf"] for part in found["estimates"])
    shown = json.loads(spibb(*asked, "--same-log", "--format", "json").out)
    assert any(part["interval"] != ["-inf", "inf"] for part in shown["estimates"])
    table = " ".join(spibb(*asked).out.split())
    begun = " ".join(
        [*found["objective"]["sentences"], "Withheld, because this log made the policy"]
    )
    assert table.startswith(begun)
    assert "--same-log" in table
    assert "-inf" not in table
    audited = " ".join(spibb(*ward.audit(policy)).out.split())
    assert "made of this very log" in audited
    plain = " ".join(spibb(*ward.audit(ward.folder / "out/policy.csv")).out.split())
    assert "Cannot tell" in plain
    # The same rows in another order, by other names of episodes, are the same log.
    head, *rows = ward.text.splitlines()
    mixed = [f"stay-{row}" for row in np.random.default_rng(0).permutation(rows)]
    other = ward.write("mixed.csv", "\n".join([head, *mixed]) + "\n")
    again = spibb("evaluate", other, *asked[2:], "--format", "json")
    assert json.loads(again.out)["origin"] == "same"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--picture", "look.gif"], "cannot tell the kind of the picture look.gif"),
        (["--baseline", "nowhere.csv"], "no such policy: nowhere.csv"),
        (["--reward-range", "1", "0"], "reward_range is (1.0, 0.0)"),
        (["--columns", "state=ward"], "in column 'ward'"),
        (["--picture", "nowhere/look.svg"], "nowhere"),
    ],
)
def test_bad_input(ward, refused, arguments, told):
    assert told in refused("inspect", ward.log, *arguments)


def test_a_file_in_a_folder_twice(ward, refused):
    ward.write("logs/1.csv", ward.text)
    ward.write("logs/2.csv", ward.text)
    assert "hold the same bytes" in refused("inspect", ward.folder / "logs")
    ward.write("logs/2.csv", ward.text + "\n")  # another file of the same rows
    assert "a file may have been read twice" in refused("inspect", ward.folder / "logs")
