"""Does it matter that the released code lets an action give to several receivers?

The paper's approximate step gives the mass of a bad action to one better action; the authors'
released code spreads it over several, with a cap that is not updated. This trains both on the same
logs of the study's hardest scenario (eta = 0.9, the paper's epsilon = 2) and prints, by size of the
log, the mean score and the mean of the worst twentieth of the runs.

Run it as ``python examples/several_receivers.py [RUNS]``; 60 runs take half a minute.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spibb import ApproxSoftSPIBB, TabularPolicy, evaluate
from spibb.studies.metrics import cvar, normalised_performance
from spibb.studies.random_mdps.study import Draw, draw_run
from spibb.studies.registry import PLANS

BUDGET = 4.0  # the paper's epsilon = 2
Table = NDArray[np.float64]


def spread(q: Table, baseline: Table, errors: Table) -> Table:
    """Return one state's new row, with several receivers for each donor."""
    row, left = baseline.copy(), BUDGET
    for donor in np.argsort(q):
        with np.errstate(invalid="ignore"):
            mass = min(row[donor], left / (2 * errors[donor]))
            receivers = np.argsort(-(q - q[donor]) / errors)
        for receiver in receivers:
            if receiver == donor:
                break
            moved = min(mass, left / (2 * errors[receiver]))
            if moved > 0:
                row[donor] -= moved
                row[receiver] += moved
                mass -= moved
                left -= moved * (errors[donor] + errors[receiver])
    return row


def iterate(drawn: Draw, gamma: float) -> TabularPolicy:
    """Run policy iteration with that step; a row is replaced only by one that is no worse."""
    counts = drawn.problem.counts
    n = counts.n_sa
    log_term = np.log(2.0 * n.size)
    errors = np.sqrt(np.divide(2 * log_term, n, out=np.full(n.shape, np.inf), where=n > 0))
    model, baseline = counts.to_mdp(gamma), drawn.baseline.probabilities
    policy, q = baseline.copy(), np.full(n.shape, np.inf)
    for _ in range(200):
        before, q = q, evaluate(model, policy).q
        if np.abs(q - before).max() < 1e-10:
            break
        new = np.array([spread(*rows) for rows in zip(q, baseline, errors, strict=True)])
        better = ((new - policy) * q).sum(axis=1) >= 0
        policy = np.where(better[:, None], new, policy)
    return TabularPolicy(policy)


def main(n_runs: int) -> None:
    """Print a line for each size."""
    plan = replace(PLANS["random-mdps"], eta=(0.9,), trajectories=(10, 20, 50, 100, 500))
    scores = np.empty((2, len(plan.trajectories), n_runs))
    ours = ApproxSoftSPIBB(epsilon=BUDGET, delta=1.0)
    for run in range(n_runs):
        for drawn in draw_run(plan, run):
            counts, baseline = drawn.problem.counts, drawn.baseline
            found = (
                ours.improve(counts, baseline=baseline, gamma=plan.gamma).policy,
                iterate(drawn, plan.gamma),
            )
            old = evaluate(drawn.truth, baseline).performance
            scores[:, drawn.size, run] = [
                normalised_performance(evaluate(drawn.truth, one).performance, old, drawn.best)
                for one in found
            ]
    for place, size in enumerate(plan.trajectories):
        mean, worst = scores[:, place].mean(axis=1), cvar(scores[:, place], 0.05)
        print(
            f"{size:4} trajectories: one receiver {mean[0]:.3f} (worst 5 %: {worst[0]:.3f}), "
            f"several {mean[1]:.3f} ({worst[1]:.3f})"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
