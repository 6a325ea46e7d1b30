"""The ward of ``spibb demo``: the whole way on a log shipped with the package."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

import spibb
from spibb.atomic_folders import check_replaceable
from spibb.cli.inputs import command_line, read_problem
from spibb.cli.printing import console, print_written
from spibb.cli.result_printing import describe_improvement
from spibb.report.folder import FILES, write_result

# The level of what the demo ends with, the chance that a gain be shown, and the budgets tried.
_RISK = 0.05
_POWER = 0.8
_BUDGETS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


def run_demo(out: Path, *, overwrite: bool) -> None:
    """Improve the demo's baseline, write the result, and compare with the simulated truth."""
    check_replaceable(out, overwrite=overwrite, known=FILES)
    with resources.as_file(resources.files("spibb.cli") / "demo") as folder:
        truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
        log, rule, rewards = f"{folder}/log.csv", f"{folder}/baseline.csv", truth["reward_range"]
        problem = read_problem(log, [rule], truth["gamma"], None, reward_range=rewards)
    console.print(
        f"A simulated ward: {problem.episodes().n_episodes} stays of patients with an infection. "
        f"Each morning the ward chooses one of {', '.join(truth['actions'])}.\nIts rule made the "
        "log; can the log improve the rule, safely?\n"
    )
    result, greedy = spibb.AutoSPIBB().improve(problem), spibb.BasicRL().improve(problem)
    assessment = spibb.Assessment.of(result)
    summary = write_result(assessment, out, overwrite=overwrite, command=command_line())
    describe_improvement(assessment, summary)
    _print_supported(problem, *truth["return_range"])
    _compare_with_truth(truth, result, greedy)
    print_written(out)


def _print_supported(problem: spibb.Problem, low: float, high: float) -> None:
    """Print the exact and the approximate statement that held-out stays support, at half of 5 %.

    Args:
        problem: The ward's.
        low: Smallest return that there is.
        high: Largest.
    """
    candidates = [spibb.ApproxSoftSPIBB(epsilon=epsilon) for epsilon in _BUDGETS]
    test = spibb.HCPI(candidates=candidates, delta=_RISK / 2)
    exact = replace(test, bound="betting", estimator="is", return_range=(low, high))
    console.print(
        f"\n[bold]What this log supports[/bold] at {100 * _RISK:g} %, half for each statement, of "
        f"a policy learnt from {100 * test.train_share:g} % of the stays and tested on the rest:"
    )
    stays = spibb.ope.Trajectories.from_log(problem.log)
    for kind, algorithm in (("exactly", exact), ("approximately", test)):
        certificate = algorithm.improve(problem).certificate
        claims = (certificate.guarantee, *certificate.others)
        claim = next(claim for claim in claims if claim.theorem.startswith("Held-out"))
        lower = claim.details["tested_lower_bound"]
        told = f"gains at least {lower:.2f}" if lower >= 0.0 else f"loses at most {-lower:.2f}"
        console.print(f"  {kind}: it {told} a stay")
        if lower < 0.0 and algorithm is exact:
            # What follows a cut may be worth the most for the rule, the least for the policy.
            cost, n_cut = stays.cut(problem.gamma).mean() * (high - low), stays.is_cut.sum()
            console.print(f"    about {cost:.2f} of it since {n_cut} records stop before the end")
        if lower < 0.0:
            needed = algorithm.needed_episodes(problem, power=_POWER)
            console.print(f"    {_next_step(*needed, len(stays))}")


def _next_step(low: float, high: float, n_episodes: int) -> str:
    """Say about how many more stays the next statement would take."""
    if not math.isfinite(low):
        return "with these candidates no gain can be foreseen from this log"

    def more(needed: float) -> str:
        return f"{float(f'{max(needed - n_episodes, 0.0):.1g}'):,.0f}"

    told = f"at least {more(low)}" if math.isinf(high) else f"{more(low)} to {more(high)}"
    return f"to show a gain with {100 * _POWER:g} %, by this log: {told} more stays"


def _compare_with_truth(
    truth: dict[str, Any], result: spibb.Improvement, greedy: spibb.Improvement
) -> None:
    mdp = true_model(truth)

    def true(policy: spibb.TabularPolicy) -> float:
        actions = [policy.actions.places[name] for name in truth["actions"]]
        table = policy.action_probabilities(truth["states"])[:, actions]
        return spibb.evaluate(mdp, table).performance

    console.print(
        "\n[bold]The truth, which only a simulation knows[/bold]\n"
        f"  the ward's rule   {true(result.baseline.policy):6.2f}\n"
        f"  safe improvement  {true(result.policy):6.2f}   (estimated {result.performance:.2f})\n"
        f"  plain greedy      {true(greedy.policy):6.2f}   (estimated {greedy.performance:.2f}: "
        "not protected against chance)\n"
        f"  best possible     {spibb.solve(mdp).performance:6.2f}"
    )


def true_model(truth: dict[str, Any]) -> spibb.TabularMDP:
    """Build the model that made the demo's log."""
    state, action, successor, probability = zip(*truth["transitions"], strict=True)
    transition = np.zeros((len(truth["states"]), len(truth["actions"]), len(truth["states"])))
    transition[state, action, successor] = probability
    terminal = np.isin(truth["states"], truth["terminal"])
    return spibb.TabularMDP(transition, truth["reward"], truth["gamma"], truth["initial"], terminal)
