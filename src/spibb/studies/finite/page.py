"""What the study of processes with costs says in its page."""

from __future__ import annotations

from collections.abc import Sequence

from spibb.studies.drawing import CVAR, ENDS, MEAN
from spibb.studies.finite.plan import FinitePlan
from spibb.studies.results.results import Results

_SETTINGS = {
    "Basic RL": "",
    "RaMDP": ", kappa=0.5",
    "Pi_b-SPIBB": ", n_wedge=10",
    "Pi_<=b-SPIBB": ", n_wedge=10",
    "Approx-Soft-SPIBB": ", epsilon=1",
}
_SHARE, _SIZES = 0.3, (10, 50, 200, 1_000)


def finite_pages(given: Sequence[Results[FinitePlan]]) -> dict[str, dict[str, str]]:
    """Return what studies say in pages: that of the plan "costs" has one."""
    costs = next((results for results in given if _has_costs(results)), None)
    return {} if costs is None else {"costs.md": {"facts": _facts(costs), "table": _table(costs)}}


def _has_costs(results: Results[FinitePlan]) -> bool:
    """Tell whether results are of that plan, with all that its table shows."""
    plan = results.plan
    labels = [f"{name}{end}{setting}" for name, setting in _SETTINGS.items() for end in ("", ENDS)]
    has_cells = _SHARE in plan.share and set(_SIZES).issubset(plan.trajectories)
    return plan.name == "costs" and has_cells and results.has(*labels)


def _facts(results: Results[FinitePlan]) -> str:
    plan = results.plan
    return (
        f"Plan `{plan.name}`, fingerprint `{plan.fingerprint}`, seed {plan.seed}: "
        f"{int(results.aggregates.n.min()):,} runs of {len(plan.settings)} settings on "
        f"{len(plan.process)} processes."
    )


def _table(results: Results[FinitePlan]) -> str:
    """Return mean and CVaR of the settings, what was never tried ending or not."""
    places = [results.plan.trajectories.index(size) for size in _SIZES]
    head = " | ".join(f"{size:,}" for size in _SIZES)
    lines = [f"| process | algorithm | pairs never tried | {head} |", "|---|---|---|" + "---|" * 4]
    for process in results.plan.process:
        for name, setting in _SETTINGS.items():
            for treatment, suffix in (("end for nothing", ENDS), ("as their state", "")):
                mean, tail = (
                    results.of(
                        measure, f"{name}{suffix}{setting}", process=process, share=_SHARE
                    ).value[places]
                    for measure in (MEAN, CVAR)
                )
                cells = " | ".join(f"{m:.2f} / {t:.2f}" for m, t in zip(mean, tail, strict=True))
                lines.append(f"| {process} | {name}{setting} | {treatment} | {cells} |")
    return "\n".join(lines)
