"""``--features``: raw columns judge a policy in finer states, whoever made the table."""

import csv
import json
import re
import sqlite3
from datetime import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spibb
from spibb.errors import DataError, SettingsError
from spibb.studies.representations.registry import SIMULATORS
from spibb.studies.representations.simulator import simulate_log

QUEUE = SIMULATORS["queue"]
COLUMNS = "queue,recent,hour,weekday,outdoors"
PLAIN = ("--baseline", "estimate", "--gamma", "0.9")


def queue_log(name, folder, n_episodes=120):
    """Write a log of the queue in one of its representations, raw columns beside the state."""
    representation = next(one for one in QUEUE.representations if one.name == name)
    log, columns = simulate_log(QUEUE, representation, n_episodes, np.random.default_rng(0))
    path = folder / f"{name}.csv"
    ours = {
        "episode": log.episode, "step": log.step, "state": log.state,
        "action": [QUEUE.actions[a] for a in log.action], "reward": log.reward,
        "terminated": log.terminated, "truncated": log.truncated,
    }  # fmt: skip
    pd.DataFrame({**ours, **columns}).to_csv(path, index=False)
    return path


def ward_table(ward, **more):
    """The ward's log as a table with raw columns: a number with gaps, a category, and others."""
    frame = pd.read_csv(ward.log)
    rng = np.random.default_rng(5)
    n = len(frame)
    lactate = rng.normal(2.0, 1.0, n).round(3)  # as JSON of pandas keeps them
    lactate[::7] = np.nan
    frame["lactate"] = lactate
    frame["unit"] = np.where(rng.random(n) < 0.5, "icu", "ward b")
    for name, values in more.items():
        frame[name] = values(n) if callable(values) else values
    return frame


@pytest.fixture
def table(ward):
    path = ward.folder / "raw.csv"
    ward_table(ward).to_csv(path, index=False)
    return path


def improved(spibb, ward, log, *more, out="out"):
    """Improve the ward's policy on another file, and return what it wrote."""
    ran = spibb(*ward.improve("--features", "lactate,unit", *more, log=log, out=out))
    assert (ran.code, ran.err) == (0, ""), ran
    return json.loads((ward.folder / out / "summary.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def queues(tmp_path_factory):
    """Results of the command line: an adequate representation, and ones that hide the queue."""
    from typer.testing import CliRunner

    from spibb.cli.app import app

    folder = tmp_path_factory.mktemp("queues")
    found = {}
    asked = {
        "good": ("queue-recent", ["--features", COLUMNS]),
        "bad": ("hour", ["--features", COLUMNS]),
        "plain": ("hour", []),
    }
    for name, (representation, more) in asked.items():
        log = queue_log(representation, folder)
        words = ["improve", str(log), "--baseline", "estimate", "--gamma", "0.95", *more]
        ran = CliRunner().invoke(app, [*words, "--out", str(folder / name)])
        assert ran.exit_code == 0, ran.output
        summary = json.loads((folder / name / "summary.json").read_text("utf-8"))
        page = (folder / name / "report.html").read_text("utf-8")
        found[name] = (summary, page, " ".join(ran.output.split()), log)
    return found


# What comes of it.


def test_a_good_and_a_bad_representation_differ_in_verdict(queues):
    good, bad, plain = (queues[name][0] for name in ("good", "bad", "plain"))
    assert good["verdict"]["decision"] == "Deploy with monitoring"
    assert bad["verdict"]["decision"] == "Keep the baseline"
    assert plain["verdict"]["decision"] == "Pilot"
    assert good["representation"]["holds"]
    assert not bad["representation"]["holds"]


def test_the_summary_has_every_gain(queues):
    found = queues["good"][0]["representation"]
    assert found["columns"] == COLUMNS.split(",")
    assert "more than 50 % of the gain" in found["rule"]
    assert [one["name"] for one in found["refinements"]] == [
        "quantiles", "equal widths", "tree", "linear",
    ]  # fmt: skip
    assert found["n_states"] == 24
    for one in found["refinements"]:
        assert one["share"] == pytest.approx(one["gain"] / found["claim"])
        assert one["n_states"] >= found["n_states"]
        assert one["holds"]
        assert {"error", "margin_error", "label_loss", "unsupported"} <= one.keys()
    assert queues["good"][0]["representation_remark"] is None
    plain = queues["plain"][0]
    assert plain["representation"] is None
    assert "--features" in plain["representation_remark"]


def test_the_page_draws_the_gain_in_each_set_of_states(queues):
    summary, page, _, _ = queues["bad"]
    section = page[page.index('id="finer-section"') : page.index("Which cases change</h2>")]
    assert section.index("Does the gain survive in finer states?") > 0
    for name in ("states of the log", "quantiles", "equal widths", "tree", "linear"):
        assert f'<th scope="row">{name}</th>' in section
    assert section.count("<svg") == 6, "an axis, and a picture in each of five rows"
    assert section.count('class="half"') == section.count('class="span"') - 1
    assert "✗ no" in section
    assert "✓ yes" not in section
    assert summary["representation"]["rule"] in section.replace("\u00a0", " ")
    assert "dashed line" in section
    assert "would itself lose up to" in section


def test_the_page_of_a_plain_log_says_that_states_were_taken_as_given(queues):
    _, page, _, _ = queues["plain"]
    assert 'id="finer-section"' not in page
    said = page[page.index('id="states"') :].split("</p>")[0]
    assert "The states were taken as given: to have them checked, name raw columns" in said
    assert "(memory, persistent rewards) found something: " in said
    assert 'id="states"' not in queues["good"][1]


def test_answers_are_conditional_where_the_states_are_in_doubt(queues):
    for name in ("bad", "plain"):
        summary, page, terminal, _ = queues[name]
        answers = {one["name"]: one for one in summary["answers"]}
        assert answers["harm"]["figure"] == "Unknown"
        assert answers["harm"]["text"].startswith("since the log contradicts that the recorded")
        assert re.search(
            r"if it were, \d+ of 100 simulated scenarios would lose", answers["harm"]["text"]
        )
        assert "only if the recorded state is all that matters" in answers["gain"]["text"]
        assert "Unknown since the log contradicts" in terminal
        assert "The picture assumes that the recorded state is all that matters" in page
        assert summary["verdict"]["doubt"].startswith("the log contradicts")
    bad = {one["name"]: one for one in queues["bad"][0]["answers"]}
    assert "The least gain in finer states is -" in bad["gain"]["text"]
    good = queues["good"][0]
    assert good["verdict"]["doubt"] is None
    assert "simulated scenarios lose" in good["answers"][2]["text"]


def test_a_pilot_says_how_to_run_it(queues):
    summary, page, terminal, _ = queues["plain"]
    steps = summary["pilot"]["steps"]
    assert len(steps) == 5
    n, gain = summary["pilot"]["episodes_per_group"], summary["pilot"]["detected_gain"]
    low, mean, high = (summary["log_return"][name] for name in ("low", "mean", "high"))
    assert low < mean < high
    deviation = (high - low) / 2 / 1.98 * summary["n_episodes"] ** 0.5
    assert n == pytest.approx(2 * (2.4865 * deviation / gain) ** 2, rel=0.06) or n == 30
    assert f"About {n:,} episodes in each group" in steps[2]
    assert 'class="verdict pilot"' in page
    assert "How to run a pilot" in page
    assert "How to run a pilot" in terminal
    assert "compute for new episodes" not in page
    assert "Nothing but in a pilot" in page
    for name in ("good", "bad"):
        assert queues[name][0]["pilot"] is None
        assert "How to run a pilot" not in queues[name][1]


def test_the_terminal_has_the_table_in_eighty_columns(queues, spibb, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    terminal = queues["bad"][2]
    assert "Does the gain survive in finer states?" in terminal
    assert "dashed" not in terminal, "there is no line in a terminal"
    assert re.search(r"equal widths │ \d+ │ -\S+ │ \S+ │ -\d+ % │ \S+ % │ no", terminal)
    assert "Does the gain survive" not in queues["plain"][2]


# Commands.


def test_inspect_names_columns_and_their_shares(queues, spibb):
    log = queues["bad"][3]
    ran = spibb("inspect", log, "--features", COLUMNS)
    assert (ran.code, ran.err) == (0, "")
    assert "columns-of-outcomes" in ran.out
    table = ran.out[ran.out.index("of what it explains") :]
    assert re.search(r"\d+(\.\d)? %", table.splitlines()[2])
    found = json.loads(spibb("inspect", log, "--features", COLUMNS, "--format", "json").out)
    tests = {one["check"]: one for one in found["tests"]}
    assert tests["columns-of-actions"]["p_value"] is not None
    without = json.loads(spibb("inspect", log, "--format", "json").out)
    tests = {one["check"]: one for one in without["tests"]}
    assert tests["columns-of-actions"]["p_value"] is None


def test_audit_and_evaluate_agree_with_improve(queues, spibb):
    summary, _, _, log = queues["bad"]
    policy = log.parent / "bad" / "policy.csv"
    given = (log, "--baseline", "estimate", "--gamma", "0.95", "--policy", policy)
    for command in ("audit", "evaluate"):
        found = json.loads(spibb(command, *given, "--features", COLUMNS, "--format", "json").out)
        for one, other in zip(
            found["representation"]["refinements"], summary["representation"]["refinements"],
            strict=True,
        ):  # fmt: skip
            assert one["gain"] == pytest.approx(other["gain"], rel=1e-6)
            assert one["holds"] == other["holds"]
        told = spibb(command, *given, "--features", COLUMNS).out
        assert "Does the gain survive in finer states?" in told
        assert "Does the gain survive" not in spibb(command, *given).out
    assert "representation" not in json.loads(spibb("audit", *given, "--format", "json").out)
    assert spibb("evaluate", *given, "--features", COLUMNS, "--out", log.parent / "ev").code == 0
    assert 'id="finer"' in (log.parent / "ev" / "report.html").read_text("utf-8")


def test_a_comparison_has_a_line_for_each_algorithm(table, ward, spibb):
    ran = spibb(*ward.improve("--features", "lactate,unit", "--compare", "basic-rl,pi-b-spibb",
                              log=table))  # fmt: skip
    assert (ran.code, ran.err) == (0, "")
    said = " ".join(ran.out.split())
    found = json.loads((ward.folder / "out" / "comparison.json").read_text("utf-8"))
    page = (ward.folder / "out" / "report.html").read_text("utf-8")
    for name, one in zip(("basic-rl", "pi-b-spibb"), found["settings"], strict=True):
        assert f"{name}: gain +" in said
        assert f"<li>{name}: gain +" in page
        assert len(one["representation"]["refinements"]) == 4
        assert 'id="finer"' in (ward.folder / "out" / name / "report.html").read_text("utf-8")
    assert "least gain in finer states" in said


# Doors.


def test_it_comes_through_every_door(ward, table, spibb):
    first = improved(spibb, ward, table)["representation"]
    assert first["columns"] == ["lactate", "unit"]
    frame = pd.read_csv(table)
    pq.write_table(pa.Table.from_pandas(frame), ward.folder / "raw.parquet")
    frame.to_json(ward.folder / "raw.jsonl", orient="records", lines=True)
    (ward.folder / "parts").mkdir()
    frame[frame["episode"] < 40].to_csv(ward.folder / "parts/a.csv", index=False)
    frame[frame["episode"] >= 40].to_csv(ward.folder / "parts/b.csv", index=False)
    with sqlite3.connect(ward.folder / "raw.db") as base:
        frame.to_sql("visits", base, index=False)
    doors = [("raw.parquet",), ("raw.jsonl",), ("parts",),
             ("raw.db", "--query", "SELECT * FROM visits")]  # fmt: skip
    for place, (name, *more) in enumerate(doors):
        found = improved(spibb, ward, ward.folder / name, *more, out=f"out{place}")
        assert found["representation"] == first, name


def test_data_frames_take_features_as_well(ward, table):
    frame = pd.read_csv(table)
    rule = spibb.TabularPolicy.read(ward.baseline)
    known = {"baseline": rule, "gamma": 0.9}
    result = spibb.ApproxSoftSPIBB().improve(frame, features=["lactate", "unit"], **known)
    by_frame = spibb.Assessment.of(result).representation
    by_file = spibb.Assessment.of(
        spibb.ApproxSoftSPIBB().improve(
            spibb.read_log(table, features=["lactate", "unit"]), **known
        )
    ).representation
    assert by_frame == by_file
    problem = spibb.Problem.of(frame, features=["lactate"], **known)
    assert problem.log.features.names == ("lactate",)
    assert spibb.read_log(frame, features=["unit"]).features.categories == (("icu", "ward b"),)
    log = spibb.Log.from_dataframe(frame, features=["lactate"])
    assert np.isnan(log.features.values[::7]).all()
    found = spibb.evaluate_policy(frame, policy=result.policy, features=["lactate"], **known)
    assert found.representation.columns == ("lactate",)


def test_features_do_not_change_the_policy(ward, table, spibb):
    improved(spibb, ward, table, out="with")
    spibb(*ward.improve(log=table, out="without"))
    one, other = ((ward.folder / name / "policy.csv").read_bytes() for name in ("with", "without"))
    assert one == other


# Wrong inputs.


@pytest.mark.parametrize(
    ("features", "said"),
    [
        ("lactat", ["there is no column 'lactat'", "write --features lactate"]),
        ("reward", ["feature reward is a column of the log itself", "its own outcome"]),
        ("next_state", ["feature next_state is a column of the log itself"]),
        ("state", ["feature state is a column of the log itself"]),
        ("action", ["feature action is a column of the log itself"]),
        ("terminated", ["feature terminated is a column of the log itself"]),
        ("episode", ["feature episode is a column of the log itself"]),
        ("lactate,step", ["feature step is a column of the log itself"]),
        ("lactate,unit,lactate", ["feature lactate is named twice"]),
        ("lactate,,unit", ["empty name", "lactate,map,age"]),
        ("", ["empty name"]),
        (" , ", ["empty name"]),
        ("day", ["feature day", "holds dates", "the hour"]),
        ("note", ["feature note has 250 different texts", "at most 200 categories"]),
        ("typo", ["feature typo holds numbers, and 'n/a'", "leave the cell empty"]),
        ("huge", ["feature huge is infinite", "row 3"]),
        ("blank", ["feature blank has no value in any row", "leave this column out"]),
    ],
)
@pytest.mark.parametrize("command", ["improve", "inspect"])
def test_columns_that_cannot_judge_are_refused(ward, refused, features, said, command):
    def few(make):
        return lambda n: [make(k % 250) for k in range(n)]

    frame = ward_table(
        ward,
        day=few(lambda k: f"2024-01-{1 + k % 28:02d}"),
        note=few(lambda k: f"patient {k}"),
        typo=few(lambda k: "n/a" if k == 9 else k / 8),
        huge=few(lambda k: "inf" if k == 2 else k),
        blank=few(lambda k: ""),
    )
    path = ward.folder / "raw.csv"
    frame.to_csv(path, index=False)
    words = ward.improve(log=path) if command == "improve" else ["inspect", path]
    message = refused(*words, "--features", features)
    for part in said:
        assert part in message


def test_columns_are_refused_under_their_own_names(ward, refused, spibb):
    frame = ward_table(ward).rename(columns={"reward": "score", "state": "bucket"})
    path = ward.folder / "raw.csv"
    frame.to_csv(path, index=False)
    renamed = ("--columns", "reward=score,state=bucket")
    for name in ("score", "bucket"):
        message = refused(*ward.improve(*renamed, "--features", name, log=path))
        assert f"feature {name} is a column of the log itself" in message
    frame["state"] = ["a", "b"] * (len(frame) // 2) + ["a"] * (len(frame) % 2)
    frame.to_csv(path, index=False)
    words = ward.improve(*renamed, "--features", "state", log=path)
    assert spibb(*words).code == 0, "another column may have the name"


def test_costs_and_propensities_are_refused(ward, refused):
    frame = ward_table(ward, toxicity=1.0, propensity=0.5)
    path = ward.folder / "raw.csv"
    frame.to_csv(path, index=False)
    for more in (("--features", "propensity"), ("--features", "toxicity", "--cost", "toxicity")):
        message = refused(*ward.improve(*more, log=path))
        assert f"feature {more[1]} is a column of the log itself" in message


def test_parquet_with_dates_is_refused(ward, refused):
    frame = ward_table(ward)
    frame["day"] = pd.Timestamp("2024-01-01")
    path = ward.folder / "raw.parquet"
    pq.write_table(pa.Table.from_pandas(frame), path)
    assert "holds dates" in refused(*ward.improve("--features", "day", log=path))


def test_counts_and_logs_without_episodes_are_refused(ward, spibb, refused, table):
    counts = ward.folder / "counts.npz"
    assert spibb("count", table, "--out", counts).code == 0
    message = refused(*ward.improve("--features", "lactate", log=counts))
    assert "--features lactate with counts" in message
    frame = pd.read_csv(table).drop(columns=["episode", "step"])
    path = ward.folder / "loose.csv"
    frame.to_csv(path, index=False)
    for words in (ward.improve(log=path), ["inspect", path]):
        message = refused(*words, "--features", "lactate")
        assert "has no column 'episode'" in message
        assert "--columns episode=COLUMN" in message


def test_minari_is_refused(ward, refused):
    message = refused(*ward.improve("--features", "x", log="minari:toy/lake-v0"))
    assert "features" in message


def test_python_refuses_features_of_what_has_its_own(ward, table):
    rule = spibb.TabularPolicy.read(ward.baseline)
    log = spibb.read_log(table)
    for data in (log, spibb.Counts.from_log(log)):
        for call in (spibb.Problem.of, spibb.ApproxSoftSPIBB().improve):
            with pytest.raises(SettingsError, match=r"give features to read_log, or Log\.with_fea"):
                call(data, baseline=rule, gamma=0.9, features=["lactate"])
        with pytest.raises(SettingsError, match="give features to read_log"):
            spibb.evaluate_policy(data, policy=rule, baseline=rule, gamma=0.9, features=["lactate"])
    with pytest.raises(DataError, match=r"write features=\['lactate'\]"):
        spibb.read_log(table, features="lactate")
    with pytest.raises(DataError, match="features name 7"):
        spibb.read_log(table, features=[7])
    assert spibb.Problem.of(log, baseline=rule, gamma=0.9, features=[]).log.features is None


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.array(["2024-01-01"] * 2, dtype="datetime64[D]"), "holds dates"),
        ([datetime(2024, 1, 1), None], "holds dates"),
        ([np.inf, 1.0], "is infinite"),
        ([None, None], "has no value in any row"),
        ([np.nan, np.nan], "has no value in any row"),
        ([1.0], "have 1 rows"),
        ([[1.0], [2.0]], r"has shape \(2, 1\)"),
    ],
)
def test_arrays_that_cannot_judge_are_refused(values, said):
    log = spibb.Log.from_arrays(state=[0, 0], action=[0, 1], reward=[0.0, 1.0], episode=[0, 1])
    with pytest.raises(DataError, match=said):
        log.with_features({"x": values})


def test_where_nothing_can_be_checked_it_is_said(ward, table, spibb):
    ran = spibb(*ward.improve("--features", "lactate", "--epsilon", "0", log=table))
    assert ran.code == 0
    found = json.loads((ward.folder / "out" / "summary.json").read_text("utf-8"))
    assert found["representation"] is None
    assert found["representation_remark"] == "the policy is the baseline"
    assert "No gain in finer states: the policy is the baseline." in " ".join(ran.out.split())
    page = (ward.folder / "out" / "report.html").read_text("utf-8")
    assert "The gain was not checked in finer states: the policy is the baseline" in page


def test_csv_of_an_evaluation_stays_a_table(ward, table, spibb):
    policy = ward.write("policy.csv", "state,action,probability\nfever,drug,1\ncalm,drug,1\n")
    ran = spibb("evaluate", table, "--baseline", ward.baseline, "--policy", policy,
                "--gamma", "0.9", "--features", "lactate", "--format", "csv")  # fmt: skip
    rows = list(csv.reader(ran.out.splitlines()))
    assert len({len(row) for row in rows}) == 1
