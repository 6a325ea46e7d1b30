"""The helicopter study on a GPU machine: what it will cost, whether it is right, and its pieces.

``check`` (under 90 s) times a short training of one data set phase by phase, predicts the cost of
the whole plan, compares trainings and flights with the CPU's, and writes ``timings.json``:

    python benchmarks/gpu_helicopter_study.py check --out OUT

``run`` does the data sets from FIRST to just before LAST of a plan and keeps the rows, after each
data set, in one file that needs nothing but NumPy; it stops before a time limit:

    python benchmarks/gpu_helicopter_study.py run FIRST LAST --out OUT --minutes 9

``collect`` makes a study's folder of such files, as ``spibb study run`` would have written it:

    python benchmarks/gpu_helicopter_study.py collect FOLDER FILE...
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from spibb.studies.helicopter.plan import PLANS, HelicopterPlan
from spibb.studies.helicopter.run import (
    draw_data,
    fly,
    fly_all,
    run_columns,
    to_table,
    train,
)

# Scores of the same networks on both devices differ where rounding turned an action.
_SAME = 0.05


class Clock:
    """Keeps the seconds of phases."""

    def __init__(self, wait: Callable[[], None]) -> None:
        self.seconds: dict[str, float] = {}
        self._wait = wait

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the seconds of what happens inside."""
        self._wait()
        began = time.perf_counter()
        yield
        self._wait()
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began


def waiter(device: str) -> Callable[[], None]:
    if device == "cpu":
        return lambda: None
    import torch

    return torch.cuda.synchronize


def warm_up(plan: HelicopterPlan, device: str) -> None:
    """Compile everything on a small plan."""
    small = replace(plan, sizes=(200,), n_passes=2, n_steps=20, n_episodes=20)
    for kind in dict.fromkeys(("cpu", device)):
        run_columns(small, 0, 1, kind)


def measure(plan: HelicopterPlan, n_passes: int, device: str) -> dict[str, Any]:
    """Time one data set with all its runs, and predict the whole plan."""
    short = replace(plan, n_passes=n_passes)
    clock, runs = Clock(waiter(device)), range(plan.n_trainings)
    with clock.phase("data and counts"):
        data = draw_data(short, 0)
    with clock.phase("training"):
        population = train(short, data, list(runs), device)
    scored = []
    for place, size in enumerate(plan.sizes):
        with clock.phase(f"flights, size {size}"):
            n = len(population) // len(data)
            part = slice(place * n, (place + 1) * n)
            scored.append(fly(short, data[place], list(runs), population, part, device))
    n_steps = int(population.n_steps.sum())
    speed = n_steps / clock.seconds["training"]
    n_jobs = plan.n_runs / plan.n_trainings
    flights = sum(s for name, s in clock.seconds.items() if name.startswith("flights"))
    whole = n_jobs * n_steps * plan.n_passes / n_passes
    found: dict[str, Any] = {
        "phases of one data set (s)": {k: round(s, 2) for k, s in clock.seconds.items()},
        "engine": population.engine,
        "diverged": int(population.diverged.sum()),
        "gradient steps a second": round(speed),
        "predicted: data (s)": round(n_jobs * clock.seconds["data and counts"]),
        "predicted: training (s)": round(whole / speed),
        "predicted: flights (s)": round(n_jobs * flights),
    }
    found["predicted: all (s)"] = sum(v for k, v in found.items() if k.startswith("predicted"))
    print(json.dumps(found, indent=2), flush=True)
    for one in scored:
        for k, setting in enumerate(plan.settings):
            print(
                f"{one.size:6d} {setting.label:38} short {one.short[:, k].mean():6.2f} "
                f"long {one.long[:, k].mean():6.2f}"
            )
    return found


def compare(plan: HelicopterPlan, n_passes: int, device: str) -> bool:
    """Compare trainings, and flights of the same networks, with the CPU's."""
    small = replace(plan, sizes=plan.sizes[:1], n_passes=n_passes)
    data, runs = draw_data(small, 0), list(range(plan.n_trainings))
    here, there = (train(small, data, runs, kind) for kind in ("cpu", device))
    scores = [next(fly_all(small, data, runs, one, device)).long for one in (here, there)]
    gap = scores[1] - scores[0]
    noise = np.sqrt((scores[0].var(0, ddof=1) + scores[1].var(0, ddof=1)) / len(runs)) + 1e-3
    worst = int(np.abs(gap.mean(0) / noise).argmax())
    z = float((gap.mean(0) / noise)[worst])
    print(f"\nlong scores, {n_passes} passes on {small.sizes[0]} transitions: CPU, {device}")
    for k, setting in enumerate(plan.settings):
        print(f"{setting.label:38} {scores[0][:, k].mean():6.3f} {scores[1][:, k].mean():6.3f}")
    few = runs[:2]
    part = slice(0, len(few) * (len(here) // len(runs)))
    pair = [fly(small, data[0], few, here, part, kind).long for kind in ("cpu", device)]
    apart = float(np.abs(pair[0] - pair[1]).max())
    print(f"largest |z| of a setting's mean: {z:.2f} ({plan.settings[worst].label}); below 4: "
          f"{abs(z) < 4}")  # fmt: skip
    print(f"same networks flown on both: largest difference of a score {apart:.2e}; below "
          f"{_SAME}: {apart < _SAME}")  # fmt: skip
    return abs(z) < 4 and apart < _SAME


def rule_speeds(plan: HelicopterPlan, device: str, n_members: int, n_passes: int) -> dict[str, int]:
    """Return gradient steps a second of each rule alone."""
    found = {}
    data = draw_data(replace(plan, sizes=plan.sizes[-1:]), 0)
    for setting in plan.settings:
        name = setting.config["rule"]
        if setting.rule() is None or name in found:
            continue
        alone = replace(plan, settings=(setting,), n_trainings=n_members, n_passes=n_passes)
        began = time.perf_counter()
        population = train(alone, data, list(range(n_members)), device)
        found[name] = round(int(population.n_steps.sum()) / (time.perf_counter() - began))
        print(f"{name:28} {found[name] / 1e6:.2f} million gradient steps a second", flush=True)
    return found


def machine(device: str) -> str:
    if device == "cpu":
        return "CPU"
    import torch

    return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"


def check(chosen: argparse.Namespace) -> int:
    plan, began = PLANS[chosen.plan], time.perf_counter()
    warm_up(plan, chosen.device)
    print(f"compiled after {time.perf_counter() - began:.0f} s", flush=True)
    found = {"machine": machine(chosen.device)} | measure(plan, chosen.passes, chosen.device)
    found["speeds"] = rule_speeds(plan, chosen.device, chosen.members, chosen.passes)
    (chosen.out / "timings.json").write_text(json.dumps(found, indent=2), encoding="utf-8")
    is_good = compare(plan, min(chosen.passes, 60), chosen.device)
    print(f"all of it took {time.perf_counter() - began:.0f} s", flush=True)
    return 0 if is_good else 1


def run(chosen: argparse.Namespace) -> int:
    """Do data sets one after the other until the time is over."""
    plan, began = PLANS[chosen.plan], time.monotonic()
    parts: list[dict[str, Any]] = []
    seconds: list[float] = []
    for number in range(chosen.first, chosen.last):
        started = time.monotonic()
        if started - began + max(seconds, default=0.0) > 60 * chosen.minutes:
            print(f"no time for data set {number}: go on from there", flush=True)
            break
        first = number * plan.n_trainings
        last = min(first + plan.n_trainings, plan.n_runs)
        parts.append(run_columns(plan, first, last, chosen.device))
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        file = chosen.out / f"{plan.name}-{chosen.first:03d}.npz"
        unfinished = file.with_suffix(".unfinished.npz")
        seconds.append(time.monotonic() - started)
        np.savez_compressed(unfinished, plan=plan.to_toml(), seconds=seconds, **columns)
        unfinished.replace(file)
        print(f"data set {number}: {seconds[-1]:.1f} s", flush=True)
    print(f"{len(parts)} data sets took {time.monotonic() - began:.1f} s", flush=True)
    return 0


def collect(chosen: argparse.Namespace) -> int:
    """Write a study's folder from files that ``run`` wrote."""
    from spibb.runner.store import Store

    plan: HelicopterPlan | None = None
    seconds: list[float] = []
    for file in chosen.files:
        held = np.load(file)
        told = HelicopterPlan.from_toml(str(held["plan"]))
        if plan is not None and told != plan:
            raise SystemExit(f"{file} is of another plan than the first file")
        plan = told
        seconds += held["seconds"].tolist()
        columns = {name: held[name] for name in held.files if name not in ("plan", "seconds")}
        with Store.open(chosen.folder, plan.to_toml(), resume=True) as store:
            for name, first, last in plan.jobs():
                rows = (columns["run"] >= first) & (columns["run"] < last)
                if len(np.unique(columns["run"][rows])) == last - first:
                    part = {key: column[rows] for key, column in columns.items()}
                    store.write(name, to_table(plan, part))
    costs = {"data sets": len(seconds), "wall time of all of them (s)": round(sum(seconds), 1)}
    (chosen.folder / "costs.json").write_text(json.dumps(costs), encoding="utf-8")
    print(f"{len(Store(chosen.folder).files())} parts are in {chosen.folder}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    checking = commands.add_parser("check")
    checking.add_argument("--passes", type=int, default=100)
    checking.add_argument("--members", type=int, default=132)
    checking.set_defaults(do=check)
    running = commands.add_parser("run")
    running.add_argument("first", type=int)
    running.add_argument("last", type=int)
    running.add_argument("--minutes", type=float, default=9.0)
    running.set_defaults(do=run)
    for one in (checking, running):
        one.add_argument("--plan", default="helicopter", choices=PLANS)
        one.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
        one.add_argument("--out", type=Path, default=Path())
    collecting = commands.add_parser("collect")
    collecting.add_argument("folder", type=Path)
    collecting.add_argument("files", type=Path, nargs="+")
    collecting.set_defaults(do=collect)
    chosen = parser.parse_args()
    result: int = chosen.do(chosen)
    return result


if __name__ == "__main__":
    raise SystemExit(main())
