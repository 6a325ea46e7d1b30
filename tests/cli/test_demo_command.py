"""``spibb demo``, ``--version`` and the help texts."""

import json
import re

import pytest
from typer.testing import CliRunner

import spibb
from spibb.cli.app import app
from spibb.mdp.policy import TabularPolicy

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


def test_demo_fits_eighty_columns(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = tmp_path / "demo"
    ran = CliRunner().invoke(app, ["demo", "--out", str(out)])
    assert max(len(line) for line in ran.output.splitlines() if str(out) not in line) <= 80


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
    monkeypatch.setenv("COLUMNS", "120")
    ran = CliRunner().invoke(app, [command, "--help"])
    assert ran.exit_code == 0
    # Some services that run tests ask for colours, which split the names.
    plain = re.sub(r"\x1b\[[0-9;]*m", "", ran.output)
    for option in options:
        assert option in plain
