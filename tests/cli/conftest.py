"""A small ward to run the commands on, and two ways to run them: here, and as a process."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from spibb.cli.app import main


@dataclass(frozen=True)
class Ran:
    """What a command left: exit code and what it printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def spibb(monkeypatch, capsys):
    """Run the command line in this process."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["spibb", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        return Ran(left.value.code or 0, *capsys.readouterr())

    return run


@pytest.fixture
def spibb_process():
    """Run the command line as a process of its own."""

    def run(*arguments, environment=None, **options):
        done = subprocess.run(
            [sys.executable, "-m", "spibb", *map(str, arguments)],
            capture_output=True, text=True, encoding="utf-8", timeout=120, check=False,
            env={**os.environ, **(environment or {})}, **options,
        )  # fmt: skip
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


def ward_rows():
    """Return 80 stays: 'drug' heals a fever more often than 'rest', at a price."""
    rng = np.random.default_rng(11)
    rows = []
    for stay in range(80):
        state = "fever"
        for day in range(6):
            action = "drug" if rng.random() < 0.4 else "rest"
            heals = rng.random() < (0.7 if action == "drug" else 0.3)
            following = "home" if heals and state == "calm" else "calm" if heals else "fever"
            reward = (5.0 if following == "home" else -1.0) - (0.5 if action == "drug" else 0.0)
            rows.append((stay, day, state, action, reward, following, following == "home"))
            if following == "home":
                break
            state = following
    return rows


LOG_HEAD = "episode,step,state,action,reward,next_state,terminated\n"
BASELINE = (
    "state,action,probability\nfever,drug,0.4\nfever,rest,0.6\ncalm,drug,0.4\ncalm,rest,0.6\n"
)


@dataclass(frozen=True)
class Ward:
    """Where the files are, and what they hold."""

    folder: Path
    log: Path
    baseline: Path
    text: str

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content, encoding="utf-8")
        return path

    def improve(self, *more, log=None, baseline=None, gamma=0.9, out="out"):
        """Return the arguments of an ordinary ``improve``, some replaced."""
        usual = {"--baseline": baseline or self.baseline, "--gamma": gamma,
                 "--out": self.folder / out}  # fmt: skip
        if not {"--compare", "--guarantee", "--caution"} & {*map(str, more)}:
            usual["--algorithm"] = "approx-soft-spibb"  # the default takes longer
        return ["improve", log or self.log, *_unless_given(usual, more), *more]

    def audit(self, policy, *more, gamma=0.9):
        usual = {"--baseline": self.baseline, "--policy": policy, "--gamma": gamma}
        return ["audit", self.log, *_unless_given(usual, more), *more]


def _unless_given(usual, more):
    """Leave out usual options that are given, since no option may be given twice."""
    return [part for name, value in usual.items() if name not in more for part in (name, value)]


@pytest.fixture
def ward(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(",".join(str(part) for part in row) + "\n" for row in ward_rows())
    text = LOG_HEAD + rows
    ward = Ward(tmp_path, tmp_path / "log.csv", tmp_path / "baseline.csv", text)
    ward.write("log.csv", text)
    ward.write("baseline.csv", BASELINE)
    return ward


@pytest.fixture
def refused(ward, spibb):
    """Run a command that must be refused, and return its message."""

    def run(*arguments):
        before = sorted(path for path in ward.folder.rglob("*"))
        ran = spibb(*arguments)
        assert ran.code == 2, ran
        assert ran.out == ""
        assert ran.err.startswith("Error: ")
        assert len(ran.err.splitlines()) == 1, "more than one line"
        assert "Traceback" not in ran.err
        assert sorted(path for path in ward.folder.rglob("*")) == before, "something was written"
        return ran.err

    return run
