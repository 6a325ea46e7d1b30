"""The ward of ``spibb demo``: the whole way on a log shipped with the package."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from spibb.algorithms.basic_rl import BasicRL
from spibb.algorithms.hcpi import HCPI
from spibb.algorithms.improvement import Improvement
from spibb.algorithms.soft_spibb import ApproxSoftSPIBB
from spibb.cli.printing import console
from spibb.cli.result_printing import describe_improvement, print_written
from spibb.data.log import Log
from spibb.data.readers import read_log
from spibb.mdp.evaluation import evaluate
from spibb.mdp.model import TabularMDP
from spibb.mdp.planning import solve
from spibb.mdp.policy import TabularPolicy
from spibb.ope.trajectories import Trajectories
from spibb.problem import Problem
from spibb.report.folder import FILES
from spibb.whole_folders import check_replaceable

# The level of what the demo ends with, the chance that a gain be shown, and the budgets tried.
_RISK = 0.05
_POWER = 0.8
_BUDGETS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


def run_demo(out: Path, *, overwrite: bool) -> None:
    """Improve the demo's baseline, write the result, and compare with the simulated truth."""
    check_replaceable(out, overwrite=overwrite, known=FILES)
    with resources.as_file(resources.files("spibb.cli") / "demo") as folder:
        truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
        log = read_log(folder / "log.csv")
        baseline = TabularPolicy.read(folder / "baseline.csv")
    console.print(
        f"A simulated ward: {log.n_episodes} stays of patients with an infection. Each morning the "
        f"ward chooses one of {', '.join(truth['actions'])}.\nIts rule made the log; can the log "
        "improve the rule, safely?\n"
    )
    rewards = tuple(truth["reward_range"])
    problem = Problem.of(log, baseline=baseline, gamma=truth["gamma"], reward_range=rewards)
    result = ApproxSoftSPIBB().improve(problem)
    greedy = BasicRL().improve(problem)
    result.write(out, overwrite=overwrite)
    describe_improvement(result)
    _print_supported(problem, log, *truth["return_range"])
    _compare_with_truth(truth, result, greedy)
    print_written(out)


def _print_supported(problem: Problem, log: Log, low: float, high: float) -> None:
    """Print the exact and the approximate statement that held-out stays support, at half of 5 %.

    Args:
        problem: The ward's.
        log: Its stays.
        low: Smallest return that there is.
        high: Largest.
    """
    candidates = [ApproxSoftSPIBB(epsilon=epsilon) for epsilon in _BUDGETS]
    test = HCPI(candidates=candidates, delta=_RISK / 2)
    exact = replace(test, bound="betting", estimator="is", return_range=(low, high))
    console.print(
        f"\n[bold]What this log supports[/bold] at {100 * _RISK:g} %, half for each statement, of "
        f"a policy learnt from {100 * HCPI().train_share:g} % of the stays and tested on the rest:"
    )
    for kind, algorithm in (("exactly", exact), ("approximately", test)):
        certificate = algorithm.improve(problem).certificate
        claims = (certificate.guarantee, *certificate.others)
        claim = next(claim for claim in claims if claim.theorem.startswith("Held-out"))
        lower = claim.details["tested_lower_bound"]
        if lower >= 0.0:
            console.print(f"  {kind}: it gains at least {lower:.2f} a stay")
            continue
        console.print(f"  {kind}: it loses at most {-lower:.2f} a stay")
        if kind == "exactly":
            # What follows a cut may be worth the most for the rule, the least for the policy.
            stays = Trajectories.from_log(log)
            cost = stays.cut(problem.gamma).mean() * (high - low)
            console.print(
                f"    about {cost:.2f} of it since {stays.is_cut.sum()} records stop before the end"
            )
        needed = algorithm.needed_episodes(problem, power=_POWER)
        console.print(f"    {_next_step(*needed, log.n_episodes)}")


def _next_step(low: float, high: float, n_episodes: int) -> str:
    """Say about how many more stays the next statement would take."""
    if not math.isfinite(low):
        return "with these candidates no gain can be foreseen from this log"

    def more(needed: float) -> str:
        return f"{float(f'{max(needed - n_episodes, 0.0):.1g}'):,.0f}"

    told = f"at least {more(low)}" if math.isinf(high) else f"{more(low)} to {more(high)}"
    return f"to show a gain with {100 * _POWER:g} %, by this log: {told} more stays"


def _compare_with_truth(truth: dict[str, Any], result: Improvement, greedy: Improvement) -> None:
    mdp = true_model(truth)

    def true(policy: TabularPolicy) -> float:
        return evaluate(mdp, _ordered(policy, truth)).performance

    console.print(
        "\n[bold]The truth, which only a simulation knows[/bold]\n"
        f"  the ward's rule   {true(result.baseline.policy):6.2f}\n"
        f"  safe improvement  {true(result.policy):6.2f}   (estimated {result.performance:.2f})\n"
        f"  plain greedy      {true(greedy.policy):6.2f}   (estimated {greedy.performance:.2f}: "
        "it believes its luck)\n"
        f"  best possible     {solve(mdp).performance:6.2f}"
    )


def true_model(truth: dict[str, Any]) -> TabularMDP:
    """Build the model that made the demo's log."""
    state, action, successor, probability = zip(*truth["transitions"], strict=True)
    transition = np.zeros((len(truth["states"]), len(truth["actions"]), len(truth["states"])))
    transition[state, action, successor] = probability
    terminal = np.isin(truth["states"], truth["terminal"])
    return TabularMDP(transition, truth["reward"], truth["gamma"], truth["initial"], terminal)


def _ordered(policy: TabularPolicy, truth: dict[str, Any]) -> TabularPolicy:
    """Bring a policy to the order of states and actions of the true model."""
    rows = [policy.states.places[name] for name in truth["states"]]
    columns = [policy.actions.places[name] for name in truth["actions"]]
    return TabularPolicy(policy.probabilities[np.ix_(rows, columns)])
