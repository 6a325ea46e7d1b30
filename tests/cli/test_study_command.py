"""``spibb study``: what is refused, in one line and without a trace on the disk."""

import csv
import io
import json
import sys
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spibb.studies.registry import PLANS

SMOKE = PLANS["random-mdps-smoke"]
TINY = replace(
    SMOKE, name="tiny", n_states=6, n_actions=2, n_successors=2, max_steps=10, eta=(0.5, 0.9),
    trajectories=(5, 20), n_runs=8, runs_per_job=2, settings=SMOKE.settings[:3],
)  # fmt: skip


def changed_plan(old, new):
    text = TINY.to_toml()
    assert old in text
    return text.replace(old, new).encode()


@pytest.fixture
def tiny(ward, spibb):
    """Write plans, and run the first as pieces of two runs each."""
    ward.write("tiny.toml", TINY.to_toml())
    ward.write("seed.toml", replace(TINY, seed=5).to_toml())
    for number in range(1, 5):
        done = spibb("study", "run", "tiny.toml", "--out", f"p{number}", "--workers", 1,
                     "--piece", f"{number}/4")  # fmt: skip
        assert done.code == 0, done.err
    return ward


@pytest.mark.parametrize(
    ("more", "fragment"),
    [
        (["--piece", "0/4"], "the piece is '0/4'; expected such as 2/4"),
        (["--piece", "5/4"], "the piece is '5/4'"),
        (["--piece", "a/b"], "the piece is 'a/b'"),
        (["--piece", "3"], "the piece is '3'"),
        (["--piece", "1/" + "9" * 5_000], "expected such as 2/4"),
        (["--piece", "1/99"], "the piece 1/99 is empty; expected at most 4 pieces"),
        (["--runs", "0"], "n_runs is 0; expected at least 1"),
        (["--runs", 2**31 - 1], "the plan has 42,949,673 jobs; expected at most 1,000,000"),
        (["--workers", "0"], "workers is 0; expected at least 1"),
        (["--engine", "gpu"], "no engine is called 'gpu'; expected one of local, ray, cuda"),
        (["--address", "a:1"], "the engine 'local' with the address 'a:1'"),
    ],
)
def test_what_cannot_be_run(refused, more, fragment):
    assert fragment in refused("study", "run", "random-mdps-smoke", "--out", "study", *more)


@pytest.mark.parametrize("name", ["gridworld", "complexity"])
def test_a_study_that_no_gpu_does(refused, name):
    message = refused("study", "run", name, "--out", "study", "--engine", "cuda")
    assert "with the engine 'cuda'; expected random-mdps" in message


def test_no_gpu(refused):
    cuda = pytest.importorskip("numba.cuda", reason="needs the extra gpu")
    if cuda.is_available():
        pytest.skip("there is a GPU")
    message = refused("study", "run", "random-mdps-smoke", "--out", "study", "--engine", "cuda")
    assert "no GPU that CUDA can use was found" in message


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        (b"\xff\xfe", "cannot read the plan plan.toml"),
        (b"", "no study is called None"),
        (b"study = ['a']", "no study is called ['a']"),
        (b"study = 'random-mdps'", "the plan lacks an entry 'name'"),
        (b"study = " + b"[" * 5_000, "tables and lists are too deep"),
        (changed_plan("trajectories = [5, 20]", "trajectories = [-5]"), "of trajectories is -5"),
        (changed_plan("eta = [0.5, 0.9]", "eta = [2.0]"), "eta is 2.0"),
        (changed_plan('"basic-rl"', '"basic"'), "'Basic RL' cannot be built"),
    ],
)
def test_wrong_plans(ward, refused, content, fragment):
    ward.write("plan.toml", content)
    assert fragment in refused("study", "run", "plan.toml", "--out", "study", "--workers", 1)


def test_a_folder_that_was_begun_otherwise(tiny, refused):
    run = ("study", "run", "tiny.toml", "--out", "p1", "--workers", 1)
    assert "holds a study already" in refused(*run)
    assert "begun with the runs 0 to 1; expected all runs" in refused(*run, "--resume")
    message = refused(*run, "--resume", "--piece", "2/4")
    assert "begun with the runs 0 to 1; expected the runs 2 to 3" in message
    assert "begun with another plan" in refused(*run, "--resume", "--piece", "1/4", "--runs", 80)
    tiny.write("p1/plan.toml", b"\xff")
    assert "cannot read p1/plan.toml" in refused(*run, "--resume")


def test_a_cluster_that_is_not_there(ward, spibb):
    pytest.importorskip("ray", reason="needs the extra ray")
    ran = spibb("study", "run", "random-mdps-smoke", "--out", "study", "--engine", "ray",
                "--address", "127.0.0.1:1")  # fmt: skip
    assert ran.code == 2
    assert "Error: cannot reach the ray cluster at 127.0.0.1:1" in ran.err
    assert not (ward.folder / "study").exists()


def test_what_cannot_be_merged(tiny, refused, spibb):
    spibb("study", "run", "seed.toml", "--out", "seed", "--workers", 1)
    tiny.write("no-study/notes.txt", "nothing here")
    tiny.write("empty/plan.toml", TINY.to_toml())
    for folders, fragment in (
        (["out", "p1", "p1"], "run 0 of Basic RL is in p1 and in p1"),
        (["out", "p1", "seed"], "the plans do not draw the same: seed is"),
        (["p2", "p1"], "p2 holds"),
        (["out", "p1", "absent"], "absent is no study"),
        (["out", "no-study"], "no-study is no study"),
        (["out", "empty"], "empty has no results yet"),
        ([".", "p1"], ". holds"),
        (["/", "p1"], "/ holds"),
    ):
        assert fragment in refused("study", "merge", *folders)


def changed(table, name, value):
    """Return rows with one value in all of a column."""
    column = pa.array([value] * len(table), pa.string() if value is None else None)
    return table.drop_columns(name).append_column(name, column)


def test_what_has_no_figures(tiny, refused):
    tiny.write("no-study/notes.txt", "nothing here")
    tiny.write("empty/plan.toml", TINY.to_toml())
    tiny.write("binary/plan.toml", b"\xff")
    for folder, fragment in (
        ("absent", "absent is no study"),
        ("no-study", "no-study is no study"),
        ("empty", "empty has no results yet"),
        ("binary", "cannot read binary/plan.toml"),
    ):
        assert fragment in refused("study", "figures", folder)
    part = tiny.folder / "p1" / "parts" / "0000000.parquet"
    pq.write_table(pa.table({"run": [1]}), part)
    message = refused("study", "figures", "p1")
    assert "the results have no column 'eta' (first at p1/parts/0000000.parquet)" in message
    rows = pq.read_table(tiny.folder / "p2" / "parts" / "0000002.parquet")
    for wrong, fragment in (
        (rows.slice(0, 0), "the part p1/parts/0000000.parquet is damaged: it has no rows"),
        (changed(rows, "run", 8), "hold the run 8 (first at p1/parts/0000000.parquet)"),
        (changed(rows, "score", "high"), "the column 'score' of the results holds string"),
        (changed(rows, "setting", None), "the column 'setting' of the results holds nothing"),
    ):
        pq.write_table(wrong, part)
        assert fragment in refused("study", "figures", "p1")
    pq.write_table(rows, part)
    pq.write_table(rows.append_column("more", rows["run"]), part.parent / "0000002.parquet")
    assert "0000002.parquet has other columns than" in refused("study", "figures", "p1")


def test_pieces_on_the_command_line(tiny, spibb):
    """Two of four: their figures say so, and the rest can be made."""
    assert spibb("study", "merge", "half", "p1", "p3").code == 0
    assert spibb("study", "figures", "half").code == 0
    page = (tiny.folder / "half" / "figures" / "index.html").read_text(encoding="utf-8")
    assert "4 of 8 runs" in page
    done = spibb("study", "run", "tiny.toml", "--out", "half", "--workers", 1, "--resume")
    assert "2 of 4 jobs are done already" in done.out
    assert spibb("study", "merge", "whole", "p1", "p2", "p3", "p4").code == 0
    for name in ("0000000", "0000002", "0000004", "0000006"):
        parts = [tiny.folder / study / "parts" / f"{name}.parquet" for study in ("half", "whole")]
        assert parts[0].read_bytes() == parts[1].read_bytes()


def test_plans_as_csv(spibb):
    rows = list(csv.DictReader(io.StringIO(spibb("study", "list", "--format", "csv").out)))
    assert [row["plan"] for row in rows] == list(PLANS)
    assert {row["fingerprint"] for row in rows} == {plan.fingerprint for plan in PLANS.values()}


def test_what_each_plan_varies(spibb):
    facts = json.loads(spibb("study", "list", "--format", "json").out)
    assert facts["helicopter"]["factors"] == {"evaluation": 2, "transitions": 4}
    assert facts["gridworld"]["factors"] == {"process": 1, "temperature": 2, "trajectories": 10}
    told = "".join(spibb("study", "list").out.split())
    assert "│helicopter-smoke│helicopter│6│evaluation│" in told  # and its number below


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        (["docs"], "nothing to publish in docs; expected studies' folders, then the docs'"),
        (["p1", "absent"], "absent is no folder; expected the folder of the docs"),
        (["docs", "docs"], "docs is no study: it has no plan.toml"),
    ],
)
def test_what_cannot_be_published(ward, refused, words, fragment):
    (ward.folder / "docs").mkdir()
    assert fragment in refused("study", "publish", *words)


def test_numbers_and_figures_are_put_into_the_docs(tiny, spibb):
    (tiny.folder / "docs").mkdir()
    assert spibb("study", "merge", "whole", "p1", "p2", "p3", "p4").code == 0
    ran = spibb("study", "publish", "whole", "docs")
    assert (ran.code, ran.err) == (0, "")
    assert "numbers and figures are in docs/results/tiny" in " ".join(ran.out.split())
    assert (tiny.folder / "docs/results/tiny/figures/mean-by-eta.svg").exists()


def test_baselines_are_the_helicopters(ward, refused):
    run = ("study", "run", "helicopter-baselines", "--out", "study")
    message = refused("study", "run", "random-mdps-smoke", "--out", "s", "--baseline", "shipped")
    assert "random-mdps-smoke has no baselines in files; expected no --baseline" in message
    assert "cannot read the baseline none.safetensors" in refused(
        *run, "--baseline", "none.safetensors"
    )
    ward.write("mine.safetensors", b"no network")
    assert "mine.safetensors" in refused(*run, "--baseline", "mine.safetensors")
    assert "baseline is ['shipped', 'shipped']; expected each value once" in refused(
        *run, "--baseline", "shipped", "--baseline", "shipped"
    )


def test_a_helicopter_plan_that_cannot_be_trained(ward, refused):
    plan = replace(PLANS["helicopter-smoke"], transitions=(1, 1_000), n_passes=31)
    ward.write("small.toml", plan.to_toml())
    message = refused("study", "run", "small.toml", "--out", "study")
    assert "31 passes over 1 transitions are less than a minibatch of 32" in message
    assert message.count("To fix it") == 1


def test_a_helicopter_without_its_packages(ward, spibb_process, refused, monkeypatch):
    """As in an installation without the extra ``deep``: refused before a folder is made."""
    ward.write("safetensors.py", "raise ImportError")
    ran = spibb_process("study", "run", "helicopter-smoke", "--out", "study")
    assert ran.code == 2
    assert ran.err.startswith("Error: network files need safetensors. To fix it: ")
    assert ran.err.count("To fix it") == 1
    assert not (ward.folder / "study").exists()
    monkeypatch.setattr("spibb.studies.running.find_engine", lambda *_, **__: None)
    monkeypatch.setitem(sys.modules, "torch", None)
    message = refused("study", "run", "helicopter-smoke", "--out", "study", "--engine", "cuda")
    assert "torch is not installed" in message
