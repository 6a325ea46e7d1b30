"""Small plans, studies run as processes of their own, and the processes that belong to them."""

import ipaddress
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from spibb.studies.plan import Plan
from spibb.studies.registry import PLANS
from spibb.studies.running import run_study

SMOKE = PLANS["random-mdps-smoke"]
# Jobs of about 20 ms: enough of them that ten kills come before the end.
TINY = replace(
    SMOKE, name="tiny", n_states=6, n_actions=2, n_successors=2, max_steps=10, eta=(0.5,),
    trajectories=(5, 20), n_runs=400, runs_per_job=4, settings=SMOKE.settings[:3],
)  # fmt: skip


def run_all(plan: Plan, out: Path, **options) -> list:
    """Run a study here and return its progress."""
    return list(run_study(plan, out, **options))


def content(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file below a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def wait_for(condition, *, seconds: float = 60.0, what: str = "it"):
    """Return what the condition returns as soon as that is true."""
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.005)


@dataclass(frozen=True)
class Study:
    """A plan in a file, and the command that runs it."""

    plan: Path
    out: Path

    def n_parts(self) -> int:
        return len(list(self.out.glob("parts/*.parquet")))

    def start(self, *more: str, workers: int = 2) -> subprocess.Popen:
        """Start the command as a terminal would: the leader of a group that may be interrupted."""
        command = [sys.executable, "-m", "spibb", "study", "run", self.plan, "--out",
                   self.out, "--workers", workers, *more]  # fmt: skip
        return subprocess.Popen(
            [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip


@dataclass(frozen=True)
class Process:
    """A process as the system knows it: its id may be given to another, with another start."""

    pid: int
    parent: int
    start: str
    title: str

    @classmethod
    def read(cls, pid: int) -> "Process | None":
        """Return a process, or None if it is gone or only waits to be counted as gone."""
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
            title = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        state, parent, *rest = stat.rpartition(")")[2].split()
        if state in "ZX":
            return None
        return cls(pid, int(parent), rest[17], title.replace("\0", " "))

    @property
    def is_alive(self) -> bool:
        now = Process.read(self.pid)
        return now is not None and now.start == self.start


def descendants(pid: int) -> list[Process]:
    """Return the children of a process, their children, and so on."""
    if not os.path.exists("/proc/self/stat"):
        pytest.skip("needs /proc to find the processes that a study started")
    numbers = (int(entry) for entry in os.listdir("/proc") if entry.isdecimal())
    everyone = [process for number in numbers if (process := Process.read(number))]
    found, seen = [], {pid}
    while new := [one for one in everyone if one.parent in seen and one.pid not in seen]:
        found += new
        seen |= {one.pid for one in new}
    return found


def listening(processes: Sequence[Process]) -> set[str]:
    """Return the addresses at which some processes wait for others to connect."""
    sockets = set()
    for one in processes:
        with suppress(OSError):
            links = [os.readlink(entry.path) for entry in os.scandir(f"/proc/{one.pid}/fd")]
            sockets |= {link[8:-1] for link in links if link.startswith("socket:[")}
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:  # it listens
                words = bytes.fromhex(fields[1].split(":")[0])
                parts = [words[k : k + 4][::-1] for k in range(0, len(words), 4)]
                found.add(str(ipaddress.ip_address(b"".join(parts))))
    return found


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """Mount a small filesystem of its own, or skip where that is not allowed."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command, so no disk can be made full")
    if done.returncode != 0:
        pytest.skip(f"may not mount a filesystem to fill: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
