"""``spibb demo``, ``--version`` and the help texts."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import spibb
from spibb import AdvApproxSoftSPIBB, ApproxSoftSPIBB, AutoSPIBB, PiBSPIBB, RMin
from spibb.cli.app import app
from spibb.cli.demo_ward import _next_step
from spibb.mdp.policy import TabularPolicy
from spibb.uncertainty.error_functions import ErrorFunction

FILES = ["certificate.json", "policy.csv", "policy.parquet", "report.html", "summary.json"]


def test_demo(tmp_path):
    out = tmp_path / "demo"
    ran = CliRunner().invoke(app, ["demo", "--out", str(out)])
    assert ran.exit_code == 0
    assert sorted(path.name for path in out.iterdir()) == FILES
    summary = json.loads((out / "summary.json").read_text("utf-8"))
    assert summary["estimated_gain"] > 0
    assert "The truth, which only a simulation knows" in ran.output
    assert f"open {out / 'report.html'}" in ran.output
    policy = TabularPolicy.read(out / "policy.parquet")
    assert set(policy.action_labels) == {"watch", "drug-a", "drug-b", "both"}


def test_the_safe_improvement_is_truly_one(tmp_path):
    """In the simulated truth the result beats both the ward's rule and plain greed."""
    ran = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "demo")])
    true = {
        name: float(line.split(name)[1].split()[0])
        for line in ran.output.splitlines()
        for name in ("the ward's rule", "safe improvement", "plain greedy", "best possible")
        if line.strip().startswith(name)
    }
    assert true["the ward's rule"] < true["safe improvement"] < true["best possible"]
    assert true["plain greedy"] < true["safe improvement"]


def test_the_demo_ends_with_what_its_log_supports(tmp_path):
    """Two statements that share 5 %, and how many more stays the next would take."""
    ran = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "demo")])
    said = ran.output.split("What this log supports at 5 %, half for each")[1].split("The truth")[0]
    exact, approximate = said.split("exactly: it ")[1].split("approximately: it ")
    for part in (exact, approximate):
        assert re.match(r"(loses at most|gains at least) \d+\.\d\d a stay", part)
        assert re.search(r"gains at least|[\d,]+ more stays|no gain can be foreseen", part)
    lost = [float(re.search(r"loses at most ([\d.]+)", part)[1]) for part in (exact, approximate)]
    assert lost[1] < lost[0] < 26.0, "the exact statement is the weaker one, and not vacuous"


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (np.inf, np.inf, "with these candidates no gain can be foreseen from this log"),
        (1_712.0, 3_600.0, "to show a gain with 80 %, by this log: 1,000 to 3,000 more stays"),
        (1_712.0, np.inf, "to show a gain with 80 %, by this log: at least 1,000 more stays"),
    ],
)
def test_how_many_more_stays(low, high, said):
    assert _next_step(low, high, 430) == said


def test_demo_fits_eighty_columns(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = tmp_path / "demo"
    ran = CliRunner().invoke(app, ["demo", "--out", str(out)])
    assert max(len(line) for line in ran.output.splitlines() if str(out) not in line) <= 80


def test_the_demo_answers_in_ten_lines(tmp_path, monkeypatch):
    """What is better comes first, then verdict and answers, as they stand in the JSON."""
    monkeypatch.setenv("COLUMNS", "80")
    ran = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "demo")])
    summary = json.loads((tmp_path / "demo/summary.json").read_text("utf-8"))
    first, told = ran.output.split("safely?\n\n")[1].split("Where it differs")[0].split("\n\n")
    assert first.split() == " ".join(summary["objective"]["sentences"]).split()
    assert len(told.splitlines()) <= 10
    said = " ".join(told.split())
    assert said.startswith(summary["verdict"]["sentence"])
    assert [one["name"] for one in summary["answers"]] == [
        "today", "gain", "harm", "changes", "certified",
    ]  # fmt: skip
    for one in summary["answers"]:
        assert one["sentence"] in said


def test_demo_says_how_many_states_changed_and_how_many_are_shown(tmp_path):
    out = tmp_path / "demo"
    ran = CliRunner().invoke(app, ["demo", "--out", str(out)])
    n_changed = json.loads((out / "summary.json").read_text("utf-8"))["n_states_changed"]
    title = f"Where it differs: {n_changed} states, most rows moved first (10 shown)"
    assert title in ran.output.splitlines()


def test_version():
    ran = CliRunner().invoke(app, ["--version"])
    assert (ran.exit_code, ran.output) == (0, f"spibb {spibb.__version__}\n")


def test_without_arguments_there_is_help():
    ran = CliRunner().invoke(app, [])
    assert "Usage" in ran.output
    for command in ("demo", "improve", "audit"):
        assert command in ran.output


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("demo", ["--out", "--overwrite"]),
        ("improve", ["--baseline", "--gamma", "--algorithm", "--epsilon", "--n-wedge", "--delta",
                     "--error", "--max-iterations", "--reward-range", "--columns", "--out",
                     "--overwrite", "--format"]),
        ("audit", ["--baseline", "--policy", "--gamma", "--epsilon", "--n-wedge", "--format"]),
    ],
)  # fmt: skip
def test_help_names_the_options(command, options, monkeypatch):
    plain = help_of(monkeypatch, command)
    for option in options:
        assert option in plain


def help_of(monkeypatch, *command):
    monkeypatch.setenv("COLUMNS", "120")
    ran = CliRunner().invoke(app, [*command, "--help"])
    assert ran.exit_code == 0
    # Some services that run tests ask for colours, which split the names; so do ends of lines.
    plain = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", ran.output).split())
    return re.sub(r"(\w)- (\w)", r"\1-\2", plain)


def test_help_names_the_defaults_of_the_algorithms(monkeypatch):
    told = help_of(monkeypatch, "improve")
    assert f"soft algorithms [default: {ApproxSoftSPIBB().epsilon}]" in told
    assert f"auto-spibb [default: {AutoSPIBB().caution:g}]" in told
    assert f"[default: {PiBSPIBB().n_wedge}; in r-min {RMin().n_wedge}]" in told
    soft, adv = ApproxSoftSPIBB().error.id, AdvApproxSoftSPIBB().error.id
    assert f"[default: {soft}; in the adv algorithms {adv}]" in told
    assert "may be repeated" in told


@pytest.mark.parametrize("command", ["improve", "audit"])
def test_help_names_every_error_function(monkeypatch, command):
    told = help_of(monkeypatch, command)
    for name in set(ErrorFunction.known()) - {"given"}:
        assert name in told


def test_help_says_once_that_an_argument_may_be_repeated(monkeypatch):
    told = help_of(monkeypatch, "study", "merge")
    assert "DIR" in told
    assert "DIR......" not in told.replace("}", "")  # Typer puts names into braces and adds dots
