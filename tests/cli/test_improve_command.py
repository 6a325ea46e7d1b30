"""``spibb improve`` when all goes well: the folder it writes and what it prints."""

import csv
import io
import json
from hashlib import sha256

import numpy as np
import pyarrow.parquet as pq
import pytest
from markupsafe import escape

from spibb.algorithms.registry import ALGORITHMS
from spibb.data.readers import read_log
from spibb.mdp.policy import TabularPolicy

FILES = ["certificate.json", "policy.csv", "policy.parquet", "report.html", "summary.json"]


def strict_json(text):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def content(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def content_but_command(folder):
    """Return what files hold, the command apart that names the file of the log."""
    found = content(folder)
    summary = strict_json(found["summary.json"].decode())
    command = summary.pop("command")
    page = found["report.html"].decode().replace(str(escape(command)), "")
    return found | {"summary.json": summary, "report.html": page}


@pytest.mark.parametrize(
    ("given", "algorithm", "setting"),
    [
        ([], "auto-spibb", ("caution", 1.25)),
        (["--caution", 1], "auto-spibb", ("caution", 1)),
        (["--epsilon", 0.2], "approx-soft-spibb", ("epsilon", 0.2)),
        (["--delta", 0.1], "approx-soft-spibb", ("delta", 0.1)),
    ],
)
def test_the_log_chooses_where_neither_algorithm_nor_setting_is_given(
    ward, spibb, given, algorithm, setting
):
    ran = spibb("improve", ward.log, "--baseline", ward.baseline, "--gamma", 0.9, "--out", "out",
                *given)  # fmt: skip
    assert ran.code == 0
    summary = strict_json((ward.folder / "out" / "summary.json").read_text("utf-8"))
    assert summary["algorithm"]["algorithm"] == algorithm
    assert summary["algorithm"][setting[0]] == setting[1]
    assert (summary["choice"] is not None) == (algorithm == "auto-spibb")


def test_large_models_are_left_to_another_and_the_command_says_so(tmp_path, spibb):
    table = ["state,action,reward,next_state,terminated", "0,0,1,0,true"]
    rule = ["state,action,probability", *(f"{x},0,1" for x in range(2_001))]
    for name, lines in (("log.csv", table), ("rule.csv", rule)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", "utf-8")
    asked = ["improve", tmp_path / "log.csv", "--baseline", tmp_path / "rule.csv", "--gamma", 0.9,
             "--format", "json", "--out"]  # fmt: skip
    ran = spibb(*asked, tmp_path / "out")
    assert ran.code == 0
    assert "there are 2,001, so approx-soft-spibb is run" in ran.err
    assert strict_json(ran.out)["algorithm"]["algorithm"] == "approx-soft-spibb"
    # Who names it, or its setting, is told why not.
    for more in (["--algorithm", "auto-spibb"], ["--caution", 2]):
        refused = spibb(*asked, tmp_path / "none", *more)
        assert refused.code != 0
        assert "at most 2,000" in refused.err


@pytest.mark.parametrize(
    ("given", "algorithm"),
    [
        (["--min-gain", 0.1], "approx-soft-spibb"),
        (["--forbid", "drug"], "auto-spibb"),
        (["--unseen", "uniform"], "auto-spibb"),
    ],
)
def test_what_leaves_no_choice_is_for_another(ward, spibb, given, algorithm):
    ran = spibb("improve", ward.log, "--baseline", ward.baseline, "--gamma", 0.9, "--out", "out",
                "--format", "json", *given)  # fmt: skip
    assert ran.code == 0, ran.err
    assert strict_json(ran.out)["algorithm"]["algorithm"] == algorithm


def test_caution_goes_with_no_budget(ward, spibb):
    asked = ["improve", ward.log, "--baseline", ward.baseline, "--gamma", 0.9, "--out", "out"]
    for more in (["--epsilon", 0.5], ["--min-gain", 0.1]):
        ran = spibb(*asked, "--caution", 2, *more)
        assert ran.code != 0
        assert "--caution is for auto-spibb, which chooses all else" in " ".join(ran.err.split())
    ran = spibb(*asked, "--n-wedge", 5)
    assert "choose another algorithm with --algorithm" in " ".join(ran.err.split())


def test_the_result_folder(ward, spibb):
    ran = spibb(*ward.improve())
    assert (ran.code, ran.err) == (0, "")
    out = ward.folder / "out"
    assert sorted(path.name for path in out.iterdir()) == FILES
    assert sorted(path.name for path in ward.folder.iterdir()) == ["baseline.csv", "log.csv", "out"]
    summary = strict_json((out / "summary.json").read_text("utf-8"))
    certificate = strict_json((out / "certificate.json").read_text("utf-8"))
    log = read_log(ward.log)
    assert summary["format"] == "spibb-summary"
    assert summary["algorithm"]["algorithm"] == "approx-soft-spibb"
    assert summary["n_rows"] == len(log)
    assert summary["n_episodes"] == 80
    assert summary["n_states"] == 3
    assert summary["estimated_gain"] > 0
    assert summary["is_baseline_estimated"] is False
    assert certificate["format"] == "spibb-certificate"
    assert certificate["statement"] == summary["statement"]
    assert certificate["bound"] == summary["bound"]
    assert certificate["guarantee"]["theorem"] == "Regret test"
    assert certificate["guarantee"]["is_vacuous"] is summary["is_vacuous"] is False
    assert certificate["version"] == summary["version"] == 3
    assert certificate["bound"] < 0
    assert [one["theorem"] for one in summary["other_guarantees"]] == ["Theorem 1 (Soft-SPIBB)"]
    earned = summary["log_return"]
    assert earned["n_episodes"] == 80
    assert earned["low"] < earned["mean"] < earned["high"]
    assert f"The baseline earned {earned['mean']:.4g} an episode in the log" in ran.out
    begun = " ".join([*summary["objective"]["sentences"], summary["verdict"]["sentence"]])
    assert " ".join(ran.out.split()).startswith(begun)
    assert summary["command"].endswith("--gamma 0.9 --algorithm approx-soft-spibb --out DIR")
    assert summary["hashes"]["policy.csv"] == sha256((out / "policy.csv").read_bytes()).hexdigest()
    assert [row["state"] for row in summary["changes"]] == ["fever", "calm"]
    assert 0 <= summary["visits"]["policy"]["unobserved"] <= 1


def test_the_policy_reads_back_with_its_labels(ward, spibb):
    spibb(*ward.improve())
    policies = [
        TabularPolicy.read(ward.folder / "out" / f"policy.{end}") for end in ("csv", "parquet")
    ]
    for policy in policies:
        assert policy.state_labels == ("calm", "fever"), "nothing is decided at home"
        assert policy.action_labels == ("drug", "rest")
        np.testing.assert_allclose(policy.probabilities.sum(axis=1), 1.0)
        assert policy.probabilities[1, 0] > 0.4
    np.testing.assert_array_equal(policies[0].probabilities, policies[1].probabilities)


def test_the_parquet_file_knows_how_it_was_made(ward, spibb):
    spibb(*ward.improve("--epsilon", "0.25"))
    facts = json.loads(pq.read_schema(ward.folder / "out" / "policy.parquet").metadata[b"spibb"])
    assert facts["format"] == "spibb-policy"
    assert facts["algorithm"]["epsilon"] == 0.25


def test_integers_come_back_as_integers(ward, spibb):
    """The baseline leaves out the terminal state 1, in the middle."""
    log = ward.write("n.csv", "episode,state,action,reward,next_state\n0,0,1,1,2\n0,2,0,2,1\n")
    policy = "state,action,probability\n0,0,0.5\n0,1,0.5\n2,0,0.5\n2,1,0.5\n"
    assert spibb(*ward.improve(log=log, baseline=ward.write("b.csv", policy))).code == 0
    table = pq.read_table(ward.folder / "out" / "policy.parquet")
    assert table["state"].to_pylist() == [0, 0, 2, 2]
    assert table["action"].to_pylist() == [0, 1] * 2
    files = (log, "--baseline", ward.folder / "b.csv", "--policy", ward.folder / "out/policy.csv")
    assert spibb("audit", *files, "--gamma", "0.9").code == 0


def test_two_runs_are_the_same_bytes(ward, spibb):
    assert spibb(*ward.improve(out="one")).code == 0
    assert spibb(*ward.improve(out="two")).code == 0
    assert content(ward.folder / "one") == content(ward.folder / "two")


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_every_algorithm_runs(ward, spibb, algorithm):
    ran = spibb(*ward.improve("--algorithm", algorithm, "--format", "json"))
    assert (ran.code, ran.err) == (0, "")
    summary = strict_json(ran.out)
    assert summary["algorithm"]["algorithm"] == algorithm
    out = ward.folder / "out"
    assert summary == strict_json((out / "summary.json").read_text("utf-8"))
    assert sorted(path.name for path in out.iterdir()) == FILES
    strict_json((out / "certificate.json").read_text("utf-8"))


@pytest.mark.parametrize(
    "more",
    [
        ("--epsilon", "inf"),
        ("--algorithm", "pi-b-spibb", "--n-wedge", "inf"),
        ("--delta", "1"),
        ("--epsilon", "0"),
        ("--max-iterations", "1"),
        ("--error", "hoeffding-p"),
        ("--error", "hoeffding-returns"),
        ("--error", "empirical-bernstein"),
        ("--reward-range", "-10", "10"),
    ],
)
def test_corner_settings_give_strict_json(ward, spibb, more):
    ran = spibb(*ward.improve(*more, "--format", "json"))
    assert (ran.code, ran.err) == (0, "")
    strict_json(ran.out)
    strict_json((ward.folder / "out" / "certificate.json").read_text("utf-8"))


@pytest.mark.parametrize("gamma", [0, 1])
def test_corner_discounts(ward, spibb, gamma):
    ran = spibb(*ward.improve("--format", "json", gamma=gamma))
    assert (ran.code, ran.err) == (0, "")
    assert strict_json(ran.out)["gamma"] == gamma


def test_no_budget_means_no_change(ward, spibb):
    ran = spibb(*ward.improve("--epsilon", "0"))
    assert "The policy is the baseline: nothing changes." in ran.out
    policy = TabularPolicy.read(ward.folder / "out" / "policy.csv")
    np.testing.assert_array_equal(policy.probabilities[:2], [[0.4, 0.6], [0.4, 0.6]])
    assert "Nowhere: the policy is the baseline." in (ward.folder / "out/report.html").read_text(
        "utf-8"
    )


def test_csv_format(ward, spibb):
    ran = spibb(*ward.improve("--format", "csv"))
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert {row["state"] for row in rows} == {"fever", "calm"}
    assert all(float(row["moved"]) > 0 for row in rows)
    assert {row["more"] for row in rows} <= {"drug", "rest"}


def test_the_baseline_may_be_estimated_and_it_is_said(ward, spibb):
    ran = spibb(*ward.improve(baseline="estimate"))
    assert ran.code == 0
    assert "The baseline was estimated from the log." in ran.out
    said = " ".join(ran.out.split())
    assert "the estimate of the baseline may miss is a sum over all of them: fails" in said
    out = ward.folder / "out"
    assert strict_json((out / "summary.json").read_text("utf-8"))["is_baseline_estimated"] is True
    certificate = strict_json((out / "certificate.json").read_text("utf-8"))
    assert certificate["guarantee"]["theorem"] == "Regret test, estimated baseline"
    told = spibb(*ward.improve("--states-complete", baseline="estimate", out="told"))
    assert "Regret test, estimated baseline applies, but says nothing useful" in " ".join(
        told.out.split()
    )
    assert "The baseline was estimated from the log." in (out / "report.html").read_text("utf-8")


def test_rows_that_are_left_out_are_said(ward, spibb):
    head, *rows = ward.text.splitlines()
    cut = "\n".join([head, *rows, "900,0,fever,drug,1,,False", "901,0,fever,drug,1,,False"])
    ran = spibb(*ward.improve(log=ward.write("cut.csv", cut + "\n")))
    assert "2 rows left out: their next state is unknown." in ran.out
    assert "says nothing of what came next" in " ".join(ran.out.split())
    assert "2 rows were left out" in (ward.folder / "out" / "report.html").read_text("utf-8")


EVEN_START = "performance takes every state seen as an equally likely start"


def test_a_start_that_the_log_does_not_tell_is_said(ward, spibb):
    loose = "".join(line.split(",", 1)[1] for line in ward.text.splitlines(keepends=True))
    ran = spibb(*ward.improve(log=ward.write("loose.csv", loose)))
    assert EVEN_START in " ".join(ran.out.split())
    assert EVEN_START in (ward.folder / "out" / "report.html").read_text("utf-8")
    ran = spibb(*ward.improve(out="told"))
    assert EVEN_START not in " ".join(ran.out.split())
    assert EVEN_START not in (ward.folder / "told" / "report.html").read_text("utf-8")


def test_a_start_that_the_log_does_not_tell_is_said_in_a_comparison(ward, spibb):
    loose = "".join(line.split(",", 1)[1] for line in ward.text.splitlines(keepends=True))
    more = ("--compare", "basic-rl,pi-b-spibb")
    ran = spibb(*ward.improve(*more, log=ward.write("loose.csv", loose)))
    assert EVEN_START in " ".join(ran.out.split())
    assert EVEN_START not in " ".join(spibb(*ward.improve(*more, out="told")).out.split())


def test_renamed_columns(ward, spibb):
    log = ward.write("renamed.csv", ward.text.replace("state,action", "ward,what", 1))
    ran = spibb(*ward.improve("--columns", "state = ward, action=what,", log=log, out="renamed"))
    assert ran.code == 0
    spibb(*ward.improve())
    both = (content_but_command(ward.folder / name) for name in ("renamed", "out"))
    assert next(both) == next(both)


def test_a_folder_of_files_is_one_log(ward, spibb):
    head, *rows = ward.text.splitlines(keepends=True)
    ward.write("parts/a.csv", head + "".join(rows[:100]))
    ward.write("parts/b.csv", head + "".join(rows[100:]))
    assert spibb(*ward.improve(log="parts", out="parted")).code == 0
    assert spibb(*ward.improve(log="parts/*.csv", out="globbed")).code == 0
    spibb(*ward.improve())
    whole = content_but_command(ward.folder / "out")
    assert content_but_command(ward.folder / "parted") == whole
    assert content_but_command(ward.folder / "globbed") == whole


ODD_NAMES = [
    "[/red]", "[bold]", ":heart:", "$x$ and $\\frac$", "007", "True", "x" * 300, "\x1b[31mred",
    "\u4e2d\u6587 \U0001f912", "\u202eleft", 'a, "quoted"\nname', "</svg><img src=x>",
    "--><script>alert(1)</script>",
]  # fmt: skip


@pytest.mark.parametrize("label", ODD_NAMES)
def test_any_name_goes_through(ward, spibb, label):
    def renamed(text):
        quoted = '"' + label.replace('"', '""') + '"'
        return text.replace("fever", quoted).replace("drug", quoted)

    log = ward.write("odd.csv", renamed(ward.text))
    baseline = ward.write("odd-baseline.csv", renamed(ward.baseline.read_text("utf-8")))
    ran = spibb(*ward.improve(log=log, baseline=baseline))
    assert (ran.code, ran.err) == (0, "")
    assert "\x1b" not in ran.out
    assert label in ran.out or not label.isprintable() or len(label) > 25
    policy_file = ward.folder / "out" / "policy.csv"
    for path in (policy_file, policy_file.with_suffix(".parquet")):
        policy = TabularPolicy.read(path)
        assert label in policy.state_labels
        assert label in policy.action_labels
    page = (ward.folder / "out" / "report.html").read_text("utf-8")
    assert page.count("<script") == 2, "the page's own, and its data"
    assert "<img" not in page
    files = (log, "--baseline", baseline, "--policy", policy_file)
    assert spibb("audit", *files, "--gamma", "0.9").code == 0


def test_names_of_digits_keep_their_zeros(ward, spibb):
    def renamed(text):
        for name, digits in (("fever", "01"), ("calm", "02"), ("home", "003")):
            text = text.replace(name, digits)
        return text

    log = ward.write("digits.csv", renamed(ward.text))
    baseline = ward.write("digits-baseline.csv", renamed(ward.baseline.read_text("utf-8")))
    assert spibb(*ward.improve(log=log, baseline=baseline)).code == 0
    for name in ("policy.csv", "policy.parquet"):
        policy = TabularPolicy.read(ward.folder / "out" / name)
        assert set(policy.state_labels) == {"01", "02"}


def test_names_stay_whole_at_eighty_columns(ward, spibb, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    ran = spibb(*ward.improve())
    lines = ran.out.splitlines()
    assert max(len(line) for line in lines if str(ward.folder) not in line) <= 80
    place = next(line for line in lines if line.startswith("Written to"))
    assert place == f"Written to {ward.folder / 'out'}; open {ward.folder / 'out' / 'report.html'}"
    assert any("fever" in line and "drug +" in line and "rest -" in line for line in lines)


def test_overwrite_replaces_an_earlier_result(ward, spibb):
    spibb(*ward.improve("--epsilon", "0"))
    before = content(ward.folder / "out")
    assert spibb(*ward.improve("--overwrite")).code == 0
    after = content(ward.folder / "out")
    assert sorted(after) == FILES
    assert before["policy.csv"] != after["policy.csv"]
    assert sorted(path.name for path in ward.folder.iterdir()) == ["baseline.csv", "log.csv", "out"]


def test_overwrite_an_empty_folder_the_current_one_and_a_link(ward, spibb, monkeypatch):
    empty = ward.folder / "empty"
    empty.mkdir()
    (ward.folder / "link").symlink_to(empty)
    assert spibb(*ward.improve("--overwrite", out="link")).code == 0
    assert sorted(content(empty)) == FILES
    monkeypatch.chdir(empty)
    assert spibb("improve", ward.log, "--baseline", ward.baseline, "--gamma", "0.9",
                 "--out", ".", "--overwrite").code == 0  # fmt: skip
    assert sorted(content(empty)) == FILES


def test_parents_are_made(ward, spibb):
    assert spibb(*ward.improve(out="a/b/c")).code == 0
    assert sorted(content(ward.folder / "a" / "b" / "c")) == FILES
