"""What ``decision-points`` changes, and gains: ``python benchmarks/decision_points.py [LOGS]``.

Random MDPs with a second goal, eta .5, returns in [0, 1]; score between the baseline and the
optimum, changes, and on how many logs any state lost.
"""

import sys

import numpy as np

from spibb import DecisionPoints, Log, evaluate, solve
from spibb.envs import Garnet


def main(n_logs: int) -> None:
    """Print a line for each size."""
    settings = DecisionPoints(return_range=(0.0, 1.0))
    for size in (1_000, 5_000):
        scores, changes, n_lost = [], [], 0
        for seed in range(n_logs):
            rng = np.random.default_rng(seed)
            garnet = Garnet.random(rng)
            baseline = garnet.baseline(0.5, rng)
            mdp = garnet.with_second_goal(rng, 1.0).mdp
            log = Log.sample(mdp, baseline, n_episodes=size, max_steps=200, rng=rng)
            result = settings.improve(log, baseline=baseline, gamma=0.95)
            old, new = evaluate(mdp, baseline), evaluate(mdp, result.policy)
            best = solve(mdp).performance
            scores.append((new.performance - old.performance) / (best - old.performance))
            changes.append(result.certificate.guarantee.details["n_changed"])
            n_lost += bool((new.v < old.v - 1e-9).any())
        told = f"score {np.mean(scores):.2f}, {np.mean(changes):.1f} changes"
        print(f"{size:,} episodes, {n_logs} logs: {told}, a state lost on {n_lost}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
