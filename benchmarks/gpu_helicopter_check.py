"""What the helicopter study will cost on a GPU, and whether it is right there.

``python benchmarks/gpu_helicopter_check.py timings.json`` (about a minute) times a short training
of one data set phase by phase and each rule alone, predicts the cost of the whole plan, and
compares trainings and flights with the CPU's. The study itself is
``spibb study run helicopter --engine cuda --out FOLDER``.
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
from spibb.studies.helicopter.study import draw_data, fly, run, train

# Scores of the same networks on both devices differ where rounding turned an action.
_SAME = 0.05
_PLANS = {plan.name: plan for plan in PLANS}


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
    small = replace(plan, transitions=(200,), n_passes=2, n_steps=20, n_episodes=20)
    for kind in dict.fromkeys(("cpu", device)):
        run(small, [0], kind)


def measure(plan: HelicopterPlan, n_passes: int, device: str) -> dict[str, Any]:
    """Time one data set with all its runs, and predict the whole plan."""
    short = replace(plan, n_passes=n_passes)
    clock, runs = Clock(waiter(device)), range(plan.n_trainings)
    (baseline,) = plan.baselines()
    with clock.phase("data and counts"):
        data = draw_data(short, baseline, 0)
    with clock.phase("training"):
        population = train(short, data, list(runs), device)
    scored = []
    for place, size in enumerate(plan.transitions):
        with clock.phase(f"flights, size {size}"):
            scored.append(fly(short, data[place], place, list(runs), population, device))
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
    for size, one in zip(plan.transitions, scored, strict=True):
        means = one["score"].mean(axis=0)
        for label, (short, long) in zip(plan.labels, means.T, strict=True):
            print(f"{size:6d} {label:38} short {short:6.2f} long {long:6.2f}")
    return found


def long_scores(scored: dict[str, Any]) -> Any:
    """Return the scores of the long evaluation, shape (runs, settings)."""
    return scored["score"][:, 1]


def compare(plan: HelicopterPlan, n_passes: int, device: str) -> bool:
    """Compare trainings, and flights of the same networks, with the CPU's."""
    small = replace(plan, transitions=plan.transitions[:1], n_passes=n_passes)
    (baseline,) = small.baselines()
    data, runs = draw_data(small, baseline, 0), list(range(plan.n_trainings))
    here, there = (train(small, data, runs, kind) for kind in ("cpu", device))
    scores = [long_scores(fly(small, data[0], 0, runs, one, device)) for one in (here, there)]
    gap = scores[1] - scores[0]
    noise = np.sqrt((scores[0].var(0, ddof=1) + scores[1].var(0, ddof=1)) / len(runs)) + 1e-3
    worst = int(np.abs(gap.mean(0) / noise).argmax())
    z = float((gap.mean(0) / noise)[worst])
    print(f"\nlong scores, {n_passes} passes on {small.transitions[0]} transitions: CPU, {device}")
    for k, setting in enumerate(plan.settings):
        print(f"{setting.label:38} {scores[0][:, k].mean():6.3f} {scores[1][:, k].mean():6.3f}")
    # Of the first data set, the networks of the first runs come first.
    pair = [long_scores(fly(small, data[0], 0, runs[:2], here, kind)) for kind in ("cpu", device)]
    apart = float(np.abs(pair[0] - pair[1]).max())
    print(f"largest |z| of a setting's mean: {z:.2f} ({plan.settings[worst].label}); below 4: "
          f"{abs(z) < 4}")  # fmt: skip
    print(f"same networks flown on both: largest difference of a score {apart:.2e}; below "
          f"{_SAME}: {apart < _SAME}")  # fmt: skip
    return abs(z) < 4 and apart < _SAME


def rule_speeds(plan: HelicopterPlan, device: str, n_members: int, n_passes: int) -> dict[str, int]:
    """Return gradient steps a second of each rule alone."""
    found = {}
    (baseline,) = plan.baselines()
    data = draw_data(replace(plan, transitions=plan.transitions[-1:]), baseline, 0)
    for setting in plan.settings:
        name = setting.config["rule"]
        if setting.build() is None or name in found:
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
    plan, began = _PLANS[chosen.plan], time.perf_counter()
    warm_up(plan, chosen.device)
    print(f"compiled after {time.perf_counter() - began:.0f} s", flush=True)
    found = {"machine": machine(chosen.device)} | measure(plan, chosen.passes, chosen.device)
    found["speeds"] = rule_speeds(plan, chosen.device, chosen.members, chosen.passes)
    chosen.out.write_text(json.dumps(found, indent=2), encoding="utf-8")
    is_good = compare(plan, min(chosen.passes, 60), chosen.device)
    print(f"all of it took {time.perf_counter() - began:.0f} s", flush=True)
    return 0 if is_good else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="file for what was measured")
    parser.add_argument("--plan", default="helicopter", choices=_PLANS)
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--passes", type=int, default=100)
    parser.add_argument("--members", type=int, default=132)
    return check(parser.parse_args())


if __name__ == "__main__":
    raise SystemExit(main())
