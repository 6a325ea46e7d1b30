"""Time the random-MDPs study: policies trained per second on one core and, if there is one, a GPU.

Run it as ``python benchmarks/study_speed.py [RUNS]``. A policy is trained, from its log to the last
iteration, and evaluated in the true process; drawing processes, baselines and logs is timed apart,
because every engine draws on the CPU.
"""

from __future__ import annotations

import os
import sys
import time

os.environ["SPIBB_THREADS"] = "1"  # per core

from spibb.mdp.gpu import numba_cuda
from spibb.studies.random_mdps.draws import draw_run
from spibb.studies.random_mdps.run import run_job, score
from spibb.studies.registry import PLANS

# One run of the released code, all 36 settings: thirty trainings on 72 logs took 194 s.
_RELEASED_SECONDS = 194.0


def main(n_runs: int) -> None:
    """Print a line for each device."""
    plan = PLANS["random-mdps"]
    run_job(plan, 0, 1)
    began = time.perf_counter()
    drawn = [one for run in range(n_runs) for one in draw_run(plan, run)]
    drawing = (time.perf_counter() - began) / n_runs
    print(f"drawing: {1e3 * drawing:.1f} ms a run on one core")
    n_policies = len(drawn) * len(plan.settings)
    for device in _devices():
        score(plan, drawn[:72], device)  # compiles
        began = time.perf_counter()
        score(plan, drawn, device)
        seconds = time.perf_counter() - began
        run = drawing + seconds / n_runs
        print(
            f"{device}: {n_policies / seconds:,.0f} policies a second, {1e3 * run:.1f} ms a run "
            f"with its drawing on one core, {_RELEASED_SECONDS / run:,.0f} times the released code"
        )


def _devices() -> list[str]:
    try:
        return ["cpu", "cuda"] if numba_cuda().is_available() else ["cpu"]
    except Exception:  # numba-cuda is optional here, in whatever way it is absent
        return ["cpu"]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
