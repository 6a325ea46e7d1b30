"""``spibb demo``: the whole way on a log shipped with the package."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from spibb.algorithms.basic_rl import BasicRL
from spibb.algorithms.improvement import Improvement
from spibb.algorithms.soft_spibb import ApproxSoftSPIBB
from spibb.cli.improve_command import print_result
from spibb.cli.printing import console, print_place
from spibb.data.readers import read_log
from spibb.mdp.evaluation import evaluate
from spibb.mdp.model import TabularMDP
from spibb.mdp.planning import solve
from spibb.mdp.policy import TabularPolicy
from spibb.report.folder import refuse_existing, write_result


def run_demo(out: Path, *, overwrite: bool) -> None:
    """Improve the demo's baseline, write the result, and compare with the simulated truth."""
    refuse_existing(out, overwrite=overwrite)
    with resources.as_file(resources.files("spibb.cli") / "demo") as folder:
        truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
        log = read_log(folder / "log.csv")
        baseline = TabularPolicy.read(folder / "baseline.csv")
    console.print(
        f"A simulated ward: {log.n_episodes} stays of patients with an infection. Each morning the "
        f"ward chooses one of {', '.join(truth['actions'])}.\nIts rule made the log; can the log "
        "improve the rule, safely?\n"
    )
    asked = {
        "baseline": baseline,
        "gamma": truth["gamma"],
        "reward_range": tuple(truth["reward_range"]),
    }
    result = ApproxSoftSPIBB().improve(log, **asked)
    greedy = BasicRL().improve(log, **asked)
    write_result(result, out, overwrite=overwrite)
    print_result(result)
    _compare_with_truth(truth, result, greedy)
    print_place(out)


def _compare_with_truth(truth: dict[str, Any], result: Improvement, greedy: Improvement) -> None:
    mdp = true_model(truth)
    best = solve(mdp).performance

    def true(policy: TabularPolicy) -> float:
        return evaluate(mdp, _ordered(policy, truth)).performance

    console.print(
        "\n[bold]The truth, which only a simulation knows[/bold]\n"
        f"  the ward's rule   {true(result.baseline.policy):6.2f}\n"
        f"  safe improvement  {true(result.policy):6.2f}   (estimated {result.performance:.2f})\n"
        f"  plain greedy      {true(greedy.policy):6.2f}   (estimated {greedy.performance:.2f}: "
        "it believes its luck)\n"
        f"  best possible     {best:6.2f}"
    )


def true_model(truth: dict[str, Any]) -> TabularMDP:
    """Build the model that made the demo's log."""
    shape = (len(truth["states"]), len(truth["actions"]), len(truth["states"]))
    state, action, successor, probability = (
        list(column) for column in zip(*truth["transitions"], strict=True)
    )
    transition = np.zeros(shape)
    transition[state, action, successor] = probability
    terminal = np.isin(truth["states"], truth["terminal"])
    return TabularMDP(transition, truth["reward"], truth["gamma"], truth["initial"], terminal)


def _ordered(policy: TabularPolicy, truth: dict[str, Any]) -> TabularPolicy:
    """Bring a policy to the order of states and actions of the true model."""
    names = [policy.state_name(x) for x in range(policy.n_states)]
    actions = [policy.action_name(a) for a in range(policy.n_actions)]
    rows = [names.index(name) for name in truth["states"]]
    columns = [actions.index(name) for name in truth["actions"]]
    return TabularPolicy(policy.probabilities[np.ix_(rows, columns)])
