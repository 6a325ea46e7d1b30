"""Rewards that vary by chance, where nothing else tells actions apart: is a choice worse?

    python benchmarks/noisy_rewards.py [--runs 40]

One-step logs. In each state one usual action pays 1 with probability 0.5, and five rare ones (6 %
of the rows each) with 0.45: whoever leaves the usual action loses. Counted are the policies that
are truly worse than the baseline, and how many of the reports of these would let them pass.
"""

import argparse

import numpy as np

from spibb import ApproxSoftSPIBB, AutoSPIBB, Log, TabularPolicy
from spibb.report.verdict import decide

BASELINE = np.array([0.7, *[0.06] * 5])
PAYS = np.array([0.5, *[0.45] * 5])


def draw(n_states: int, n_rows: int, seed: int) -> Log:
    """Draw a log of one-step episodes."""
    rng = np.random.default_rng(seed)
    action = rng.choice(len(BASELINE), n_rows, p=BASELINE)
    return Log.from_arrays(
        state=rng.integers(0, n_states, n_rows), action=action,
        reward=(rng.random(n_rows) < PAYS[action]).astype(float), episode=np.arange(n_rows),
        terminated=np.ones(n_rows, dtype=bool), n_states=n_states, n_actions=len(BASELINE),
    )  # fmt: skip


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    given = parser.parse_args()
    print("| states | rows | algorithm | worse | of these, deployed |")
    print("|---|---|---|---|---|")
    for n_states, n_rows in ((1, 200), (10, 1_000), (40, 4_000)):
        baseline = TabularPolicy(np.tile(BASELINE, (n_states, 1)))
        for algorithm in (AutoSPIBB(), AutoSPIBB(caution=3.0), ApproxSoftSPIBB()):
            worse = deployed = 0
            for seed in range(given.runs):
                log = draw(n_states, n_rows, seed)
                result = algorithm.improve(log, baseline=baseline, gamma=0.9, accept_baseline=True)
                gain = (result.policy.probabilities @ PAYS).mean() - BASELINE @ PAYS
                if gain < -1e-9:
                    worse += 1
                    deployed += decide(result).headline.startswith("Deploy")
            told = f"{algorithm.id} {getattr(algorithm, 'caution', '')}".strip()
            print(f"| {n_states} | {n_rows:,} | {told} | {worse} of {given.runs} | {deployed} |")


if __name__ == "__main__":
    main()
