"""What the study of processes with costs says in its page."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import product

from spibb.studies.claims import markdown_table
from spibb.studies.drawing import CVAR, ENDS, MEAN
from spibb.studies.finite.plans import FinitePlan
from spibb.studies.results.results import NotInPlanError, Results

_SETTINGS = {
    "Basic RL": "",
    "RaMDP": ", kappa=0.5",
    "Pi_b-SPIBB": ", n_wedge=10",
    "Pi_<=b-SPIBB": ", n_wedge=10",
    "Approx-Soft-SPIBB": ", epsilon=1",
}
_TREATMENTS = {"end for nothing": ENDS, "as their state": ""}
_SHARE, _SIZES = 0.3, (10, 50, 200, 1_000)


def finite_pages(given: Sequence[Results[FinitePlan]]) -> dict[str, dict[str, str]]:
    """Return what studies say in pages: that of the plan "costs" has one."""
    for results in given:
        # Not one with fewer settings or cells than its table shows.
        with suppress(NotInPlanError):
            if results.plan.name == "costs":
                return {"costs.md": {"facts": _facts(results), "table": _table(results)}}
    return {}


def _facts(results: Results[FinitePlan]) -> str:
    plan = results.plan
    return (
        f"Plan `{plan.name}`, fingerprint `{plan.fingerprint}`, seed {plan.seed}: "
        f"{int(results.aggregates.n.min()):,} runs of {len(plan.settings)} settings on "
        f"{len(plan.process)} processes."
    )


def _table(results: Results[FinitePlan]) -> str:
    """Return mean and CVaR of the settings, what was never tried ending or not."""
    rows = []
    for process, (name, setting), (treatment, suffix) in product(
        results.plan.process, _SETTINGS.items(), _TREATMENTS.items()
    ):
        row = [process, f"{name}{setting}", treatment]
        for size in _SIZES:
            cell = {"process": process, "share": _SHARE, "trajectories": size}
            mean, tail = (
                results.of(measure, f"{name}{suffix}{setting}", **cell).value
                for measure in (MEAN, CVAR)
            )
            row.append(f"{mean:.2f} / {tail:.2f}")
        rows.append(row)
    sizes = (f"{size:,}" for size in _SIZES)
    return markdown_table(["process", "algorithm", "pairs never tried", *sizes], rows)
