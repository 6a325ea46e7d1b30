"""Bounds of a gain under an unrecorded cause: ``python benchmarks/confounding_coverage.py``.

Logs of processes whose cause is known (``spibb.testing.confounded``). At the true odds ratio, how
often the lower 95 % limit is below the true gain, and the upper one above; the median width of both
as a share of the trivial range, which is that of possible returns. The last process breaks the
assumption: its cause lasts. ``--time`` compares the time with that of the regret test instead.
"""

import argparse
import time

import numpy as np

from spibb import Log, Problem, TabularMDP, TabularPolicy, audit, sensitivity
from spibb.confounding.sensitivity import find_sensitivity
from spibb.testing.confounded import PROCESSES, ConfoundedProcess, lasting

EPISODES = {
    "treatment": 600, "flagship": 1_500, "tight": 300, "tight, many states": 600,
    "tight stay": 300, "stays": 600, "queue": 60, "machine": 60, "many states": 300, "lasting": 300,
    "copied state": 600, "rare action": 1_500, "unobserved action": 600,
}  # fmt: skip
# States, actions, episodes, steps of each, and successors of a pair.
SHAPES = ((50, 4, 100, 50, 4), (200, 12, 5_000, 100, 200), (1_000, 6, 5_000, 100, 20))


def measure(
    process: ConfoundedProcess, n_episodes: int, n_logs: int, seed: int
) -> tuple[float, ...]:
    """Return the coverage of the lower and of the upper limit, and the median width."""
    found = []
    for one in range(n_logs):
        log = process.draw(n_episodes, seed + one)
        told = find_sensitivity(log, process.policy, process.baseline, process.gamma, "other")
        assert not isinstance(told, str), told
        bounds = told.bounds(process.odds_ratio)
        width = (bounds.upper_limit - bounds.lower_limit) / np.ptp(process.returns)
        found.append(
            (bounds.lower_limit <= process.gain, bounds.upper_limit >= process.gain, width)
        )
    lower, upper, widths = zip(*found, strict=True)
    return float(np.mean(lower)), float(np.mean(upper)), float(np.median(widths))


def print_coverage(n_logs: int, seed: int) -> None:
    """Print a row for each process."""
    print(
        "| process | episodes | odds ratio | true gain | lower limit holds | upper | median width |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, make in (PROCESSES | {"lasting": lasting}).items():
        process, n = make(), EPISODES[name]
        lower, upper, width = measure(process, n, n_logs, seed)
        print(
            f"| {name} | {n} | {process.odds_ratio:.2f} | {process.gain:+.3f} | {lower:.1%} "
            f"| {upper:.1%} | {width:.0%} |",
            flush=True,
        )


def drawn_problem(n: int, n_actions: int, n_episodes: int, length: int, n_after: int) -> Problem:
    """Return a log of a random process, and its behaviour policy."""
    rng = np.random.default_rng(0)
    moves = np.zeros((n, n_actions, n))
    for x, a in np.ndindex(n, n_actions):
        moves[x, a, rng.choice(n, n_after, replace=False)] = rng.dirichlet(np.ones(n_after))
    truth = TabularMDP(transition=moves, reward=rng.random((n, n_actions)), gamma=0.95)
    baseline = TabularPolicy(rng.dirichlet(np.ones(n_actions), n))
    log = Log.sample(truth, baseline, n_episodes=n_episodes, max_steps=length, rng=rng)
    return Problem.of(log, baseline=baseline, gamma=0.95, reward_range=(0.0, 1.0))


def print_times() -> None:
    """Print the time of both, the best of several calls in turn."""
    print("| states | actions | rows | sensitivity | regret test | ratio |")
    print("|---|---|---|---|---|---|")
    for shape in SHAPES:
        n, n_actions, n_episodes, length, _ = shape
        ours, theirs = fastest(drawn_problem(*shape), np.arange(n) % n_actions)
        print(
            f"| {n:,} | {n_actions} | {n_episodes * length:,} | {ours * 1e3:.1f} ms "
            f"| {theirs * 1e3:.1f} ms | {ours / theirs:.1f} |",
            flush=True,
        )


def fastest(problem: Problem, preferred: np.ndarray) -> tuple[float, float]:
    """Return the time of both for a policy that mostly takes one action in each state."""
    n_actions = problem.baseline.probabilities.shape[1]
    policy = TabularPolicy(np.eye(n_actions)[preferred] * 0.5 + 0.5 / n_actions)
    ours, theirs = [], []
    for _ in range(7):
        ours.append(timed(lambda: sensitivity(problem, policy)))
        theirs.append(timed(lambda: audit(problem, policy=policy)))
    return min(ours), min(theirs)


def timed(call) -> float:  # type: ignore[no-untyped-def]
    """Return the processor time of a call, which other programs hardly change."""
    start = time.process_time()
    call()
    return time.process_time() - start


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=50_000)
    parser.add_argument("--time", action="store_true")
    asked = parser.parse_args()
    if asked.time:
        print_times()
    else:
        print_coverage(asked.logs, asked.seed)


if __name__ == "__main__":
    main()
