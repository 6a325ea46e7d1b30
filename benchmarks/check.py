"""Compare the ratios that benchmarks print with a stored table: ``make bench-check``.

    python benchmarks/check.py [--write] [--folder benchmarks]

A ratio is the time of a peer (plain loops, a general solver, the plain step) by that of spibb, both
in one run and by one clock. It changes little from machine to machine, where times do. The check
counts processor time, with one thread, so that a busy machine does not fail it either.

A benchmark fails if its ratio is 1.5 times worse than in `ratios.json`. One that seems to is run
twice more, and its best ratio counts. `--write` runs the benchmarks of the table and stores what
they come to: do so on an idle machine, when a figure has become better, or for a new line.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

WORSE = 1.5
N_TRIES = 3
ONE_THREAD = dict.fromkeys(("SPIBB_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")


def run(folder: Path, names: Sequence[str]) -> dict[str, float]:
    """Run benchmarks and return their ratios.

    Args:
        folder: The folder of the benchmarks.
        names: Which of them, as ``test_speed.py::test_improve_many``.
    """
    with tempfile.TemporaryDirectory() as name:
        found = Path(name, "ratios.json")
        command = [
            sys.executable, "-m", "pytest", *[str(folder / one) for one in names], "-q",
            "-p", "no:xdist", "-p", "no:cacheprovider", "--benchmark-timer=time.process_time",
            "--benchmark-columns=median", f"--rootdir={folder}", "--ratios", str(found),
        ]  # fmt: skip
        clock = {"SPIBB_BENCH_PROCESSOR": "1"}
        subprocess.run(command, env={**os.environ, **ONE_THREAD, **clock}, check=False)
        return json.loads(found.read_text(encoding="utf-8")) if found.exists() else {}


def worse(stored: Mapping[str, float], found: Mapping[str, float]) -> list[str]:
    """Return the benchmarks that are worse than stored, or have no ratio."""
    return [name for name, ratio in stored.items() if found.get(name, 0.0) * WORSE < ratio]


def best(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    """Return the better ratio of each benchmark."""
    names = {**first, **second}
    return {name: max(first.get(name, 0.0), second.get(name, 0.0)) for name in names}


def main() -> int:
    """Compare, print a table, and tell by the exit code whether all ratios are met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent)
    asked = parser.parse_args()
    table = asked.folder / "ratios.json"
    stored: dict[str, float] = json.loads(table.read_text(encoding="utf-8"))
    found = run(asked.folder, list(stored))
    if asked.write:
        missing = stored.keys() - found.keys()
        rounded = {name: float(f"{found[name]:.3g}") for name in stored if name in found}
        table.write_text(json.dumps(rounded, indent=2) + "\n", encoding="utf-8")
        print(f"{len(rounded)} ratios are in {table}; without one: {sorted(missing)}")
        return 1 if missing else 0
    for _ in range(N_TRIES - 1):
        if again := worse(stored, found):
            found = best(found, run(asked.folder, again))
    failed = worse(stored, found)
    for name, ratio in stored.items():
        told = f"{found[name]:8.3g}" if name in found else "    none"
        print(f"{name:70} stored {ratio:8.3g}  now {told}{'  WORSE' if name in failed else ''}")
    print(f"{len(failed)} of {len(stored)} ratios are {WORSE} times worse than stored, or missing")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
