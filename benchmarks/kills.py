"""Kill, fill the disk, race: what was tried, and what was lost.

    python benchmarks/kills.py [--times 30] [--page docs/files.md]

Each row repeats a command that is killed at a random moment, meets a full disk, or runs beside
another like it; what may not be lost is then compared with what was there before, or with an
undisturbed run. The exit code is 1 if anything was lost or torn, or left behind after the next run.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from spibb.studies.publishing import fill_page
from spibb.studies.registry import PLANS

DEMO = Path(__file__).parents[1] / "src/spibb/cli/demo"
SMOKE = PLANS["random-mdps-smoke"]
TINY = replace(
    SMOKE, name="tiny", n_states=6, n_actions=2, n_successors=2, max_steps=10, eta=(0.5,),
    trajectories=(5, 20), n_runs=200, runs_per_job=4, settings=SMOKE.settings[:3],
)  # fmt: skip


@dataclass
class Row:
    """What was tried, how often, how often it struck in the middle, and what was lost."""

    what: str
    n: int = 0
    n_struck: int = 0
    n_lost: int = 0
    n_left: int = 0

    def text(self) -> str:
        """Return the row of a table."""
        return f"| {self.what} | {self.n} | {self.n_struck} | {self.n_lost} | {self.n_left} |"


def content(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file below a folder that has a name for the user."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def spibb(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "spibb", *map(str, arguments)]


def improve(out: Path, epsilon: float, *more: str) -> list[str]:
    return spibb(
        "improve", DEMO / "log.csv", "--baseline", DEMO / "baseline.csv", "--gamma", 0.95,
        "--reward-range", -10, 10, "--epsilon", epsilon, "--out", out, *(more or ["--overwrite"]),
    )  # fmt: skip


def quietly(command: list[str], **options: object) -> int:
    done = subprocess.run(command, capture_output=True, check=False, **options)  # type: ignore[call-overload]
    return int(done.returncode)


def kill_during(command: list[str], longest: float) -> bool:
    """Start a command, kill it with all it started at a random moment; whether it was running."""
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    time.sleep(random.uniform(0.0, longest))
    is_running = process.poll() is None
    if is_running:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return is_running


def duration(command: list[str]) -> float:
    began = time.monotonic()
    assert quietly(command) == 0
    return time.monotonic() - began


def hidden(folder: Path) -> int:
    return sum(1 for path in folder.iterdir() if path.name.startswith("."))


def killed_improvements(folder: Path, times: int) -> Row:
    """An earlier result is whole at every moment: the old one or the new one."""
    row, out = Row("`improve --overwrite` killed"), folder / "out"
    wholes = []
    for epsilon in (0.1, 1.0):
        longest = duration(improve(out, epsilon))
        wholes.append(content(out))
    for k in range(times):
        row.n += 1
        row.n_struck += kill_during(improve(out, (0.1, 1.0)[k % 2]), 1.1 * longest)
        if not out.exists():  # put aside at that very moment: the next run finds it again
            assert quietly(improve(out, 0.1, "--format=json")) == 2
        row.n_lost += content(out) not in wholes
    assert quietly(improve(out, 0.1)) == 0
    row.n_left = hidden(folder)
    return row


def killed_studies(folder: Path, times: int) -> Row:
    """A study that is killed and resumed comes to the bytes of one that was not."""
    row = Row("`study run` killed and resumed")
    (folder / "plan.toml").write_text(TINY.to_toml(), encoding="utf-8")
    command = spibb("study", "run", folder / "plan.toml", "--workers", 2, "--out")
    longest = duration([*command, str(folder / "whole")])
    whole = content(folder / "whole")
    for k in range(max(1, times // 5)):
        out = folder / f"killed-{k}"
        first: list[str] = []
        for _ in range(5):
            row.n += 1
            row.n_struck += kill_during([*command, str(out), *first], longest)
            first = ["--resume"] if (out / "plan.toml").exists() else []
        assert quietly([*command, str(out), *first]) == 0 or first == []
        found = content(out)
        row.n_lost += {name: found.get(name) for name in whole} != whole
        row.n_left += len(found.keys() - whole.keys())
    return row


def small_files(folder: Path, times: int) -> Row:
    """Files may grow to a few kilobytes only, as on a full disk: the earlier result stays."""
    row, out = Row("`improve --overwrite`, files limited to 1 to 60 kB"), folder / "limited"
    assert quietly(improve(out, 0.1)) == 0
    before = content(out)
    for _ in range(times):
        size = random.randrange(1_000, 60_000)
        limit = lambda size=size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))  # noqa: E731
        code = quietly(improve(out, 1.0), preexec_fn=limit)
        row.n += 1
        row.n_struck += code != 0
        if code != 0:
            row.n_lost += content(out) != before
        else:
            assert quietly(improve(out, 0.1)) == 0
    row.n_left = hidden(folder)
    return row


def races(folder: Path, times: int) -> Row:
    """Two results for one folder at the same time: each is whole or refused."""
    row, out = Row("two `improve --overwrite` into one folder"), folder / "race"
    wholes = []
    for epsilon in (0.1, 1.0):
        assert quietly(improve(out, epsilon)) == 0
        wholes.append(content(out))
    for _ in range(times):
        both = [
            subprocess.Popen(
                improve(out, epsilon), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            for epsilon in (0.1, 1.0)
        ]
        codes = [process.wait() for process in both]
        row.n += 1
        row.n_struck += 0 in codes
        row.n_lost += content(out) not in wholes
    row.n_left = hidden(folder)
    return row


TRIED: list[Callable[[Path, int], Row]] = [
    killed_improvements, killed_studies, small_files, races,
]  # fmt: skip


def main() -> int:
    """Try everything, print the table, and tell by the exit code whether anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", type=Path)
    asked = parser.parse_args()
    random.seed(asked.seed)
    folder = Path(tempfile.mkdtemp(prefix="spibb-kills-"))
    lines = ["| tried | times | struck | lost or torn | left behind |", "|---|---|---|---|---|"]
    rows = []
    try:
        for one in TRIED:
            (folder / one.__name__).mkdir()
            rows.append(one(folder / one.__name__, asked.times))
            print(rows[-1].text(), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    table = "\n".join([*lines, *(row.text() for row in rows)])
    if asked.page is not None:
        page = fill_page(asked.page.read_text(encoding="utf-8"), {"kills": table})
        asked.page.write_text(page, encoding="utf-8")
    return int(any(row.n_lost or row.n_left for row in rows))


if __name__ == "__main__":
    sys.exit(main())
