"""Every Python snippet of the README and the docs runs, and its console commands work."""

import contextlib
import re
import shlex
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

from launcher import Program, run_programs
from spibb.cli.app import main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DEMO = ROOT / "src/spibb/cli/demo"


def snippets(language: str) -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        blocks = re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
        found += [(f"{page.name}-{k}", block) for k, block in enumerate(blocks)]
    return found


@cache
def shop():
    """Return the files that the first snippet on bandits draws."""
    code = dict(snippets("python"))["bandits.md-0"]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        exec(compile(code, "bandits.md", "exec"), {})
        return {path.name: path.read_text("utf-8") for path in sorted(Path(folder).iterdir())}


def workplace(folder):
    """Put the files that the snippets speak of into a folder."""
    folder.mkdir()
    for name, text in shop().items():
        (folder / name).write_text(text, "utf-8")
    (folder / "visits.csv").write_bytes((DEMO / "log.csv").read_bytes())
    (folder / "rule.csv").write_bytes((DEMO / "baseline.csv").read_bytes())
    return str(folder)


def test_python_snippets_run(tmp_path):
    named = snippets("python")
    assert len(named) >= 2
    programs = [Program(code=code, folder=workplace(tmp_path / name)) for name, code in named]
    ran = run_programs(programs, packages=["torch"])
    failed = {
        name: done.stderr for (name, _), done in zip(named, ran, strict=True) if done.returncode
    }
    assert not failed


def test_console_commands_run(tmp_path):
    commands = [
        line
        for _, block in snippets("console")
        for line in block.splitlines()
        if line.startswith("spibb ")
    ]
    assert len(commands) >= 2
    folder = workplace(tmp_path / "here")
    programs = [
        Program(tuple(shlex.split(command, comments=True)[1:]), folder=folder)
        for command in commands
    ]
    for command, done in zip(commands, run_programs(programs), strict=True):
        assert done.returncode == 0, f"{command}: {done.stderr}"


def test_local_links_lead_somewhere():
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_member_of_a_list_stands_in_the_documentation():
    from spibb.algorithms.registry import ALGORITHMS
    from spibb.ope.confidence import BOUNDS
    from spibb.ope.estimators import ESTIMATORS
    from spibb.studies.registry import PLANS
    from spibb.uncertainty.error_functions import ErrorFunction

    def page(name):
        return (ROOT / "docs" / name).read_text("utf-8")

    own = {name for name, kind in ErrorFunction.known().items() if "spibb." in kind.__module__}
    lists = {
        "index.md": ALGORITHMS,
        "evaluation.md": [*ESTIMATORS, *BOUNDS],
        "algorithms/soft-spibb.md": own,
        "studies.md": PLANS,
    }
    for name, listed in lists.items():
        words = set(re.findall(r"[\w-]+", page(name)))
        assert not [one for one in listed if one not in words], name


def test_the_figures_of_the_demo_are_those_of_the_readme(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["spibb", "demo", "--out", str(tmp_path / "demo")])
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    out = capsys.readouterr().out
    truth = out[out.index("The truth") :]
    told = re.findall(r"\d+\.\d+", truth)
    assert len(told) == 6  # four true values, and what two of the policies promised
    readme = (ROOT / "README.md").read_text("utf-8")
    said = readme[readme.index("The demo is simulated") :].split("\n\n")[0]
    # The README leaves out what the safe improvement promised.
    assert set(re.findall(r"\d+\.\d+", said)) == set(told) - {told[2]}
