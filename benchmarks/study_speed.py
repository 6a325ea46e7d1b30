"""Time the random-MDPs study: policies trained per second on one core and, if there is one, a GPU.

Run it as ``python benchmarks/study_speed.py [RUNS]``. A policy is trained, from its log to the last
iteration, and evaluated in the true process; drawing processes, baselines and logs is timed apart,
because every engine draws on the CPU.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace

from spibb.compiled.gpu import numba_cuda
from spibb.studies.random_mdps.study import Draw, draw_run, score
from spibb.studies.registry import PLANS
from spibb.studies.running import compute_rows

_TESTED = ("Robust MDP, delta=0.001", "HCPI doubly robust, delta=0.9")
# One run of the released code: thirty trainings on each of 72 logs took 194 s.
_RELEASED_SECONDS = 194.0


def main(n_runs: int) -> None:
    """Print a line for each device."""
    os.environ["SPIBB_THREADS"] = "1"  # per core
    plan = PLANS["random-mdps"]
    compute_rows(plan, 0, 1)
    began = time.perf_counter()
    drawn = [one for run in range(n_runs) for one in draw_run(plan, run)]
    drawing = (time.perf_counter() - began) / n_runs
    print(f"drawing: {1e3 * drawing:.1f} ms a run on one core")
    tests = _test_seconds(drawn)
    print(f"robust MDP and HCPI: {1e3 * tests / n_runs:.1f} ms a run on one core, logs included")
    n_policies = len(drawn) * len(plan.settings)
    for device in _devices():
        score(plan, drawn[:72], device)  # compiles
        began = time.perf_counter()
        score(plan, drawn, device)
        seconds = time.perf_counter() - began
        run = drawing + (tests + seconds) / n_runs
        print(f"{device}: {n_policies / seconds:,.0f} policies a second")
        print(f"  with drawing and those two {1e3 * run:.1f} ms a run of one core, "
              f"{_RELEASED_SECONDS / run:,.0f} times the released code")  # fmt: skip


def _test_seconds(drawn: list[Draw]) -> float:
    """Time the paper's settings of robust MDP and HCPI, which no GPU does."""
    plan = PLANS["random-mdps-tests"]
    chosen = tuple(setting for setting in plan.settings if setting.label in _TESTED)
    plan = replace(plan, settings=chosen)
    score(plan, drawn[:72])
    began = time.perf_counter()
    score(plan, drawn)
    return time.perf_counter() - began


def _devices() -> list[str]:
    try:
        return ["cpu", "cuda"] if numba_cuda().is_available() else ["cpu"]
    except Exception:  # numba-cuda is optional here, in whatever way it is absent
        return ["cpu"]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
