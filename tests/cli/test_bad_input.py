"""Bad input: one readable message, exit code 2, and nothing written."""

import os
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

HEAD = "episode,step,state,action,reward\n"
GOOD = HEAD + "0,0,fever,drug,1\n0,1,calm,rest,2\n"
PAIRS = {"fever,drug": 0.4, "fever,rest": 0.6, "calm,drug": 0.4, "calm,rest": 0.6}


def policy(**changes):
    """A baseline with some probabilities replaced; None leaves the pair out."""
    rows = {**PAIRS, **{name.replace("_", ","): value for name, value in changes.items()}}
    listed = [f"{pair},{value}\n" for pair, value in rows.items() if value is not None]
    return "state,action,probability\n" + "".join(listed)


def assert_says(message, *fragments):
    for fragment in fragments:
        assert fragment in message


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        (HEAD, ["has no rows", "at least one row"]),
        ("", ["cannot read the log", "it is empty", "a header"]),
        (b"\x00\x01\x02", ["log", "To fix it"]),
        (GOOD.replace("state", "sate"),
         ["no column 'state', but it has 'sate'", "--columns state=sate"]),
        (GOOD.replace("reward", "points"),
         ["no column 'reward'", "among episode, step, state, action, points"]),
        (GOOD.replace("episode", "stay"), ["neither a column 'episode' nor 'next_state'"]),
        (GOOD.replace(",1\n", ",nan\n"), ["reward is missing or not finite", "row 1 of", "finite"]),
        (GOOD.replace(",2\n", ",inf\n"), ["reward is missing or not finite", "row 2 of"]),
        (GOOD.replace(",2\n", ",two\n"), ["not a number: 'two'", "row 2", "expected numbers"]),
        (GOOD.replace(",2\n", ",\n"), ["reward is missing or not finite", "row 2 of", "To fix it"]),
        (GOOD.replace("calm", ""), ["column 'state'", "empty cell", "row 2", "fill it in"]),
        (GOOD.replace("rest", ""), ["column 'action'", "empty cell", "row 2"]),
        (GOOD.replace("0,1,", ",1,"), ["column 'episode'", "empty cell", "row 2"]),
        (GOOD.replace("0,1,", "0,,"), ["column 'step'", "empty cell", "row 2"]),
        (GOOD.replace("0,1,", "0,0,"), ["same step", "twice", "rows 1 and 2", "renumber"]),
        (GOOD.replace("0,1,", "0,soon,"), ["column 'step'", "holds text", "number the steps"]),
        (HEAD + "0,0,-1,0,1\n", ["state -1 is out of range", "row 1 of", "number them from 0"]),
        (HEAD + "0,0,0,0,1\n" * 6 + "0,0,0,0\n" + "0,0,0,0,1\n",
         ["a row has 4 fields", "row 7", "expected 5, as in the header"]),
        (GOOD.replace(",", " "), ["no column 'state'", "separate the fields by commas"]),
        ("more," + GOOD, ["a row has 5 fields", "expected 6"]),
        ("episode,state,state,action,reward\n0,0,0,0,1\n", ["2 columns called 'state'"]),
        (GOOD.replace("calm", "Kälte").encode("latin-1"), ["invalid UTF8", "text in UTF-8"]),
        (GOOD.encode("utf-16"), ["not text in UTF-8", "save it as CSV in UTF-8"]),
    ],
)  # fmt: skip
def test_logs(ward, refused, text, fragments):
    path = ward.write("bad.csv", text)
    assert_says(refused(*ward.improve(log=path)), "bad.csv" if "same step" not in fragments else "",
                *fragments)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        (policy(fever_rest=0.5), ["sum to 0.9", "state 'fever'", "rows that sum to 1"]),
        (policy(fever_drug=-0.4, fever_rest=1.4), ["probability -0.4", "state 'fever'"]),
        (policy() + "fever,drug,0.4\n", ["listed twice", "row 1 of", "row 5", "keep one row"]),
        (policy(calm_drug=None, calm_rest=None),
         ["baseline lacks 1 states of the log", "state 'calm'", "add those states"]),
        (policy(fever_drug=0, fever_rest=1),
         ["probability 0 to actions that were taken", "rows of the log", "state fever, action drug",
          "--baseline estimate"]),
        (policy(fever_drug=None, fever_rest=1), ["probability 0 to actions that were taken"]),
        (policy(calm_drug="often"), ["'probability'", "not a number: 'often'", "row 3"]),
        (policy(calm_drug=""), ["probability is missing", "row 3 of"]),
        (policy(calm_drug="nan"), ["probability is missing", "row 3 of"]),
        (policy(calm_drug="2024-05-01"), ["not a number: '2024-05-01'"]),
        (policy().replace("calm", ""), ["column 'state'", "empty cell", "row 3"]),
        (policy().replace("probability", "prob"),
         ["no column 'probability', but it has 'prob'", "rename the column."]),
        ("state,action,probability\n", ["the policy", "has no rows"]),
        ("", ["cannot read the policy", "it is empty"]),
        ("state,action,probability\n-1,0,1\n", ["state -1 is out of range"]),
        ("state,action,probability\n0,0,1\n", ["lacks 2 states of the log", "named alike in both"]),
    ],
)  # fmt: skip
def test_baselines(ward, refused, text, fragments):
    message = refused(*ward.improve(baseline=ward.write("bad.csv", text)))
    assert_says(message, *fragments)
    assert "--columns" not in message


def test_how_many_rows_a_baseline_cannot_have_made(ward, refused):
    n_rows = sum(",fever,drug," in line for line in ward.text.splitlines())
    bad = ward.write("bad.csv", policy(fever_drug=0, fever_rest=1))
    assert_says(refused(*ward.improve(baseline=bad)), f"taken in {n_rows} rows of the log")


@pytest.mark.parametrize(
    ("more", "fragments"),
    [
        (["--epsilon", "-1"], ["epsilon is -1.0", "a budget >= 0"]),
        (["--epsilon", "nan"], ["epsilon is nan", "a budget >= 0"]),
        (["--delta", "0"], ["delta is 0.0", "(0, 1]"]),
        (["--delta", "2"], ["delta is 2.0", "(0, 1]"]),
        (["--delta", "nan"], ["delta is nan", "(0, 1]"]),
        (["--max-iterations", "0"], ["max_iterations is 0", "an integer >= 1"]),
        (["--algorithm", "aprox-soft-spib"],
         ["no algorithm is called 'aprox-soft-spib'", "use 'approx-soft-spibb'"]),
        (["--algorithm", "zzz"], ["no algorithm is called 'zzz'", "expected one of", "basic-rl"]),
        (["--n-wedge", "5"],
         ["no setting --n-wedge in approx-soft-spibb", "--epsilon", "choose another algorithm"]),
        (["--algorithm", "basic-rl", "--epsilon", "1"], ["no setting --epsilon in basic-rl"]),
        (["--algorithm", "pi-b-spibb", "--n-wedge", "-1"], ["n_wedge is -1", "observations >= 0"]),
        (["--algorithm", "pi-b-spibb", "--n-wedge", "nan"], ["n_wedge is nan"]),
        (["--error", "hoefding"], ["no error function is called 'hoefding'", "use 'hoeffding-"]),
        (["--error", "given"], ["no error function is called 'given'", "hoeffding-q"]),
        (["--columns", "state"], ["--columns holds 'state'", "state=ward,reward=score"]),
        (["--columns", "=x"], ["--columns holds '=x'"]),
        (["--columns", "state=a,state=b"], ["--columns holds 'state=b'", "each name once"]),
        (["--columns", "stat=state"], ["columns renames 'stat'", "write state=state"]),
        (["--columns", "state=wrad"], ["state is in column 'wrad'", "does not have"]),
        (["--reward-range", "0", "1"],
         ["the log holds rewards from -1.5 to 5", "inside reward_range = (0.0, 1.0)", "widen"]),
        (["--reward-range", "9", "-9"], ["reward_range is (9.0, -9.0)", "(low, high)"]),
        (["--reward-range", "-inf", "inf"], ["reward_range is (-inf, inf)", "finite"]),
        (["--gamma", "1.5"], ["gamma is 1.5", "[0, 1]"]),
        (["--gamma", "-0.1"], ["gamma is -0.1", "[0, 1]"]),
        (["--gamma", "nan"], ["gamma is nan", "[0, 1]"]),
    ],
)  # fmt: skip
def test_settings(ward, refused, more, fragments):
    assert_says(refused(*ward.improve(*more)), *fragments)


@pytest.mark.parametrize(
    ("more", "fragments"),
    [
        (["--epsilon", "-1"], ["epsilon is -1.0", "a budget >= 0"]),
        (["--epsilon", "nan"], ["epsilon is nan"]),
        (["--n-wedge", "-1"], ["n_wedge is -1.0", "observations >= 0"]),
        (["--n-wedge", "nan"], ["n_wedge is nan"]),
        (["--delta", "0"], ["delta is 0.0", "(0, 1]"]),
        (["--gamma", "2"], ["gamma is 2.0", "[0, 1]"]),
        (["--error", "exact"], ["no error function is called 'exact'"]),
        (["--policy", "absent.csv"], ["no such policy: absent.csv"]),
    ],
)
def test_settings_of_an_audit(ward, refused, more, fragments):
    assert_says(refused(*ward.audit(ward.baseline, *more)), *fragments)


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        (policy(fever_rest=None), ["sum to 0.4", "state 'fever'"]),
        (
            policy(calm_drug=None, calm_rest=None),
            ["the policy lacks 1 states of the log", "'calm'"],
        ),
        (policy(calm_dance=0.0), ["actions", "action 'dance'"]),
    ],
)
def test_policies_to_audit(ward, refused, text, fragments):
    assert_says(refused(*ward.audit(ward.write("bad.csv", text))), *fragments)


def test_an_error_function_that_needs_episodes(ward, refused):
    log = ward.write("loose.csv", "state,action,reward,next_state\nfever,drug,1,calm\n")
    message = refused(*ward.improve("--error", "empirical-bernstein", log=log))
    assert_says(message, "the log has no episodes", "choose an error function")


@pytest.mark.parametrize("option", ["log", "baseline"])
def test_files_that_are_not_there(ward, refused, option):
    for name in ("absent.csv", "*.parquet", "no/such/place.csv", "x" * 300 + ".csv"):
        message = refused(*ward.improve(**{option: name}))
        assert_says(message, name, "no such" if len(name) < 100 else "File name too long")


def test_a_folder_without_tables(ward, refused):
    ward.write("empty/notes.txt", "nothing here")
    assert_says(refused(*ward.improve(log="empty")), "empty is a folder without tables", "glob")


def test_a_name_that_says_nothing(ward, refused):
    path = ward.write("log.xlsx", GOOD)
    assert_says(refused(*ward.improve(log=path)), "cannot tell the format", "save the table as CSV")


def test_parquet_that_is_text(ward, refused):
    path = ward.write("log.parquet", GOOD)
    assert_says(refused(*ward.improve(log=path)), "cannot read the log", "log.parquet", "complete")


def test_parquet_that_was_cut_off(ward, refused):
    whole = ward.folder / "whole.parquet"
    pq.write_table(pa.table({"state": list(range(1000))}), whole)
    path = ward.write("cut.parquet", whole.read_bytes()[:-100])
    assert_says(refused(*ward.improve(log=path)), "cannot read the log", "is complete")


def test_files_of_a_folder_that_do_not_belong_together(ward, refused):
    ward.write("parts/a.csv", GOOD)
    ward.write("parts/b.csv", policy())
    assert_says(refused(*ward.improve(log="parts")), "different columns", "'probability'")


def test_an_existing_folder_is_kept(ward, refused, spibb):
    spibb(*ward.improve())
    before = {path.name: path.read_bytes() for path in (ward.folder / "out").iterdir()}
    assert_says(refused(*ward.improve()), "exists already", "--overwrite")
    assert {path.name: path.read_bytes() for path in (ward.folder / "out").iterdir()} == before
    assert_says(refused("demo", "--out", ward.folder / "out"), "exists already", "--overwrite")


def test_a_folder_with_other_files_is_never_replaced(ward, refused):
    ward.write("out/thesis.tex", "three years of work")
    message = refused(*ward.improve("--overwrite"))
    assert_says(message, "holds 'thesis.tex'", "not part of a result", "choose another folder")
    assert (ward.folder / "out" / "thesis.tex").read_text() == "three years of work"


@pytest.mark.parametrize("more", [(), ("--overwrite",)])
def test_a_file_is_never_replaced(ward, refused, more):
    ward.write("out", "a file")
    assert_says(refused(*ward.improve(*more)), "is a file", "expected a folder")
    assert (ward.folder / "out").read_text() == "a file"


def test_a_file_in_the_way_of_the_folder(ward, refused):
    ward.write("file", "a file")
    assert_says(refused(*ward.improve(out="file/out")), "cannot write", "file/out", "To fix it")


def test_a_folder_name_that_is_too_long(ward, refused):
    assert_says(refused(*ward.improve(out="y" * 300)), "cannot write", "File name too long")


def test_a_place_where_nothing_can_be_written(ward, refused):
    """/proc takes no folders, not even from root."""
    if not os.path.isdir("/proc/self"):
        pytest.skip("needs /proc, a place where nobody may write")
    assert_says(refused(*ward.improve(out="/proc/result")), "cannot write /proc/result", "To fix")


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (["improve"], "Missing argument"),
        (["improve", "log.csv", "--baseline", "b", "--gamma", "high", "--out", "out"], "--gamma"),
        (["improve", "log.csv", "--colour", "red"], "--colour"),
        (
            ["improve", "l", "--baseline", "b", "--gamma", "1", "--out", "o", "--format", "xml"],
            "xml",
        ),
        (["imporve"], "imporve"),
    ],
)
def test_usage(ward, spibb, arguments, fragment):
    ran = spibb(*arguments)
    assert ran.code == 2
    assert "Usage" in ran.err
    assert fragment in ran.err
    assert "Traceback" not in ran.err
    assert sorted(path.name for path in ward.folder.iterdir()) == ["baseline.csv", "log.csv"]


def test_settings_beyond_every_number(ward, refused):
    assert "delta is 'low'" in refused(*ward.improve("--guarantee", 1, "--set", "delta=low"))
    for digits in (310, 5_000):
        message = refused(*ward.improve("--set", "epsilon=" + "1" * digits))
        assert "epsilon is '1111" in message
        assert len(message) < 300


def test_a_loop_of_links_is_no_folder(ward, refused):
    (ward.folder / "loop").symlink_to("loop")
    assert_says(refused(*ward.improve(out="loop")), "cannot write", "loop")


def test_a_name_that_is_not_utf_8(ward, spibb):
    ran = spibb(*ward.improve(out=os.fsdecode(b"bad\xff")))
    assert ran.code == 0, ran.err
    assert (ward.folder / os.fsdecode(b"bad\xff") / "report.html").exists()
    assert spibb(*ward.improve(log=os.fsdecode(b"gone\xff.csv"), out="o")).code == 2


def test_a_result_does_not_replace_what_it_is_made_of(ward, spibb, refused):
    assert spibb(*ward.improve(out="out")).code == 0
    before = (ward.folder / "out" / "policy.csv").read_bytes()
    baseline = ward.folder / "out" / "policy.csv"
    message = refused(*ward.improve("--overwrite", baseline=baseline, out="out"))
    assert "out holds" in message
    assert "which is read, so it is not replaced" in message
    assert (ward.folder / "out" / "policy.csv").read_bytes() == before


def test_what_stands_in_a_file_does_not_command_the_terminal(ward, refused):
    log = ward.write("bad.csv", "episode,\x1b[31mstate,action\n0,0,0\n")
    message = refused(*ward.improve(log=log))
    assert "\\x1b[31mstate" in message
    assert message.strip("\n").isprintable()


def test_what_is_declared_is_not_replaced_either(ward, spibb, refused):
    assert spibb(*ward.improve(out="out")).code == 0
    start = ward.write("out/policy.csv", "state,probability\nfever,1\n")
    message = refused(*ward.improve("--overwrite", "--initial", start, out="out"))
    assert "which is read, so it is not replaced" in message


def test_a_plan_that_is_a_pipe_is_not_waited_for(ward, refused):
    os.mkfifo(ward.folder / "plan.toml")
    assert "it is no file" in refused("study", "run", "plan.toml", "--out", "study")


def test_a_date_that_is_none_is_nobodys_business(ward, spibb_process):
    ran = spibb_process(*ward.improve(), environment={"SOURCE_DATE_EPOCH": "soon"})
    assert ran.code == 0, ran.err


def test_data_are_data_in_a_pipe_and_harmless_on_a_terminal(ward, spibb, monkeypatch):
    log = ward.write("odd.csv", ward.text.replace("calm", "ca\x9blm"))
    baseline = ward.write("odd-rule.csv", ward.baseline.read_text().replace("calm", "ca\x9blm"))
    asked = ward.improve("--format", "csv", "--overwrite", log=log, baseline=baseline)
    assert "ca\x9blm" in spibb(*asked).out
    monkeypatch.setattr(sys.stdout.__class__, "isatty", lambda _: True, raising=False)
    shown = spibb(*asked).out
    assert "ca\\x9blm" in shown
    assert "\x9b" not in shown


def test_a_column_to_group_by_that_is_not_there(ward, refused):
    assert "there is no column 'stat' in" in refused(*ward.improve("--by", "stat"))
    assert "write --by state" in refused(*ward.improve("--by", "stat"))
