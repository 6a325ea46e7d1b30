"""What the paper says about the time to convergence, and what our timings say to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spibb.studies.claims import Finding, to_markdown, verdict
from spibb.studies.complexity.plan import ComplexityPlan
from spibb.studies.complexity.timings import facts_of, read_timings
from spibb.studies.results.results import Results

if TYPE_CHECKING:
    import pyarrow as pa

# "Twice" leaves room for a third on either side, "linear" for a tenth of the exponent.
_TWICE, _LINEAR = (1.5, 2.67), (0.9, 1.1)


def times(table: pa.Table, plan: ComplexityPlan) -> dict[str, NDArray[np.float64]]:
    """Return the mean seconds of one log, solved alone, by setting: one for each number of actions.

    Args:
        table: What `spibb.studies.complexity.timings.read_timings` returns.
        plan: The plan that the timings are of.
    """
    alone = [row for row in table.to_pylist() if row["n_problems"] == 1]

    def mean(label: str, n_actions: int) -> float:
        key = (label, n_actions)
        chosen = [row["seconds"] for row in alone if (row["setting"], row["n_actions"]) == key]
        return float(np.mean(chosen))

    return {label: np.array([mean(label, n) for n in plan.actions]) for label in plan.labels}


def findings(table: pa.Table, plan: ComplexityPlan) -> list[Finding]:
    """Judge the paper's claims on the time to convergence whose settings the plan has."""
    found, named = times(table, plan), dict[str, NDArray[np.float64]]()
    for setting in plan.settings:
        named.setdefault(setting.name, found[setting.label])
    return list(_judged(named, plan))


def _judged(named: Mapping[str, NDArray[np.float64]], plan: ComplexityPlan) -> Iterator[Finding]:
    approx = named.get("Approx-Soft-SPIBB")
    if approx is None:
        return
    if "Pi_b-SPIBB" in named:
        faster = named["Pi_b-SPIBB"] / approx
        yield Finding(
            "Approx-Soft-SPIBB is faster than Π_b-SPIBB",
            verdict(bool((faster > 1).all()), bool((faster > 1).any())),
            _ratios(plan, "Π_b-SPIBB takes", faster, "times as long"),
        )
    if "Basic RL" in named:
        twice = approx / named["Basic RL"]
        yield Finding(
            "Approx-Soft-SPIBB takes about twice the time of Basic RL",
            verdict(*_between(twice, _TWICE)),
            _ratios(plan, "it takes", twice, "times as long"),
        )
    # Few actions leave most of the time to what does not depend on them.
    many = plan.actions[len(plan.actions) // 2 :]
    if "Exact-Soft-SPIBB" in named and len(many) > 1:
        exact = named["Exact-Soft-SPIBB"]
        slope = float(np.polyfit(np.log(many), np.log(exact[-len(many) :]), 1)[0])
        yield Finding(
            "Exact-Soft-SPIBB is linear in the number of actions",
            verdict(_LINEAR[0] <= slope <= _LINEAR[1]),
            f"from {many[0]} actions on its time grows as their number to the power "
            f"{slope:.2f}; it takes "
            f"{float(np.exp(np.log(exact / approx).mean())):.2f} times the approximate one's",
        )


def complexity_pages(given: Sequence[Results[ComplexityPlan]]) -> dict[str, dict[str, str]]:
    """Return what a study says in the page on random MDPs: times, with the machine, and claims."""
    if not given:
        return {}
    plan, table = given[-1].plan, read_timings(given[-1].folder, given[-1].plan)
    machine = ", ".join(f"{name} {value}" for name, value in facts_of(table).items()
                        if name not in ("format", "fingerprint", "plan"))  # fmt: skip
    text = (
        "One log of the gridworld with its actions multiplied, from the estimated model to the "
        f"converged policy, one thread ({machine}):\n\n{_table(table, plan)}"
    )
    judged = to_markdown(findings(table, plan))
    return {"random-mdps.md": {"complexity": text, "complexity-claims": judged}}


def _table(table: pa.Table, plan: ComplexityPlan) -> str:
    """Return the times as Markdown, in microseconds."""
    head = ["| actions |", *(f" {label} |" for label in plan.labels)]
    lines = ["".join(head), "|---|" + "---|" * len(plan.labels)]
    found = times(table, plan)
    for place, n_actions in enumerate(plan.actions):
        cells = [f" {1e6 * found[label][place]:,.0f} µs |" for label in plan.labels]
        lines.append("".join([f"| {n_actions} |", *cells]))
    return "\n".join(lines)


def _between(values: NDArray[np.float64], bounds: tuple[float, float]) -> tuple[bool, bool]:
    inside = (values >= bounds[0]) & (values <= bounds[1])
    return bool(inside.all()), bool(inside.any())


def _ratios(plan: ComplexityPlan, begin: str, values: NDArray[np.float64], end: str) -> str:
    parts = (f"{value:.2f} ({size})" for value, size in zip(values, plan.actions, strict=True))
    return f"{begin} {', '.join(parts)} {end}, by number of actions"
