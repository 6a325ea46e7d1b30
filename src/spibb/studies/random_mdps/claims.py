"""What the paper says about random MDPs, and what a study of ours says to it.

Every claim is a rule over the aggregates, written before the study was run, and its verdict is
what the rule returns: "confirmed", "in part" or "not confirmed", always with the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spibb.studies.claims import Finding, to_markdown, verdict
from spibb.studies.metrics import Measure
from spibb.studies.random_mdps.plans import RandomMDPPlan
from spibb.studies.results.results import Results

_MEAN, _CVAR, _RARE = Measure(), Measure(0.01), Measure(0.001)
_STRONG = 0.9
_BASIC, _RAMDP = "Basic RL", "RaMDP, kappa=0.003"
_SPIBB = ("Pi_b-SPIBB, n_wedge=10", "Pi_<=b-SPIBB, n_wedge=10")
_APPROX, _EXACT = "Approx-Soft-SPIBB, epsilon=2", "Exact-Soft-SPIBB, epsilon=2"
_ONE_STEP = "Approx-Soft-SPIBB 1-step, epsilon=2"
_SAFE = (*_SPIBB, _APPROX, _EXACT)


@dataclass(frozen=True, eq=False)
class _Results:
    """Results, asked for the values of a setting by strength of the baseline."""

    all: Results[RandomMDPPlan]

    @property
    def plan(self) -> RandomMDPPlan:
        return self.all.plan

    def of(self, label: str, measure: Measure = _MEAN, eta: float = _STRONG) -> NDArray[np.float64]:
        """Return the values of a setting, one for each size."""
        return np.asarray(self.all.of(measure, label, eta=eta).value, dtype=np.float64)

    def by_eta(self, label: str, measure: Measure = _MEAN) -> NDArray[np.float64]:
        """Return the values of a setting, shape (strengths, sizes)."""
        return np.asarray(self.all.of(measure, label).value, dtype=np.float64)

    def has(self, *labels: str) -> bool:
        return self.all.has(*labels)

    def family(self, name: str) -> list[str]:
        return [setting.label for setting in self.plan.settings if setting.family == name]

    def sizes(self, which: NDArray[np.bool_]) -> str:
        """Name the sizes at which something holds."""
        pairs = zip(self.plan.trajectories, which, strict=True)
        chosen = [f"{size:,}" for size, is_one in pairs if is_one]
        return ", ".join(chosen) if chosen else "none"


def findings(results: Results[RandomMDPPlan]) -> list[Finding]:
    """Judge every claim whose settings the plan has, at eta = 0.9 unless it says otherwise."""
    if _STRONG not in results.plan.eta:
        return []
    return [found for judge in _JUDGES for found in judge(_Results(results))]


def random_mdp_pages(given: Sequence[Results[RandomMDPPlan]]) -> dict[str, dict[str, str]]:
    """Return what studies say in the page on random MDPs: the paper's, its search, unguarded."""
    strong = [results for results in given if _STRONG in results.plan.eta]
    named = {results.plan.name.partition(" + ")[0]: results for results in strong}
    blocks: dict[str, str] = {}
    if "random-mdps" in named:
        main = named["random-mdps"]
        blocks |= {"facts": _facts(main), "claims": to_markdown(findings(main))}
        if "random-mdps-unguarded" in named:
            blocks["guard"] = _guard(main, named["random-mdps-unguarded"])
    if "spibb-search" in named:
        blocks["search"] = _search(named["spibb-search"])
    return {"random-mdps.md": blocks} if blocks else {}


def _facts(results: Results[RandomMDPPlan]) -> str:
    """Say what the study is."""
    plan, n = results.plan, results.aggregates.n
    return "\n".join([
        f"* plan `{plan.name}`, fingerprint `{plan.fingerprint}`, seed {plan.seed}: "
        f"{len(plan.eta)} strengths of the baseline x {len(plan.trajectories)} sizes of the log x "
        f"{len(plan.settings)} settings",
        f"* {int(n.max()):,} runs of {int((n[0, 0] == n.max()).sum())} settings, {int(n.min()):,} "
        f"of the {int((n[0, 0] < n.max()).sum())} of robust MDP and HCPI: "
        f"{int(n.sum()):,} policies trained and evaluated",
    ])  # fmt: skip


def _guard(main: Results[RandomMDPPlan], unguarded: Results[RandomMDPPlan]) -> str:
    """Compare the study with one whose episodes end at a goal only."""
    lines = ["| η = 0.9 | with the guard: mean, 1 %-CVaR | without |", "|---|---|---|"]
    for label in (_BASIC, _SPIBB[0], _APPROX):
        cells = [
            ", ".join(
                f"{_Results(one).of(label, measure).mean():.3f}" for measure in (_MEAN, _CVAR)
            )
            for one in (main, unguarded)
        ]
        lines.append(f"| {label} | {cells[0]} | {cells[1]} |")
    n = int(unguarded.aggregates.n.max())
    return (
        f"Means over the eight sizes, {n:,} runs without it (`random-mdps-unguarded`; few for a "
        "1 %-CVaR, which is the mean of the worst hundredth):\n\n" + "\n".join(lines)
    )


def _search(results: Results[RandomMDPPlan]) -> str:
    """Name the best value of each searched hyper-parameter, by size."""
    lines = ["| | by mean | by 1 %-CVaR |", "|---|---|---|"]
    settings = results.plan.settings
    for family in dict.fromkeys(setting.family for setting in settings if setting.family):
        members = [setting for setting in settings if setting.family == family]
        if len(members) == 1:
            continue
        cells = []
        for measure in (_MEAN, _CVAR):
            table = np.array([_Results(results).of(one.label, measure) for one in members])
            # Where no value is better than another, none is the best.
            alike = np.ptp(table, axis=0) == 0
            best = [members[k].value for k in table.argmax(axis=0)]
            pairs = zip(best, alike, strict=True)
            cells.append(", ".join("any" if same else f"{value:g}" for value, same in pairs))
        lines.append(f"| {members[0].parameter} of {family} | {cells[0]} | {cells[1]} |")
    sizes = ", ".join(f"{size:,}" for size in results.plan.trajectories)
    return f"Best value at {sizes} trajectories:\n\n" + "\n".join(lines)


def _range(values: NDArray[np.float64]) -> str:
    return f"{values.min():.3f} to {values.max():.3f}"


def _best_in_mean(results: _Results) -> Iterator[Finding]:
    if not results.has(_BASIC, _RAMDP, *_SAFE):
        return
    risky = [results.of(label).mean() for label in (_BASIC, _RAMDP)]
    safe = {label: results.of(label).mean() for label in _SAFE}
    best = max(safe, key=safe.__getitem__)
    yield Finding(
        "Basic RL and RaMDP win in mean (η = 0.9)",
        verdict(*(part > safe[best] for part in risky)),
        f"mean over all sizes: Basic RL {risky[0]:.3f}, RaMDP {risky[1]:.3f}; "
        f"the best of SPIBB and Soft-SPIBB is {best} with {safe[best]:.3f}",
    )


def _unsafe(results: _Results) -> Iterator[Finding]:
    for label in (_BASIC, _RAMDP):
        if results.has(label):
            tail = results.of(label, _CVAR)
            yield Finding(
                f"{label.split(',')[0]} is not safe (η = 0.9)",
                verdict(bool((tail < 0).any())),
                f"1 %-CVaR {_range(tail)}; below the baseline at {results.sizes(tail < 0)} "
                "trajectories",
            )


def _safe(results: _Results) -> Iterator[Finding]:
    for label in (*_SPIBB, _APPROX):
        if results.has(label):
            tail = results.of(label, _CVAR)
            yield Finding(
                f"{label} is safe (η = 0.9)",
                verdict(bool((tail >= 0).all()), bool((tail >= -0.05).all())),
                f"1 %-CVaR {_range(tail)}; below the baseline at {results.sizes(tail < 0)} "
                "trajectories",
            )


def _above(
    results: _Results, claim: str, better: str, worse: str, *measures: Measure
) -> Iterator[Finding]:
    """Judge that one setting is above another at every size, by each measure."""
    if not results.has(better, worse):
        return
    names = " - ".join(label.split(",")[0] for label in (better, worse))
    verdicts, numbers = [], []
    for measure in measures:
        gap = results.of(better, measure) - results.of(worse, measure)
        verdicts.append(bool((gap > 0).all()))
        numbers.append(
            f"{measure.name} {gap.min():+.3f} to {gap.max():+.3f}, "
            f"above at {int((gap > 0).sum())} of {len(gap)} sizes"
        )
    yield Finding(claim, verdict(*verdicts), f"{names}: {'; '.join(numbers)}")


def _better_than_spibb(results: _Results) -> Iterator[Finding]:
    for label in _SPIBB:
        claim = (
            f"Approx-Soft-SPIBB is better than {label.split(',')[0]} in mean and safety (η = 0.9)"
        )
        yield from _above(results, claim, _APPROX, label, _MEAN, _CVAR)


def _exact(results: _Results) -> Iterator[Finding]:
    claim = "Exact-Soft-SPIBB is slightly better than Approx-Soft-SPIBB in mean (η = 0.9)"
    yield from _above(results, claim, _EXACT, _APPROX, _MEAN)
    claim = "… and slightly worse in safety"
    yield from _above(results, claim, _APPROX, _EXACT, _CVAR)


def _one_step(results: _Results) -> Iterator[Finding]:
    if not results.has(_APPROX, _ONE_STEP):
        return
    tail = results.of(_ONE_STEP, _CVAR) - results.of(_APPROX, _CVAR)
    yield Finding(
        "One step is not safer than iterating (η = 0.9)",
        verdict(bool((tail <= 0.005).all())),
        f"1 %-CVaR, one step - iterated: {tail.min():+.3f} to {tail.max():+.3f}",
    )
    loss = results.of(_APPROX)[-1] - results.of(_ONE_STEP)[-1]
    yield Finding(
        "… and is worse with much data",
        verdict(bool(loss > 0)),
        f"mean at {results.plan.trajectories[-1]:,} trajectories: iterated "
        f"{results.of(_APPROX)[-1]:.3f}, one step {results.of(_ONE_STEP)[-1]:.3f}",
    )


def _by_strength(results: _Results) -> Iterator[Finding]:
    if not results.has(_RAMDP, _APPROX):
        return
    tail = results.by_eta(_RAMDP, _RARE)
    weak, strong = tail[: len(tail) // 2], tail[len(tail) // 2 :]
    yield Finding(
        "RaMDP is unsafe for strong baselines and small logs (0.1 %-CVaR)",
        verdict(bool((strong[:, 0] < 0).all())),
        f"below the baseline in {int((strong < 0).sum())} of {strong.size} cells of the stronger "
        f"half of the baselines, {int((weak < 0).sum())} of {weak.size} of the weaker",
    )
    tail = results.by_eta(_APPROX, _RARE)
    below = tail < 0
    expected = np.zeros_like(below)
    expected[-1] = np.array(results.plan.trajectories) < 20
    numbers = "no cell is below the baseline"
    if below.any():
        cells = [
            f"η = {results.plan.eta[i]:g} with {results.plan.trajectories[j]:,} ({tail[i, j]:.3f})"
            for i, j in np.argwhere(below)
        ]
        numbers = f"{len(cells)} of {tail.size} cells are below: {', '.join(cells[:6])}"
        numbers += " and so on" if len(cells) > 6 else ""
    yield Finding(
        "Approx-Soft-SPIBB is slightly unsafe only at η = 0.9 with less than 20 trajectories "
        "(0.1 %-CVaR)",
        verdict(not (below & ~expected).any(), bool(tail.min() > -0.1)),
        numbers,
    )


def _threshold(results: _Results) -> Iterator[Finding]:
    family = results.family("RaMDP")
    below, above = "RaMDP, kappa=0.003", "RaMDP, kappa=0.004"
    if not {below, above}.issubset(family):
        return
    drop = results.of(below) - results.of(above)
    yield Finding(
        "From κ = 0.0035 on, RaMDP no longer tries to reach the goal (η = 0.9)",
        verdict(bool(drop.max() > 0.2)),
        f"mean at κ = 0.003 - mean at κ = 0.004: {drop.min():+.3f} to {drop.max():+.3f}; the "
        "published cliff came from penalising the goal itself, where nothing is done",
    )


def _best_epsilon(results: _Results) -> Iterator[Finding]:
    family = results.family("Approx-Soft-SPIBB")
    if len(family) < 2:
        return
    values = {setting.label: setting.value for setting in results.plan.settings}
    for measure in (_MEAN, _CVAR):
        table = np.array([results.of(label, measure) for label in family])
        best = np.array([values[family[k]] for k in table.argmax(axis=0)])
        inside = (best >= 0.5) & (best <= 2)
        yield Finding(
            f"The best ε of Approx-Soft-SPIBB is between 0.5 and 2 ({measure.name}, η = 0.9)",
            verdict(bool(inside.all()), bool(inside.any())),
            "best ε by size: "
            + ", ".join(
                f"{v:g} ({s:,})" for v, s in zip(best, results.plan.trajectories, strict=True)
            ),
        )


def _tests(results: _Results) -> Iterator[Finding]:
    names = ("Robust MDP, delta=0.001", "HCPI doubly robust, delta=0.9")
    for label in names:
        if results.has(label, _APPROX):
            gap = results.of(_APPROX) - results.of(label)
            yield Finding(
                f"{label.split(',')[0]} performs poorly (η = 0.9)",
                verdict(bool((gap > 0).all())),
                f"mean {_range(results.of(label))}, 1 %-CVaR {_range(results.of(label, _CVAR))}; "
                f"Approx-Soft-SPIBB's mean {_range(results.of(_APPROX))}",
            )


_JUDGES: tuple[Callable[[_Results], Iterator[Finding]], ...] = (
    _best_in_mean,
    _unsafe,
    _safe,
    _better_than_spibb,
    _exact,
    _one_step,
    _by_strength,
    _threshold,
    _best_epsilon,
    _tests,
)
