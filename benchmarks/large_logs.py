"""Time and memory of large logs: counted, improved, evaluated; ratios to pandas reading them.

A call is compared with pandas' call, a command, which starts Python and loads what it needs, with a
command that does so and reads the same file with pandas.

    python benchmarks/large_logs.py [--folder FOLDER] [--rows 5] [--files 20]

writes logs of a sparse process to a folder that is deleted at the end, and prints a table. Each
line is a process of its own, whose largest memory is told by the system; lines of the small log are
the least of three. Rows of the small log, and of each file of the large one, are in millions.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

STEPS, SUCCESSORS = 50, 5
CALL, PROCESS, REPEATS = "pandas reads", "a process that reads with pandas", 3


class Process:
    """A random graph, in which a random baseline acts."""

    def __init__(self, n_states: int, n_actions: int) -> None:
        self.rng = np.random.default_rng(0)
        self.shape = n_states, n_actions
        self.successors = self.rng.integers(0, n_states, (n_states, n_actions, SUCCESSORS))
        self.baseline = 0.9 * self.rng.dirichlet(np.ones(n_actions), n_states) + 0.1 / n_actions

    def log(self, n_rows: int, first: int = 0) -> dict[str, np.ndarray]:
        """Return episodes of 50 steps, one behind the other."""
        n, rng = n_rows // STEPS, self.rng
        columns = {
            name: np.empty((n, STEPS), np.int64) for name in ("state", "action", "next_state")
        }
        x, limits = rng.integers(0, self.shape[0], n), self.baseline.cumsum(axis=1)
        for t in range(STEPS):
            a = (rng.random(n)[:, None] > limits[x]).sum(axis=1).clip(0, self.shape[1] - 1)
            y = self.successors[x, a, rng.integers(0, SUCCESSORS, n)]
            for name, values in zip(columns, (x, a, y), strict=True):
                columns[name][:, t] = values
            x = y
        found = {name: values.ravel() for name, values in columns.items()}
        found["reward"] = np.round(rng.normal(size=n * STEPS) + found["state"] / self.shape[0], 3)
        found["episode"] = first + np.repeat(np.arange(n), STEPS)
        found["step"] = np.tile(np.arange(STEPS), n)
        return found

    def write_policies(self, folder: Path, *, named: bool) -> None:
        """Write the baseline, and another policy near it."""
        other = self.baseline * np.exp(0.3 * self.rng.normal(size=self.shape))
        other /= other.sum(axis=1, keepdims=True)
        for name, table in (("baseline", self.baseline), ("policy", other)):
            known = [np.arange(n) for n in self.shape]
            if named:
                known = [_names("ward", self.shape[0]), _names("treatment", self.shape[1])]
            states = np.repeat(known[0], self.shape[1])
            actions = np.tile(known[1], self.shape[0])
            columns = {"state": states, "action": actions, "probability": table.ravel()}
            pyarrow.csv.write_csv(pa.table(columns), folder / f"{name}.csv")


def _names(what: str, n: int) -> np.ndarray:
    return np.array([f"{what}-{k:05d}" for k in range(n)])


def write_small(folder: Path, n_rows: int) -> None:
    """Write a log with text labels and without next states, as Parquet and CSV."""
    process = Process(100, 5)
    process.write_policies(folder, named=True)
    found = process.log(n_rows)
    table = pa.table({
        "episode": found["episode"],
        "state": pa.array(_names("ward", 100)).take(pa.array(found["state"])),
        "action": pa.array(_names("treatment", 5)).take(pa.array(found["action"])),
        "reward": found["reward"],
    })  # fmt: skip
    pyarrow.parquet.write_table(table, folder / "log.parquet")
    pyarrow.csv.write_csv(table, folder / "log.csv")


def write_large(folder: Path, n_files: int, n_rows: int) -> None:
    """Write logs of integers: with next states; without; and with episodes side by side."""
    process = Process(20_000, 10)
    (folder / "policies").mkdir()
    process.write_policies(folder / "policies", named=False)
    for kind in ("given", "derived", "between", "shuffled"):
        (folder / kind).mkdir()
    for k in range(n_files):
        found = process.log(n_rows, k * n_rows // STEPS)
        table = pa.table(found)
        name = f"{k:02d}.parquet"
        given = table.drop_columns(["step"])
        pyarrow.parquet.write_table(given, folder / "given" / name)
        derived = given.drop_columns(["next_state"])
        pyarrow.parquet.write_table(derived, folder / "derived" / name)
        by_time = pc.sort_indices(table, [("step", "ascending")])
        between = table.drop_columns(["next_state"]).take(by_time)
        pyarrow.parquet.write_table(between, folder / "between" / name)
        if k == 0:
            order = np.random.default_rng(1).permutation(len(table))
            rows = table.drop_columns(["next_state"]).take(pa.array(order))
            pyarrow.parquet.write_table(rows, folder / "shuffled" / name)


class Taken(NamedTuple):
    """What a process took: seconds by the clock, of the processor, and its memory in MB."""

    seconds: float
    processor: float
    memory: float

    def least(self, other: Taken | None) -> Taken:
        """Return the least of each."""
        return self if other is None else Taken(*map(min, self, other))


def run(code: str, *arguments: object) -> Taken:
    """Run Python; seconds are those it prints at the end, or those of the whole process."""
    meter = textwrap.dedent("""
        import resource, subprocess, sys, time
        begin = time.perf_counter()
        ran = subprocess.run(sys.argv[1:], capture_output=True, text=True)
        seconds = time.perf_counter() - begin
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(ran.returncode, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3)
        print(ran.stdout or ran.stderr)
    """)
    command = [sys.executable, "-c", meter, sys.executable, "-c", textwrap.dedent(code)]
    told = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True).stdout
    head, _, printed = told.partition("\n")
    status, seconds, processor, memory = map(float, head.split())
    if status:
        raise SystemExit(printed)
    last = printed.strip().splitlines()[-1] if printed.strip() else ""
    if last.startswith("seconds "):
        seconds, processor = map(float, last.split()[1:])
    return Taken(seconds, processor, memory)


PANDAS = """
    import sys, time
    import pandas as pd
    file = sys.argv[1]
    begin, used = time.perf_counter(), time.process_time()
    pd.read_csv(file) if file.endswith("csv") else pd.read_parquet(file)
    print("seconds", time.perf_counter() - begin, time.process_time() - used)
"""
PANDAS_PROCESS = """
    import sys
    import pandas as pd
    file = sys.argv[1]
    pd.read_csv(file) if file.endswith("csv") else pd.read_parquet(file)
"""
COUNT = """
    import sys, time
    import spibb
    spibb.count_log(sys.argv[1])  # what is compiled is loaded
    begin, used = time.perf_counter(), time.process_time()
    spibb.count_log(sys.argv[2])
    print("seconds", time.perf_counter() - begin, time.process_time() - used)
"""
READ = """
    import sys, time
    import spibb
    spibb.Counts.from_log(spibb.read_log(sys.argv[1]))
    begin, used = time.perf_counter(), time.process_time()
    spibb.Counts.from_log(spibb.read_log(sys.argv[2]))
    print("seconds", time.perf_counter() - begin, time.process_time() - used)
"""
COMMAND = "import sys; sys.argv[0] = 'spibb'; from spibb.cli.app import main; main()"


def small_lines(folder: Path, n_rows: int) -> None:
    """Print the lines of the small log."""
    asked = ("--baseline", folder / "baseline.csv", "--gamma", 0.9)
    tiny = folder / "tiny"
    tiny.mkdir()
    process = Process(100, 5)
    pyarrow.parquet.write_table(pa.table(process.log(5_000)), tiny / "tiny.parquet")
    for kind in ("parquet", "csv"):
        log = folder / f"log.{kind}"
        out = ("--out", folder / kind, "--overwrite")
        asked_of = {
            CALL: (PANDAS, log),
            PROCESS: (PANDAS_PROCESS, log),
            "count_log": (COUNT, tiny / "tiny.parquet", log),
            "read_log and Counts.from_log": (READ, tiny / "tiny.parquet", log),
            "spibb improve": (COMMAND, "improve", log, *asked, *out),
            "spibb evaluate": (COMMAND, "evaluate", log, *asked, "--policy", folder / "policy.csv"),
        }  # fmt: skip
        lines: dict[str, Taken] = {}
        for _ in range(REPEATS):  # in turns, so that what else the machine does befalls all of them
            for name, what in asked_of.items():
                lines[name] = run(*what).least(lines.get(name))
        for name, taken in lines.items():
            peer = lines[PROCESS if asked_of[name][0] in (COMMAND, PANDAS_PROCESS) else CALL]
            ratios = taken.seconds / peer.seconds, taken.processor / peer.processor
            told = f"{ratios[0]:.1f} by the clock, {ratios[1]:.1f} of the processor"
            line(f"{name}, {kind}", n_rows, taken, told)


def large_lines(folder: Path, n_files: int, n_rows: int) -> None:
    """Print the lines of the large log, and of parts of it."""
    tiny = folder / "given" / "00.parquet"
    titles = {
        "given": "next_state given", "derived": "next_state derived",
        "between": "rows by time, episodes side by side, next_state derived",
        "shuffled": "rows in any order",
    }  # fmt: skip
    for kind, title in titles.items():
        files = sorted((folder / kind).iterdir())
        parts = {1, n_files // 4, n_files // 2, n_files} if kind == "given" else {n_files}
        for n in sorted({min(n, len(files)) for n in parts if n}):
            some = folder / f"{kind}-{n}"
            some.mkdir()
            for file in files[:n]:
                (some / file.name).symlink_to(file)
            taken = run(COUNT.replace("spibb.count_log(sys.argv[1])", "pass"), tiny, some)
            line(f"count_log, {title}", n * n_rows, taken, rate(n * n_rows, taken))
        asked = ("--baseline", folder / "policies" / "baseline.csv", "--gamma", 0.9)
        out = folder / f"improved-{kind}"
        taken = run(COMMAND, "improve", some, *asked, "--out", out)
        line(f"spibb improve, {title}", n * n_rows, taken, rate(n * n_rows, taken))


def rate(n_rows: int, taken: Taken) -> str:
    """Return how fast rows went by."""
    return f"{n_rows / taken.seconds / 1e6:.1f} million rows a second"


def line(name: str, n_rows: int, taken: Taken, more: str) -> None:
    """Print a line of the table."""
    cells = f"{taken.seconds:.2f} | {taken.processor:.2f} | {taken.memory:.0f}"
    print(f"| {name} | {n_rows:,} | {cells} | {more} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--rows", type=float, default=5.0)
    parser.add_argument("--files", type=int, default=20)
    asked = parser.parse_args()
    folder, n_rows = Path(tempfile.mkdtemp(dir=asked.folder)), round(1e6 * asked.rows)
    try:
        print("| what | rows | seconds | of the processor | MB | ratio to pandas, or rate |")
        print("|---|---|---|---|---|---|")
        write_small(folder, n_rows)
        small_lines(folder, n_rows)
        begin = time.perf_counter()
        if asked.files:
            write_large(folder, asked.files, n_rows)
            print(f"written in {time.perf_counter() - begin:.0f} s", file=sys.stderr)
            large_lines(folder, asked.files, n_rows)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
