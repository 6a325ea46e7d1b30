"""Interrupt commands at random moments, on a busy machine: none crashes, none goes on.

    python benchmarks/interrupts.py [--times 300] [--load 2] [--seed 0]

Studies in one process and in several, and `improve`, get SIGINT as a terminal sends it, to every
process of the group. Each has to end with exit code 130 within two seconds. A command that is
interrupted before Python answers signals ends by the signal itself, which a shell shows as 130.
One that is interrupted while Python loads itself, before anything of spibb runs, ends as Python has
it; these are counted apart. The exit code of this program is 1 if any command did otherwise.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from spibb.studies.registry import PLANS

DEMO = Path(__file__).parents[1] / "src/spibb/cli/demo"
# Of the seconds that a command takes undisturbed, those in which it is interrupted.
SHARE = 0.8
SECONDS = 2.0
SMOKE = PLANS["random-mdps-smoke"]
# A study that is not over before it is interrupted, of jobs of about 20 ms.
ENDLESS = replace(
    SMOKE, name="endless", n_states=6, n_actions=2, n_successors=2, max_steps=10, eta=(0.5,),
    trajectories=(5, 20), n_runs=40_000, runs_per_job=4, settings=SMOKE.settings[:3],
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """How an interrupted command ended.

    Attributes:
        code: Its exit code; that of a shell where it ended by the signal.
        seconds: From the interrupt to the end.
        errors: What it said.
    """

    code: int
    seconds: float
    errors: str

    @property
    def is_before(self) -> bool:
        """Whether Python was loading itself: nothing of spibb is in the traceback."""
        return self.code == 1 and "Traceback" in self.errors and "spibb" not in self.errors

    @property
    def is_prompt(self) -> bool:
        """Whether it ended as it has to."""
        return self.code == 130 and self.seconds <= SECONDS


def interrupted(command: Sequence[str], moment: float) -> Outcome | None:
    """Start a command and interrupt it some seconds later; None if it was over by then."""
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    time.sleep(moment)
    if process.poll() is not None:
        process.communicate()
        return None
    began = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        _, errors = process.communicate()
    code = 130 if process.returncode == -signal.SIGINT else process.returncode
    return Outcome(code, time.monotonic() - began, errors)


def study(folder: Path, workers: int) -> Callable[[int], list[str]]:
    """Return the command of a study that does not end by itself, for each number a new folder."""
    (folder / "plan.toml").write_text(ENDLESS.to_toml(), encoding="utf-8")
    command = [sys.executable, "-m", "spibb", "study", "run", str(folder / "plan.toml")]
    return lambda k: [*command, "--workers", str(workers), "--out", str(folder / f"{workers}-{k}")]


def improve(folder: Path, *more: str) -> Callable[[int], list[str]]:
    """Return the command that improves the demo's policy."""
    command = [
        sys.executable, "-m", "spibb", "improve", str(DEMO / "log.csv"),
        "--baseline", str(DEMO / "baseline.csv"), "--gamma", "0.95",
        "--reward-range", "-10", "10", *more,
    ]  # fmt: skip
    return lambda k: [*command, "--out", str(folder / f"improved-{k}")]


def undisturbed(command: Sequence[str]) -> float:
    """Return the seconds that a command takes."""
    began = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    return time.monotonic() - began


@contextmanager
def load(n_processes: int) -> Iterator[None]:
    """Keep cores busy."""
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n_processes)
    ]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def main() -> int:
    """Interrupt each command, print a table, and tell by the exit code whether all were prompt."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=300)
    parser.add_argument("--load", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    random.seed(asked.seed)
    is_prompt = True
    with tempfile.TemporaryDirectory(prefix="spibb-interrupts-") as name, load(asked.load):
        folder = Path(name)
        commands = {
            "study in one process": study(folder, 1),
            "study in two processes": study(folder, 2),
            "improve": improve(folder),
            "improve --epsilon 0.5": improve(folder, "--epsilon", "0.5"),
        }
        print(
            "| command | interrupted | exit codes | longest, s | median, s | not prompt | before |"
        )
        print("|---|---|---|---|---|---|---|")
        subprocess.run([*study(folder, 1)(-1), "--runs", "4"], check=True, capture_output=True)
        for what, command in commands.items():
            # A study is past its start, and at work, after what `improve` takes.
            whole = command if "study" not in what else commands["improve --epsilon 0.5"]
            undisturbed([*whole(-2), "--overwrite"])  # the first one may compile
            longest = SHARE * undisturbed([*whole(-2), "--overwrite"])
            found: list[Outcome] = []
            for k in range(asked.times // len(commands)):
                outcome = interrupted(command(k), random.uniform(0.0, longest))
                found += [] if outcome is None else [outcome]
            n_before = sum(one.is_before for one in found)
            found = [one for one in found if not one.is_before]
            late = [one for one in found if not one.is_prompt]
            is_prompt = is_prompt and not late and bool(found)
            codes = Counter(one.code for one in found)
            seconds = sorted(one.seconds for one in found) or [float("nan")]
            print(
                f"| {what} | {len(found)} | {dict(codes)} | {seconds[-1]:.2f} | "
                f"{seconds[len(seconds) // 2]:.2f} | {len(late)} | {n_before} |",
                flush=True,
            )  # fmt: skip
            for one in late:
                print(f"    {one}", file=sys.stderr, flush=True)
    print(f"load: {asked.load} busy processes on {os.cpu_count()} cores, and {os.getloadavg()}")
    return 0 if is_prompt else 1


if __name__ == "__main__":
    sys.exit(main())
