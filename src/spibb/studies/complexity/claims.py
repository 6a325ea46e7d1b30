"""What the paper says about the time to convergence, and what our timings say to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spibb.studies.complexity.plan import ComplexityPlan
from spibb.studies.random_mdps.claims import Finding, verdict

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

    labels = [setting.label for setting in plan.settings]
    return {label: np.array([mean(label, size) for size in plan.sizes]) for label in labels}


def findings(table: pa.Table, plan: ComplexityPlan) -> list[Finding]:
    """Judge the paper's claims on the time to convergence."""
    found = times(table, plan)

    def of(name: str) -> NDArray[np.float64]:
        return next(value for label, value in found.items() if label.startswith(name))

    approx, exact = of("Approx-Soft-SPIBB"), of("Exact-Soft-SPIBB")
    faster, twice = of("Pi_b-SPIBB") / approx, approx / of("Basic RL")
    # Few actions leave most of the time to what does not depend on them.
    many = len(plan.sizes) // 2
    slope = float(np.polyfit(np.log(plan.sizes[many:]), np.log(exact[many:]), 1)[0])
    return [
        Finding(
            "Approx-Soft-SPIBB is faster than Π_b-SPIBB",
            verdict(bool((faster > 1).all()), bool((faster > 1).any())),
            _ratios(plan, "Π_b-SPIBB takes", faster, "times as long"),
        ),
        Finding(
            "Approx-Soft-SPIBB takes about twice the time of Basic RL",
            verdict(*_between(twice, _TWICE)),
            _ratios(plan, "it takes", twice, "times as long"),
        ),
        Finding(
            "Exact-Soft-SPIBB is linear in the number of actions",
            verdict(_LINEAR[0] <= slope <= _LINEAR[1]),
            f"from {plan.sizes[many]} actions on its time grows as their number to the power "
            f"{slope:.2f}; it takes "
            f"{float(np.exp(np.log(exact / approx).mean())):.2f} times the approximate one's",
        ),
    ]


def to_table(table: pa.Table, plan: ComplexityPlan) -> str:
    """Return the times as Markdown, in microseconds."""
    head = ["| actions |", *(f" {setting.label} |" for setting in plan.settings)]
    lines = ["".join(head), "|---|" + "---|" * len(plan.settings)]
    found = times(table, plan)
    for place, size in enumerate(plan.sizes):
        cells = [f" {1e6 * found[setting.label][place]:,.0f} µs |" for setting in plan.settings]
        lines.append("".join([f"| {size} |", *cells]))
    return "\n".join(lines)


def _between(values: NDArray[np.float64], bounds: tuple[float, float]) -> tuple[bool, bool]:
    inside = (values >= bounds[0]) & (values <= bounds[1])
    return bool(inside.all()), bool(inside.any())


def _ratios(plan: ComplexityPlan, begin: str, values: NDArray[np.float64], end: str) -> str:
    parts = (f"{value:.2f} ({size})" for value, size in zip(values, plan.sizes, strict=True))
    return f"{begin} {', '.join(parts)} {end}, by number of actions"
