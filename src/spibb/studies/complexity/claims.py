"""What the paper says about the time to convergence, and what our timings say to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spibb.studies.claims import Finding, judged, markdown_table, to_markdown, verdict
from spibb.studies.complexity.plan import ComplexityPlan
from spibb.studies.complexity.timings import measured, read_timings
from spibb.studies.results.marked import facts_of
from spibb.studies.results.results import NotInPlanError, Results

if TYPE_CHECKING:
    import pyarrow as pa

Times = NDArray[np.float64]
# "Twice" leaves room for a third on either side, "linear" for a tenth of the exponent.
_TWICE, _LINEAR = (1.5, 2.67), (0.9, 1.1)


class _ByName(dict[str, Times]):
    """Times of the first setting of each algorithm."""

    def __missing__(self, name: str) -> Times:
        raise NotInPlanError(name)


def times(table: pa.Table, plan: ComplexityPlan) -> dict[str, Times]:
    """Return the mean seconds of one log, solved alone, by setting: one for each number of actions.

    Args:
        table: What `spibb.studies.complexity.timings.read_timings` returns.
        plan: The plan that the timings are of.
    """
    return {
        label: measured(table, plan, "seconds", setting=label, n_problems=1).mean(axis=1)
        for label in plan.labels
    }


def findings(table: pa.Table, plan: ComplexityPlan) -> list[Finding]:
    """Judge the paper's claims on the time to convergence whose settings the plan has."""
    found, named = times(table, plan), _ByName()
    for setting in plan.settings:
        named.setdefault(setting.name, found[setting.label])
    return judged((_faster, _twice, _linear), named, plan)


def _faster(named: Mapping[str, Times], plan: ComplexityPlan) -> Finding:
    faster = named["Pi_b-SPIBB"] / named["Approx-Soft-SPIBB"]
    claim = "Approx-Soft-SPIBB is faster than Π_b-SPIBB"
    return Finding(claim, verdict(*(faster > 1)), _ratios(plan, "Π_b-SPIBB takes", faster))


def _twice(named: Mapping[str, Times], plan: ComplexityPlan) -> Finding:
    twice = named["Approx-Soft-SPIBB"] / named["Basic RL"]
    is_about = (twice >= _TWICE[0]) & (twice <= _TWICE[1])
    claim = "Approx-Soft-SPIBB takes about twice the time of Basic RL"
    return Finding(claim, verdict(*is_about), _ratios(plan, "it takes", twice))


def _linear(named: Mapping[str, Times], plan: ComplexityPlan) -> Finding:
    # Few actions leave most of the time to what does not depend on them.
    many = plan.actions[len(plan.actions) // 2 :]
    if len(many) < 2:
        raise NotInPlanError("enough numbers of actions")
    exact, approx = named["Exact-Soft-SPIBB"], named["Approx-Soft-SPIBB"]
    slope = float(np.polyfit(np.log(many), np.log(exact[-len(many) :]), 1)[0])
    return Finding(
        "Exact-Soft-SPIBB is linear in the number of actions",
        verdict(_LINEAR[0] <= slope <= _LINEAR[1]),
        f"from {many[0]} actions on its time grows as their number to the power {slope:.2f}; it "
        f"takes {float(np.exp(np.log(exact / approx).mean())):.2f} times the approximate one's",
    )


def _ratios(plan: ComplexityPlan, begin: str, values: Times) -> str:
    parts = (f"{value:.2f} ({size})" for value, size in zip(values, plan.actions, strict=True))
    return f"{begin} {', '.join(parts)} times as long, by number of actions"


def complexity_pages(given: Sequence[Results[ComplexityPlan]]) -> dict[str, dict[str, str]]:
    """Return what a study says in the page on random MDPs: times, with the machine, and claims."""
    if not given:
        return {}
    plan, table = given[-1].plan, read_timings(given[-1].folder, given[-1].plan)
    found = times(table, plan)
    rows = [
        [str(n_actions), *(f"{1e6 * found[label][k]:,.0f} µs" for label in plan.labels)]
        for k, n_actions in enumerate(plan.actions)
    ]
    machine = ", ".join(f"{name} {value}" for name, value in facts_of(table).items()
                        if name not in ("format", "fingerprint", "plan"))  # fmt: skip
    text = (
        "One log of the gridworld with its actions multiplied, from the estimated model to the "
        f"converged policy, one thread ({machine}):\n\n"
        + markdown_table(["actions", *plan.labels], rows)
    )
    judged_all = to_markdown(findings(table, plan))
    return {"random-mdps.md": {"complexity": text, "complexity-claims": judged_all}}
