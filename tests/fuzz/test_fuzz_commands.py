"""Commands with any options, plans of any content, folders with any damage: a message."""

import contextlib
import io
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from fuzzing import NASTY, cases, limited, mutated
from hypothesis import given
from hypothesis import strategies as st

from spibb import TabularPolicy
from spibb.algorithms.registry import ALGORITHMS
from spibb.cli.app import main
from spibb.errors import SpibbError
from spibb.studies.registry import PLANS, STUDIES, read_plan

SMOKE = PLANS["random-mdps-smoke"]
TINY = replace(
    SMOKE, name="tiny", n_states=5, n_actions=2, n_successors=2, max_steps=5, eta=(0.5,),
    trajectories=(5,), n_runs=4, runs_per_job=2, settings=SMOKE.settings[:2],
)  # fmt: skip
# A plan of every kind, cut to its first settings, and plans of version 1.
KINDS = ("random-mdps-smoke", "costs", "complexity", "helicopter-smoke")
VERSION1 = Path(__file__).parents[1] / "studies" / "data" / "version1"
TEXTS = [
    *(replace(PLANS[name], settings=PLANS[name].settings[:3]).to_toml() for name in KINDS),
    *(file.read_text("utf-8") for file in sorted(VERSION1.glob("*/1/plan.toml"))),
]
words = st.sampled_from([text for text in NASTY if "\x00" not in text and text.strip()])
numbers = st.one_of(
    st.sampled_from(
        ["0", "1", "0.5", "-1", "1e-300", "1e-7", "0.05", "nan", "inf", "1e400", "9" * 400, "low"]
    ),
    words,
)


def run(*arguments):
    """Run the command line here; anything but an exit with 0, 1 or 2 is an error."""
    said, told = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["spibb", *map(str, arguments)]),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(told),
        limited(),
    ):
        try:
            main()
            code = 0
        except SystemExit as left:
            code = left.code or 0
    assert code in (0, 1, 2), told.getvalue()
    assert "Traceback" not in told.getvalue()
    if code == 2:
        assert told.getvalue().strip(), "refused without a word"
    return code


@pytest.fixture(scope="module")
def ward(tmp_path_factory):
    """A small log with its baseline, a start and successors."""
    folder = tmp_path_factory.mktemp("ward")
    rng = np.random.default_rng(0)
    rows = ["episode,step,state,action,reward,terminated"]
    for stay in range(30):
        for day in range(3):
            state, action = rng.choice(["a", "b"]), rng.choice(["x", "y"])
            rows.append(f"{stay},{day},{state},{action},{rng.integers(-2, 3)},{day == 2}".lower())
    (folder / "log.csv").write_text("\n".join(rows))
    TabularPolicy(np.full((2, 2), 0.5), ["a", "b"], ["x", "y"]).write(folder / "baseline.csv")
    (folder / "start.csv").write_text("state,probability\na,1\n")
    (folder / "next.csv").write_text("state,next_state\na,a\na,b\nb,a\nb,b\n")
    return folder


def options(folder):
    """Options of the commands with values that fit, or do not."""
    paths = [str(folder / name) for name in ("log.csv", "baseline.csv", "start.csv", "next.csv")]
    path = st.one_of(st.sampled_from([*paths, str(folder), "estimate", "seen", "no.csv"]), words)
    algorithm = st.one_of(st.sampled_from(list(ALGORITHMS)), words)
    name = st.sampled_from(
        ["epsilon", "n_wedge", "delta", "kappa", "n_folds", "mixtures", "train_share", "xi",
         "candidates", "n_tests", "bound", "estimator", "min_ess", "return_range", "nothing"]
    )  # fmt: skip
    one = {
        "--algorithm": algorithm, "--epsilon": numbers, "--n-wedge": numbers, "--delta": numbers,
        "--error": st.one_of(st.sampled_from(["hoeffding-q", "empirical-bernstein"]), words),
        "--max-iterations": numbers, "--guarantee": numbers, "--certificate-delta": numbers,
        "--set": st.tuples(name, st.one_of(numbers, algorithm)).map("=".join),
        "--compare": st.lists(algorithm, min_size=1, max_size=2).map(",".join),
        "--initial": path, "--successors": path, "--unseen": st.one_of(
            st.sampled_from(["average", "terminal", "uniform", "self-loop"]), words),
        "--columns": st.one_of(words, st.tuples(words, words).map("=".join)),
        "--format": st.sampled_from(["table", "json", "csv", "xml"]),
        "--bound": st.one_of(st.sampled_from(["bca", "betting", "student-t", "concentration"]),
                             words),
        "--estimator": st.one_of(st.sampled_from(["is", "dr", "model,is", "wis"]), words),
    }  # fmt: skip
    known = ["--states-complete", "--never-ends", "--overwrite", "--same-log", "--accept-baseline"]
    flags = st.sampled_from(known).map(lambda f: [f])
    pairs = st.sampled_from(sorted(one)).flatmap(lambda key: one[key].map(lambda v: [key, v]))
    ranges = st.tuples(numbers, numbers).map(lambda ends: ["--reward-range", *ends])
    return st.lists(st.one_of(pairs, pairs, pairs, flags, ranges), max_size=4)


@given(st.data())
@cases(60)
def test_commands(ward, data):
    command = data.draw(
        st.sampled_from(["improve", "improve", "inspect", "audit", "evaluate", "algorithms"])
    )
    more = [part for option in data.draw(options(ward)) for part in option]
    arguments = [command]
    if command != "algorithms":
        arguments += [ward / "log.csv", "--baseline", ward / "baseline.csv"]
    if command not in ("algorithms", "inspect"):
        gamma = data.draw(st.one_of(st.just("0.9"), st.just("0.9"), st.just("1"), numbers))
        arguments += ["--gamma", gamma]
    if command in ("audit", "evaluate"):
        arguments += ["--policy", ward / "baseline.csv"]
    out = ward / "out"
    shutil.rmtree(out, ignore_errors=True)
    if command == "improve":
        arguments += ["--out", out]
    code = run(*arguments, *more)
    if code == 0 and (out / "policy.parquet").exists():
        table = TabularPolicy.read(out / "policy.parquet").probabilities
        np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-9)
    assert not [path for path in ward.iterdir() if path.name.startswith(".")], "left behind"


@given(st.data())
@cases(150)
def test_plans(data):
    """Plans with other values, other types and broken text."""
    lines = data.draw(st.sampled_from(TEXTS)).splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(lines) - 1))
        key, equals, _ = lines[place].partition(" = ")
        values = st.one_of(
            numbers,
            st.sampled_from(["true", "[]", "{}", '"x"', "[1]", "2024-01-01", "1e999"]),
        )
        if equals:
            lines[place] = f"{key} = {data.draw(values)}"
        else:
            del lines[place]
    text = "\n".join(lines)
    if data.draw(st.booleans()):
        text = mutated(text.encode(), data.draw).decode(errors="replace")
    try:
        with limited():
            plan = read_plan(text)
            STUDIES[plan.study].check(plan)
            assert read_plan(plan.to_toml()) == plan
    except SpibbError:
        pass


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studies")
    (folder / "plan.toml").write_text(TINY.to_toml())
    assert run("study", "run", folder / "plan.toml", "--out", folder / "good", "--workers", 1) == 0
    return folder


@given(st.data())
@cases(25)
def test_study_folders(study, data):
    """Any file of a study changed, emptied or removed; figures, merge and resume answer."""
    bad = study / "bad"
    for name in ("bad", "merged"):
        shutil.rmtree(study / name, ignore_errors=True)
    shutil.copytree(study / "good", bad)
    files = sorted(path for path in bad.rglob("*") if path.is_file())
    for _ in range(data.draw(st.integers(1, 2))):
        file = data.draw(st.sampled_from(files))
        if not file.exists():
            continue
        kind = data.draw(st.sampled_from(["mutate", "mutate", "empty", "remove", "other"]))
        if kind == "remove":
            file.unlink()
        elif kind == "other":
            there = [path for path in files if path.exists()]
            shutil.copy(data.draw(st.sampled_from(there)), study / "copy")
            shutil.copy(study / "copy", file)
        else:
            file.write_bytes(b"" if kind == "empty" else mutated(file.read_bytes(), data.draw))
    commands = {
        "merge": ["study", "merge", study / "merged", bad],
        "resume": ["study", "run", study / "plan.toml", "--out", bad, "--workers", 1, "--resume"],
    }
    run(*commands[data.draw(st.sampled_from(sorted(commands)))])
