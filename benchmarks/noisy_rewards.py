"""Actions that are nearly alike under noisy rewards: is a choice worse than the baseline?

    python benchmarks/noisy_rewards.py [--runs 40]

*Arms*: one-step logs; in each state one usual action pays 1 with probability 0.5, and five rare
ones (6 % of the rows each) with 0.45, so that any other action loses. *Corridors*: doors
lead to others and to wards that are nearly alike, and slip now and then. Counted are the policies
that are truly worse than the baseline, what the worst twentieth loses of what there is to gain, and
how many of the reports of worse ones say Deploy.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from spibb import (
    ApproxSoftSPIBB,
    Assessment,
    AutoSPIBB,
    Log,
    TabularMDP,
    TabularPolicy,
    evaluate,
    solve,
)
from spibb.studies.risk.problems import corridors

BASELINE = np.array([0.7, *[0.06] * 5])
PAYS = np.array([0.5, *[0.45] * 5])
Drawn = tuple[TabularMDP, TabularPolicy, Log]


def arms(n_states: int, n_rows: int, seed: int) -> Drawn:
    """Draw a log of one-step episodes."""
    rng = np.random.default_rng(seed)
    action = rng.choice(len(BASELINE), n_rows, p=BASELINE)
    log = Log.from_arrays(
        state=rng.integers(0, n_states, n_rows), action=action,
        reward=(rng.random(n_rows) < PAYS[action]).astype(float), episode=np.arange(n_rows),
        terminated=np.ones(n_rows, dtype=bool), n_states=n_states, n_actions=len(BASELINE),
    )  # fmt: skip
    shape = n_states, len(BASELINE)
    truth = TabularMDP(
        np.zeros((*shape, n_states)), np.tile(PAYS, (n_states, 1)), 0.9, ending=np.ones(shape)
    )
    return truth, TabularPolicy(np.tile(BASELINE, (n_states, 1))), log


def slippery(slips: float, n_episodes: int, seed: int) -> Drawn:
    """Draw a log of corridors."""
    rng = np.random.default_rng([seed, 9])
    truth, baseline = corridors(0.03, rng, slips)
    log = Log.sample(truth, baseline, n_episodes=n_episodes, max_steps=50, rng=rng)
    return truth, baseline, log


def cases() -> Iterator[tuple[str, Callable[[int], Drawn]]]:
    """Name what is drawn."""
    for n_states, n_rows in ((1, 200), (10, 1_000), (40, 4_000)):
        yield f"arms, {n_states} states, {n_rows:,} rows", partial(arms, n_states, n_rows)
    for slips in (0.0, 0.1, 0.3):
        for size in (50, 200):
            told = f"corridors, {100 * slips:g} % slips, {size} episodes"
            yield told, partial(slippery, slips, size)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    given = parser.parse_args()
    print("| log | algorithm | mean gain | worst twentieth | worse | of these, deployed |")
    print("|---|---|---|---|---|---|")
    for told, draw in cases():
        for algorithm in (AutoSPIBB(), ApproxSoftSPIBB()):
            gains, deployed = [], 0
            for seed in range(given.runs):
                truth, baseline, log = draw(seed)
                result = algorithm.improve(
                    log, baseline=baseline, gamma=truth.gamma, accept_baseline=True
                )
                old, best = evaluate(truth, baseline).performance, solve(truth).performance
                gains.append((evaluate(truth, result.policy).performance - old) / (best - old))
                if gains[-1] < -1e-9:
                    deployed += Assessment.of(result).verdict.headline.startswith("Deploy")
            found = np.sort(gains)
            tail, worse = found[: max(1, len(found) // 20)].mean(), int((found < -1e-9).sum())
            print(
                f"| {told} | {algorithm.id} | {found.mean():.3f} | {tail:.3f} | {worse} of "
                f"{given.runs} | {deployed} |", flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
