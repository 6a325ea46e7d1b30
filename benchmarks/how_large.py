"""Time and memory against rows, states, actions, successors and gamma: a table and a figure.

    python benchmarks/how_large.py [--out docs/images]      # about four minutes

writes how-large.csv and how-large.svg. Every point is a process of its own. Time is that of the
processor, all threads together, so that others on the machine disturb it little; memory is what a
search takes beyond its counts, or a command at its most.
"""

import argparse
import csv
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import large_logs
import numpy as np
import pyarrow as pa
import pyarrow.parquet
from large_models import Peak, _resident, corridor, counts_of, random_graph

from spibb import ApproxSoftSPIBB, ExactSoftSPIBB, Problem, TabularMDP, count_log, solve
from spibb.pictures import own_settings, to_svg
from spibb.problem import ProblemBatch

SEARCHES = {"Approx-Soft-SPIBB": ApproxSoftSPIBB, "Exact-Soft-SPIBB": ExactSoftSPIBB}
GRAPHS = {"random graph": random_graph, "corridor": corridor}
# What is varied, by its title: values, curves, and what is held fixed.
AXES = {
    "rows": ((10**4, 10**5, 10**6, 10**7), ("count_log", "spibb improve"),
             "100 states, 5 actions; Parquet,\nnext_state derived"),
    "states": ((10**3, 3 * 10**3, 10**4, 3 * 10**4, 10**5), tuple(SEARCHES),
               "10 actions, 5 successors, gamma .99"),
    "actions": ((4, 16, 64, 256, 1024), tuple(SEARCHES), "2,500 states, 5 successors, gamma .99"),
    "successors": ((2, 5, 15, 50), tuple(SEARCHES), "20,000 states, 10 actions, gamma .99"),
    "1 / (1 - gamma)": ((10, 10**2, 10**3, 10**4), tuple(GRAPHS),
                        "20,000 states, 10 actions, 5 successors;\noptimal planning"),
}  # fmt: skip
FIELDS = ("axis", "value", "curve", "cpu_seconds", "megabytes")


def measured(function):
    """Return the seconds of the processor, and the memory in MB, that a call takes."""
    held, begun = _resident(), time.process_time()
    with Peak() as peak:
        function()
    return time.process_time() - begun, (peak.most - held) / 1e6


def search(curve, n_states, n_actions, n_successors):
    """Measure Soft-SPIBB to convergence, from counts."""
    counts, baseline = counts_of(n_states, n_actions, n_successors)
    problem = Problem.of(counts, baseline=baseline, gamma=0.99, accept_baseline=True)
    return measured(lambda: SEARCHES[curve](epsilon=1.0).search(ProblemBatch.alone(problem)))


def plan(curve, horizon):
    """Measure optimal planning at a discount of 1 - 1 / horizon."""
    mdp = GRAPHS[curve](20_000)
    model = TabularMDP(mdp.rows, mdp.reward, 1.0 - 1.0 / horizon)
    return measured(lambda: solve(model))


def count(folder, n_rows):
    """Measure counting while reading."""
    return measured(lambda: count_log(Path(folder) / f"{n_rows}.parquet"))


def point(axis, curve, value, folder):
    """Measure one point; what is compiled is loaded by a small one before."""
    if curve == "spibb improve":
        return commanded(folder, value)
    if axis == "rows":
        count(folder, 10**4)
        return count(folder, value)
    if axis == "1 / (1 - gamma)":
        solve(GRAPHS[curve](3_000))
        return plan(curve, value)
    for n_states in (500, 2_500):
        search(curve, n_states, 40, 3)
    sizes = {"states": 20_000, "actions": 10, "successors": 5}
    if axis == "actions":
        sizes["states"] = 2_500
    sizes[axis] = value
    return search(curve, *sizes.values())


def commanded(folder, n_rows):
    """Return the seconds and the memory of the whole command `spibb improve`.

    To be asked by a small process: the system counts what a parent holds as its child's.
    """
    words = [
        "improve", Path(folder) / f"{n_rows}.parquet", "--baseline", Path(folder) / "baseline.csv",
        "--gamma", 0.9, "--out", Path(folder) / f"out-{n_rows}",
    ]  # fmt: skip
    command = [sys.executable, "-c", large_logs.COMMAND, *map(str, words)]
    with open(os.devnull, "w") as nowhere:
        silent = [(os.POSIX_SPAWN_DUP2, nowhere.fileno(), number) for number in (1, 2)]
        child = os.posix_spawn(sys.executable, command, os.environ, file_actions=silent)
    _, status, used = os.wait4(child, 0)
    if status:
        raise SystemExit(f"spibb improve failed on {n_rows:,} rows")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3


def asked(axis, curve, value, folder):
    """Measure one point in a process of its own."""
    given = json.dumps([axis, curve, value, str(folder)])
    with os.popen(f"{sys.executable} {__file__} --point '{given}'") as told:
        return json.loads(told.read().splitlines()[-1])


def write_logs(folder):
    """Write logs with text labels, and their baseline."""
    process = large_logs.Process(100, 5)
    process.write_policies(folder, named=True)
    for n_rows in AXES["rows"][0]:
        found = process.log(n_rows)
        names = (("state", "ward", 100), ("action", "treatment", 5))
        columns = {
            name: pa.array(large_logs._names(word, n)).take(pa.array(found[name]))
            for name, word, n in names
        }
        columns |= {name: found[name] for name in ("episode", "reward")}
        pyarrow.parquet.write_table(pa.table(columns), folder / f"{n_rows}.parquet")


def draw(points):
    """Return log-log panels: time above, memory below, what is varied along."""
    with own_settings():
        from matplotlib.figure import Figure
        from matplotlib.ticker import NullFormatter

        figure = Figure(figsize=(17, 7), layout="constrained")
        panels = figure.subplots(2, len(AXES), sharex="col")
        measures = (("cpu_seconds", "processor seconds"), ("megabytes", "memory, MB"))
        for column, (axis, (values, curves, fixed)) in enumerate(AXES.items()):
            for row, (field, label) in enumerate(measures):
                axes = panels[row][column]
                for curve in curves:
                    some = [p for p in points if (p["axis"], p["curve"]) == (axis, curve)]
                    y = [max(p[field], 1e-3 if row == 0 else 1.0) for p in some]
                    axes.loglog([p["value"] for p in some], y, "o-", label=curve)
                ends = np.array([values[0], values[-1]], float)
                last = max(p[field] for p in points if p["axis"] == axis)
                axes.loglog(ends, last * ends / ends[1], ":", color="grey", label="linear")
                axes.grid(alpha=0.3)
                axes.set_ylabel(label)
                axes.set_xticks(values, [f"{value:,}" for value in values])
                axes.tick_params(axis="x", labelrotation=30)
                axes.xaxis.set_minor_formatter(NullFormatter())
                axes.yaxis.set_minor_formatter(NullFormatter())
            panels[0][column].legend(fontsize=8)
            panels[0][column].set_title(fixed, fontsize=8)
            panels[1][column].set_xlabel(axis)
        return to_svg(figure)


def main():
    """Measure every point, and write the table and the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    parser.add_argument("--point", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.point is not None:
        print(json.dumps(point(*json.loads(given.point))))
        return
    points = []
    with tempfile.TemporaryDirectory() as folder:
        write_logs(Path(folder))
        for axis, (values, curves, _) in AXES.items():
            for value in values:
                for curve in curves:
                    cpu, memory = asked(axis, curve, value, folder)
                    cells = (axis, value, curve, round(cpu, 4), round(memory, 2))
                    print(*cells, flush=True)
                    points.append(dict(zip(FIELDS, cells, strict=True)))
    given.out.mkdir(parents=True, exist_ok=True)
    with open(given.out / "how-large.csv", "w", newline="") as file:
        table = csv.DictWriter(file, FIELDS, lineterminator="\n")
        table.writeheader()
        table.writerows(points)
    (given.out / "how-large.svg").write_text(draw(points))


if __name__ == "__main__":
    main()
