"""Fill the results on processes with costs into their page, and put numbers and figures beside it.

``python benchmarks/costs_page.py STUDY [--docs docs]`` takes a folder of the plan ``costs``, writes
plan, aggregates and figures into ``docs/results/costs``, and a table into ``docs/costs.md``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from random_mdps_page import CVAR, MEAN, Study

from spibb.studies.drawing import ENDS
from spibb.studies.page import fill_page

_SETTINGS = {
    "Basic RL": "",
    "RaMDP": ", kappa=0.5",
    "Pi_b-SPIBB": ", n_wedge=10",
    "Pi_<=b-SPIBB": ", n_wedge=10",
    "Approx-Soft-SPIBB": ", epsilon=1",
}
_ETA, _SIZES = 0.3, (10, 50, 200, 1_000)


def table(study: Study) -> str:
    """Return mean and CVaR of the settings, what was never tried ending or not."""
    places = [study.plan.sizes.index(size) for size in _SIZES]
    head = " | ".join(f"{size:,}" for size in _SIZES)
    lines = [f"| process | algorithm | pairs never tried | {head} |", "|---|---|---|" + "---|" * 4]
    for process in ("queue", "inventory", "maintenance"):
        for name, setting in _SETTINGS.items():
            for treatment, suffix in (("end for nothing", ENDS), ("as their state", "")):
                label = f"{process}: {name}{suffix}{setting}"
                mean, tail = (study.of(label, m, _ETA)[places] for m in (MEAN, CVAR))
                cells = " | ".join(f"{m:.2f} / {t:.2f}" for m, t in zip(mean, tail, strict=True))
                lines.append(f"| {process} | {name}{setting} | {treatment} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    """Publish the study and fill the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path)
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    chosen = parser.parse_args()
    study = Study(chosen.study)
    study.publish(chosen.docs / "results/costs")
    page = chosen.docs / "costs.md"
    plan = study.plan
    facts = (
        f"Plan `{plan.name}`, fingerprint `{plan.fingerprint}`, seed {plan.seed}: "
        f"{int(study.aggregates.n.min()):,} runs of {len(plan.settings)} settings."
    )
    blocks = {"facts": facts, "table": table(study)}
    page.write_text(fill_page(page.read_text(encoding="utf-8"), blocks), encoding="utf-8")
    print(f"{len(blocks)} places of {page} are filled")


if __name__ == "__main__":
    main()
