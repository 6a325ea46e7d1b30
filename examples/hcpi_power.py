"""How often HCPI passes on logs of the demo's ward, and what it then truly gains.

Run it as ``python examples/hcpi_power.py [LOGS]``; docs/algorithms/hcpi.md quotes 500 logs of each
size.
"""

import json
import sys
from importlib import resources

import numpy as np

import spibb
from spibb.cli.demo_ward import true_model

BUDGETS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


def main(n_logs: int = 500) -> None:
    """Simulate logs, improve each, and print the share that passed and the true gain."""
    folder = resources.files("spibb.cli") / "demo"
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    mdp = true_model(truth)
    rule = _ordered_rule(folder, truth)
    worth = spibb.evaluate(mdp, rule).performance
    soft = spibb.HCPI(candidates=[spibb.ApproxSoftSPIBB(epsilon=e) for e in BUDGETS])
    for name, algorithm in (("soft candidates", soft), ("mixtures", spibb.HCPI())):
        for n_stays in (430, 2_000):
            rng = np.random.default_rng(0)
            gains = []
            for _ in range(n_logs):
                log = spibb.Log.sample(mdp, rule, n_episodes=n_stays, max_steps=25, rng=rng)
                result = algorithm.improve(log, baseline=rule, gamma=0.95, reward_range=(-10, 10))
                is_kept = result.status is spibb.Status.BASELINE_KEPT
                gain = spibb.evaluate(mdp, result.policy).performance - worth
                gains.append(0.0 if is_kept else gain)
            passed, worse = np.mean(np.array(gains) != 0), np.mean(np.array(gains) < 0)
            print(
                f"{name}, {n_stays} stays: passes in {100 * passed:.0f} % of {n_logs} logs, "
                f"worse than the rule in {100 * worse:.1f} %, mean true gain {np.mean(gains):.2f}"
            )


def _ordered_rule(folder, truth: dict) -> spibb.TabularPolicy:
    """Return the ward's rule in the order of the true model's states, terminal ones uniform."""
    with resources.as_file(folder) as place:
        rule = spibb.TabularPolicy.read(place / "baseline.csv")
    names = {rule.states[x]: x for x in range(rule.n_states)}
    actions = [rule.action_labels.index(name) for name in truth["actions"]]
    table = np.full((len(truth["states"]), rule.n_actions), 1 / rule.n_actions)
    for place, name in enumerate(truth["states"]):
        if name in names:
            table[place] = rule.probabilities[names[name]][actions]
    return spibb.TabularPolicy(table)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
