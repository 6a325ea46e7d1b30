"""Compare our runs on random MDPs with runs of the code that the paper's authors released.

``python benchmarks/released_runs.py [--runs N] RESULTS...`` reads what their
``soft_randomMDPs_main.py`` wrote (``results/NAME/results_SEED.xlsx``, which takes the package
openpyxl, or the same as CSV), runs ours at the same strength of the baseline, and prints the mean
and the 2 %-CVaR of both by algorithm and number of trajectories. Their random numbers are their
own, so the two agree as two samples do. Without RESULTS it prints ours alone.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from spibb.studies.metrics import cvar, normalised_performance, student_interval
from spibb.studies.registry import PLANS
from spibb.studies.running import compute_rows

# Our settings by their columns.
_SETTINGS = {
    "perfrl": "Basic RL",
    "perf_Pi_b_SPIBB": "Pi_b-SPIBB, n_wedge=10",
    "perf_Pi_leq_b_SPIBB": "Pi_<=b-SPIBB, n_wedge=10",
    "perf_soft_SPIBB_simplex": "Exact-Soft-SPIBB, epsilon=2",
    "perf_soft_SPIBB_sort_Q": "Approx-Soft-SPIBB, epsilon=2",
}
_ETA, _EPSILON, _SHARE = 0.9, 2, 0.02


def theirs(files: list[Path]) -> pd.DataFrame:
    """Return their scores at the chosen strength and epsilon: setting, trajectories, score."""
    tables = [pd.read_csv(file) if file.suffix == ".csv" else pd.read_excel(file) for file in files]
    rows = pd.concat(tables)
    ratio = rows["baseline_target_perf_ratio"]
    rows = rows[(rows["epsilon"] == _EPSILON) & np.isclose(ratio, _ETA)]
    found = []
    for column, label in _SETTINGS.items():
        score = normalised_performance(rows[column], rows["baseline_perf"], rows["pi_star_perf"])
        found.append(
            pd.DataFrame(
                {"setting": label, "trajectories": rows["nb_trajectories"], "score": score}
            )
        )
    return pd.concat(found)


def ours(n_runs: int) -> pd.DataFrame:
    """Return our scores, likewise."""
    plan = PLANS["random-mdps"]
    chosen = tuple(one for one in plan.settings if one.label in _SETTINGS.values())
    plan = replace(plan, eta=(_ETA,), n_runs=n_runs, settings=chosen)
    tables = [compute_rows(plan, run, min(run + 20, n_runs)) for run in range(0, n_runs, 20)]
    return pd.concat([table.to_pandas() for table in tables])


def told(scores: pd.Series) -> str:
    """Return mean, its interval and CVaR."""
    mean, low, high = student_interval(scores.mean(), scores.std(), len(scores))
    tail = float(cvar(scores.to_numpy(), _SHARE))
    return f"{mean:.3f} ({low:.3f} to {high:.3f}), {tail:+.2f} of {len(scores)} runs"


def main() -> None:
    """Print a line for each setting and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="*")
    parser.add_argument("--runs", type=int, default=400)
    chosen = parser.parse_args()
    by = ["setting", "trajectories"]
    mine = ours(chosen.runs).groupby(by, observed=True)["score"]
    other = theirs(chosen.results).groupby(by)["score"] if chosen.results else None
    print(f"mean (95 %), {100 * _SHARE:g} %-CVaR at eta = {_ETA}")
    for (label, size), scores in mine:
        print(f"{label}, {size} trajectories: ours {told(scores)}")
        if other is not None and (label, size) in other.groups:
            print(f"  released: {told(other.get_group((label, size)))}")


if __name__ == "__main__":
    main()
