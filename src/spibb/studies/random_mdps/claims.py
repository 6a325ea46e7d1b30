"""What the paper says about random MDPs, and what a study of ours says to it.

Every claim is a rule over the aggregates, written before the study was run, and its verdict is
what the rule returns: "confirmed", "in part" or "not confirmed", always with the numbers. They
stand at eta = 0.9 unless they say otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from spibb.studies.claims import Finding, Rule, judged, markdown_table, to_markdown, verdict
from spibb.studies.drawing import CVAR, MEAN, RARE
from spibb.studies.metrics import Floats, Measure
from spibb.studies.plan import Setting
from spibb.studies.random_mdps.plans import RandomMDPPlan
from spibb.studies.results.aggregates import NotInPlanError, Results

_Results = Results[RandomMDPPlan]
_STRONG = 0.9
_RISKY = _BASIC, _RAMDP = "Basic RL", "RaMDP, kappa=0.003"
_SPIBB = ("Pi_b-SPIBB, n_wedge=10", "Pi_<=b-SPIBB, n_wedge=10")
_APPROX, _EXACT = "Approx-Soft-SPIBB, epsilon=2", "Exact-Soft-SPIBB, epsilon=2"
_ONE_STEP = "Approx-Soft-SPIBB 1-step, epsilon=2"
_TESTED = ("Robust MDP, delta=0.001", "HCPI doubly robust, delta=0.9")
_MOST_CELLS = 6  # that a claim names


def findings(results: _Results) -> list[Finding]:
    """Judge every claim whose settings and strength the plan has."""
    return judged(_CLAIMS, results.at(eta=_STRONG)) if _STRONG in results.plan.eta else []


def random_mdp_pages(given: Sequence[_Results]) -> dict[str, dict[str, str]]:
    """Return what studies say in the page on random MDPs: the paper's, its search, unguarded."""
    strong = [results for results in given if _STRONG in results.plan.eta]
    named = {one.plan.name.partition(" + ")[0]: one.at(eta=_STRONG) for one in strong}
    blocks: dict[str, str] = {}
    if "random-mdps" in named:
        main = named["random-mdps"]
        blocks |= {"facts": _facts(main), "claims": to_markdown(findings(main))}
        if "random-mdps-unguarded" in named:
            blocks["guard"] = _guard(main, named["random-mdps-unguarded"])
    if "spibb-search" in named:
        blocks["search"] = _search(named["spibb-search"])
    return {"random-mdps.md": blocks} if blocks else {}


def _facts(results: _Results) -> str:
    """Say what the study is."""
    plan, n = results.plan, results.aggregates.n
    n_most = int((n[0, 0] == n.max()).sum())
    return (
        f"* plan {plan.in_words}: {len(plan.eta)} strengths of the baseline x "
        f"{len(plan.trajectories)} sizes of the log x {len(plan.settings)} settings\n"
        f"* {n.max():,} runs of {n_most} settings, {n.min():,} of the {len(plan.settings) - n_most}"
        f" of robust MDP and HCPI: {n.sum():,} policies trained and evaluated"
    )


def _guard(main: _Results, unguarded: _Results) -> str:
    """Compare the study with one whose episodes end at a goal only."""

    def told(results: _Results, label: str) -> str:
        return ", ".join(f"{_of(results, label, one).mean():.3f}" for one in (MEAN, CVAR))

    labels = (_BASIC, _SPIBB[0], _APPROX)
    rows = [[label, told(main, label), told(unguarded, label)] for label in labels]
    return (
        f"Means over the eight sizes, {int(unguarded.aggregates.n.max()):,} runs without it "
        "(`random-mdps-unguarded`; few for a 1 %-CVaR, which is the mean of the worst hundredth):"
        "\n\n" + markdown_table(["η = 0.9", "with the guard: mean, 1 %-CVaR", "without"], rows)
    )


def _search(results: _Results) -> str:
    """Name the best value of each searched hyper-parameter, by size."""
    rows = []
    for name, family in results.plan.families.items():
        if len(family) > 1:
            cells = [
                # Where no value is better than another, none is the best.
                ", ".join("any" if np.ptp(scores) == 0 else f"{best:g}" for best, scores in found)
                for found in (_best_values(results, family, measure) for measure in (MEAN, CVAR))
            ]
            rows.append([f"{family[0].parameter} of {name}", *cells])
    sizes = ", ".join(f"{size:,}" for size in results.plan.trajectories)
    table = markdown_table(["", "by mean", "by 1 %-CVaR"], rows)
    return f"Best value at {sizes} trajectories:\n\n{table}"


def _of(results: _Results, label: str, measure: Measure = MEAN) -> Floats:
    """Return the values of a setting, one for each size."""
    return np.asarray(results.of(measure, label).value, dtype=np.float64)


def _best_values(
    results: _Results, family: Sequence[Setting], measure: Measure
) -> list[tuple[float, Floats]]:
    """Return by size the value of a family that is best, and what all of them score."""
    table = np.array([_of(results, one.label, measure) for one in family])
    return [(family[int(scores.argmax())].value, scores) for scores in table.T]


def _name(label: str) -> str:
    return label.partition(",")[0]


def _range(values: Floats, form: str = ".3f") -> str:
    return f"{values.min():{form}} to {values.max():{form}}"


def _best_in_mean(results: _Results) -> tuple[str, str]:
    risky = {_name(label): _of(results, label).mean() for label in _RISKY}
    safe = {label: _of(results, label).mean() for label in (*_SPIBB, _APPROX, _EXACT)}
    best = max(safe, key=safe.__getitem__)
    told = ", ".join(f"{name} {mean:.3f}" for name, mean in risky.items())
    ours = f"the best of SPIBB and Soft-SPIBB is {best} with {safe[best]:.3f}"
    holds = verdict(*(mean > safe[best] for mean in risky.values()))
    return holds, f"mean over all sizes: {told}; {ours}"


def _tail(label: str, is_safe: bool, results: _Results) -> tuple[str, str]:
    """Judge whether the worst runs of a setting are below the baseline's."""
    tail = _of(results, label, CVAR)
    sizes = zip(results.plan.trajectories, tail, strict=True)
    below = ", ".join(f"{size:,}" for size, value in sizes if value < 0) or "none"
    parts = [(tail >= 0).all(), (tail >= -0.05).all()] if is_safe else [(tail < 0).any()]
    return verdict(*parts), f"1 %-CVaR {_range(tail)}; below the baseline at {below} trajectories"


def _above(better: str, worse: str, by: Sequence[Measure], results: _Results) -> tuple[str, str]:
    """Judge that one setting is above another at every size, by each measure."""
    gaps = {one.name: _of(results, better, one) - _of(results, worse, one) for one in by}
    numbers = "; ".join(
        f"{name} {_range(gap, '+.3f')}, above at {int((gap > 0).sum())} of {len(gap)} sizes"
        for name, gap in gaps.items()
    )
    holds = verdict(*((gap > 0).all() for gap in gaps.values()))
    return holds, f"{_name(better)} - {_name(worse)}: {numbers}"


def _one_step(results: _Results) -> tuple[str, str]:
    tail = _of(results, _ONE_STEP, CVAR) - _of(results, _APPROX, CVAR)
    return verdict(tail.max() <= 0.005), f"1 %-CVaR, one step - iterated: {_range(tail, '+.3f')}"


def _much_data(results: _Results) -> tuple[str, str]:
    iterated, once = (_of(results, label)[-1] for label in (_APPROX, _ONE_STEP))
    most = f"mean at {results.plan.trajectories[-1]:,} trajectories"
    return verdict(iterated > once), f"{most}: iterated {iterated:.3f}, one step {once:.3f}"


def _ramdp_by_strength(results: _Results) -> tuple[str, str]:
    tail = _of(results.at(eta=None), _RAMDP, RARE)
    weak, strong = tail[: len(tail) // 2], tail[len(tail) // 2 :]
    told = f"{(strong < 0).sum()} of {strong.size} cells of the stronger half of the baselines"
    numbers = f"below the baseline in {told}, {(weak < 0).sum()} of {weak.size} of the weaker"
    return verdict((strong[:, 0] < 0).all()), numbers


def _approx_by_strength(results: _Results) -> tuple[str, str]:
    plan, tail = results.plan, _of(results.at(eta=None), _APPROX, RARE)
    below = tail < 0
    expected = np.zeros_like(below)
    expected[-1] = np.array(plan.trajectories) < 20
    cells = [
        f"η = {plan.eta[i]:g} with {plan.trajectories[j]:,} ({tail[i, j]:.3f})"
        for i, j in np.argwhere(below)
    ]
    numbers = f"{len(cells)} of {tail.size} cells are below: {', '.join(cells[:_MOST_CELLS])}"
    numbers += " and so on" if len(cells) > _MOST_CELLS else ""
    holds = verdict(not (below & ~expected).any(), tail.min() > -0.1)
    return holds, numbers if cells else "no cell is below the baseline"


def _threshold(results: _Results) -> tuple[str, str]:
    drop = _of(results, "RaMDP, kappa=0.003") - _of(results, "RaMDP, kappa=0.004")
    numbers = f"mean at κ = 0.003 - mean at κ = 0.004: {_range(drop, '+.3f')}"
    why = "the published cliff came from penalising the goal itself, where nothing is done"
    return verdict(drop.max() > 0.2), f"{numbers}; {why}"


def _best_epsilon(measure: Measure, results: _Results) -> tuple[str, str]:
    family = results.plan.families.get("Approx-Soft-SPIBB", [])
    if len(family) < 2:
        raise NotInPlanError("several epsilons")
    best = [value for value, _ in _best_values(results, family, measure)]
    pairs = zip(best, results.plan.trajectories, strict=True)
    numbers = ", ".join(f"{value:g} ({size:,})" for value, size in pairs)
    return verdict(*(0.5 <= value <= 2 for value in best)), f"best ε by size: {numbers}"


def _tested(label: str, results: _Results) -> tuple[str, str]:
    found, tail, approx = _of(results, label), _of(results, label, CVAR), _of(results, _APPROX)
    ours = f"Approx-Soft-SPIBB's mean {_range(approx)}"
    numbers = f"mean {_range(found)}, 1 %-CVaR {_range(tail)}; {ours}"
    return verdict((approx > found).all()), numbers


_BETTER = "Approx-Soft-SPIBB is better than {} in mean and safety (η = 0.9)"
_SLIGHTLY = "Exact-Soft-SPIBB is slightly better than Approx-Soft-SPIBB in mean (η = 0.9)"
_UNSAFE = "Approx-Soft-SPIBB is slightly unsafe only at η = 0.9 with less than 20 trajectories"
_BEST = "The best ε of Approx-Soft-SPIBB is between 0.5 and 2 ({}, η = 0.9)"
_CLAIMS: dict[str, Rule] = {
    "Basic RL and RaMDP win in mean (η = 0.9)": _best_in_mean,
    **{f"{_name(one)} is not safe (η = 0.9)": partial(_tail, one, False) for one in _RISKY},
    **{f"{one} is safe (η = 0.9)": partial(_tail, one, True) for one in (*_SPIBB, _APPROX)},
    **{_BETTER.format(_name(one)): partial(_above, _APPROX, one, (MEAN, CVAR)) for one in _SPIBB},
    _SLIGHTLY: partial(_above, _EXACT, _APPROX, (MEAN,)),
    "… and slightly worse in safety": partial(_above, _APPROX, _EXACT, (CVAR,)),
    "One step is not safer than iterating (η = 0.9)": _one_step,
    "… and is worse with much data": _much_data,
    "RaMDP is unsafe for strong baselines and small logs (0.1 %-CVaR)": _ramdp_by_strength,
    f"{_UNSAFE} (0.1 %-CVaR)": _approx_by_strength,
    "From κ = 0.0035 on, RaMDP no longer tries to reach the goal (η = 0.9)": _threshold,
    **{_BEST.format(one.name): partial(_best_epsilon, one) for one in (MEAN, CVAR)},
    **{f"{_name(one)} performs poorly (η = 0.9)": partial(_tested, one) for one in _TESTED},
}
