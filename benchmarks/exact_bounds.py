"""Betting beside the concentration inequality: ``python benchmarks/exact_bounds.py``.

*Values*: the median of the lower bound on a value, as a share of the truth (returns are positive).
*Gains*: how often HCPI accepts a policy that is better by a known gain, and one that is no better.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from spibb import HCPI, Log, Status, TabularMDP, TabularPolicy, evaluate, improve_many
from spibb.algorithms.base import Algorithm
from spibb.mdp.evaluation import evaluate_batch
from spibb.mdp.planning import SearchResult
from spibb.ope import evaluate_policy

GAMMA, N_STATES, N_ACTIONS = 0.9, 6, 3


@dataclass(frozen=True, kw_only=True)
class Fixed(Algorithm):
    """Return a policy that is known beforehand."""

    table: Any = None
    id: ClassVar[str] = "fixed"

    def search(self, problems: Any, rng: Any = None) -> SearchResult:
        """Return it for every problem."""
        policy = np.repeat(np.asarray(self.table)[None], problems.batch.shape[0], axis=0)
        v, q, _ = evaluate_batch(problems.batch, policy)
        n = len(policy)
        return SearchResult(policy, v, q, np.ones(n, int), np.full(n, Status.CONVERGED, object))


def make_process() -> tuple[TabularMDP, TabularPolicy, TabularPolicy]:
    """Return a process with rewards in [0, 1], a baseline, and the greedy policy over its Q."""
    rng = np.random.default_rng(3)
    transition = 0.8 * rng.dirichlet(np.full(N_STATES, 0.4), (N_STATES, N_ACTIONS))
    reward = rng.random((N_STATES, N_ACTIONS))
    ending = np.full((N_STATES, N_ACTIONS), 0.2)
    mdp = TabularMDP(transition, reward, GAMMA, ending=ending)
    baseline = TabularPolicy(rng.dirichlet(np.ones(N_ACTIONS), N_STATES) * 0.7 + 0.1)
    greedy = np.eye(N_ACTIONS)[evaluate(mdp, baseline).q.argmax(axis=1)]
    return mdp, baseline, TabularPolicy(greedy)


def draw(mdp: TabularMDP, baseline: TabularPolicy, n_logs: int, n: int) -> list[Log]:
    """Return logs of n whole episodes."""
    rng = np.random.default_rng(n)
    return [
        Log.sample(mdp, baseline, n_episodes=n, max_steps=10_000, rng=rng) for _ in range(n_logs)
    ]


def values(n_logs: int) -> None:
    """Print medians of lower bounds on a value."""
    mdp, baseline, greedy = make_process()
    print(
        "| lower bound / truth, median | 50 | 200 | 1,000 | 5,000 episodes |\n|---|---|---|---|---|"
    )
    for share in (0.1, 0.3):
        policy = TabularPolicy((1 - share) * baseline.probabilities + share * greedy.probabilities)
        truth = evaluate(mdp, policy).performance
        for bound, estimator in (
            ("concentration", "is"), ("betting", "is"), ("concentration", "pdis"),
            ("betting", "pdis"),
        ):  # fmt: skip
            cells = []
            for n in (50, 200, 1_000, 5_000):
                found = [
                    evaluate_policy(
                        log, policy=policy, baseline=baseline, gamma=GAMMA, bound=bound,
                        delta=0.1, estimators=[estimator], reward_range=(0.0, 1.0),
                    )[estimator].interval[0]
                    for log in draw(mdp, baseline, n_logs, n)
                ]  # fmt: skip
                cells.append(f"{np.median(found) / truth:.2f}")
            print(f"| {bound}, `{estimator}`, {100 * share:.0f} % away | {' | '.join(cells)} |")


def gains(n_logs: int) -> None:
    """Print how often a better policy is accepted, and one that is no better."""
    mdp, baseline, greedy = make_process()
    print("\n| accepted, % of logs | 200 | 1,000 | 5,000 episodes |\n|---|---|---|---|")
    mixed = {
        f"better, {100 * share:.0f} % away": (1 - share) * baseline.probabilities
        + share * greedy.probabilities
        for share in (0.1, 0.3)
    }
    equal = TabularMDP(
        mdp.dense[:, :1].repeat(N_ACTIONS, axis=1), mdp.reward[:, :1].repeat(N_ACTIONS, axis=1),
        GAMMA, ending=mdp.ending,
    )  # fmt: skip
    cases = [(name, mdp, table) for name, table in mixed.items()]
    cases.append(("no better, 30 % away", equal, mixed["better, 30 % away"]))
    rules = (("concentration", "is"), ("betting", "is"), ("betting", "pdis"))
    for name, process, table in cases:
        for bound, estimator in rules:
            algorithm = HCPI(bound=bound, estimator=estimator, candidates=[Fixed(table=table)])
            cells = []
            for n in (200, 1_000, 5_000):
                logs = draw(process, baseline, n_logs, n)
                found = improve_many(
                    [algorithm], logs, baselines=baseline, gamma=GAMMA,
                    reward_range=(0.0, 1.0),
                )  # fmt: skip
                passed = np.mean(found.status[0] != Status.BASELINE_KEPT)
                cells.append(f"{100 * passed:.0f}")
            print(f"| {name}: {bound}, `{estimator}` | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=int, default=200)
    asked = parser.parse_args()
    values(asked.logs)
    gains(asked.logs)


if __name__ == "__main__":
    main()
