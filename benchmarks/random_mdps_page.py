"""Fill the results on random MDPs into their page, and put numbers and figures beside it.

``python benchmarks/random_mdps_page.py --main ALL --search SEARCH --unguarded STUDY
--complexity STUDY [--docs docs]`` takes study folders, writes plan, aggregates and figures into
``docs/results/``, and the numbers between the marks of ``docs/random-mdps.md``.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from spibb.report.study_figures import draw_study
from spibb.studies.aggregate import FILE, Aggregates
from spibb.studies.complexity import claims as time_claims
from spibb.studies.complexity.timings import FILE as TIMINGS
from spibb.studies.complexity.timings import facts_of, read_timings
from spibb.studies.metrics import Measure
from spibb.studies.page import fill_page
from spibb.studies.plan import Plan
from spibb.studies.random_mdps import claims
from spibb.studies.registry import read_plan

MEAN, CVAR = Measure(), Measure(0.01)
BASIC, SPIBB, SOFT = "Basic RL", "Pi_b-SPIBB, n_wedge=10", "Approx-Soft-SPIBB, epsilon=2"


class Study:
    """A study's folder with its plan and aggregates."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plan: Plan = read_plan((folder / "plan.toml").read_text(encoding="utf-8"))
        self.aggregates = Aggregates.of_study(folder, self.plan)

    def of(self, label: str, measure: Measure, eta: float = 0.9) -> Any:
        """Return a setting's values, one for each size."""
        place = [setting.label for setting in self.plan.settings].index(label)
        return self.aggregates.of(measure).value[self.plan.etas.index(eta), :, place]

    def publish(self, folder: Path) -> None:
        """Put what is needed to draw the figures, and the figures, into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.folder / "plan.toml", folder)
        self.aggregates.write(folder / FILE, self.plan)
        if (self.folder / TIMINGS).exists():
            shutil.copy(self.folder / TIMINGS, folder)
        draw_study(folder)
        for file in (folder / "figures").glob("*"):
            if file.suffix != ".svg":
                file.unlink()


def facts(study: Study) -> str:
    """Say what the study is."""
    plan, n = study.plan, study.aggregates.n
    return "\n".join([
        f"* plan `{plan.name}`, fingerprint `{plan.fingerprint}`, seed {plan.seed}: "
        f"{len(plan.etas)} strengths of the baseline x {len(plan.sizes)} sizes of the log x "
        f"{len(plan.settings)} settings",
        f"* {int(n.max()):,} runs of {int((n[0, 0] == n.max()).sum())} settings, {int(n.min()):,} "
        f"of the {int((n[0, 0] < n.max()).sum())} of robust MDP and HCPI: "
        f"{int(n.sum()):,} policies trained and evaluated",
    ])  # fmt: skip


def guard(main: Study, unguarded: Study) -> str:
    """Compare the study with one whose episodes end at a goal only."""
    lines = ["| η = 0.9 | with the guard: mean, 1 %-CVaR | without |", "|---|---|---|"]
    for label in (BASIC, SPIBB, SOFT):
        cells = []
        for study in (main, unguarded):
            mean, tail = study.of(label, MEAN), study.of(label, CVAR)
            cells.append(f"{mean.mean():.3f}, {tail.mean():.3f}")
        lines.append(f"| {label} | {cells[0]} | {cells[1]} |")
    n = int(unguarded.aggregates.n.max())
    return (
        f"Means over the eight sizes, {n:,} runs without it (`random-mdps-unguarded`; few for a "
        "1 %-CVaR, which is the mean of the worst hundredth):\n\n" + "\n".join(lines)
    )


def search(study: Study) -> str:
    """Name the best value of each searched hyper-parameter, by size."""
    lines = ["| | by mean | by 1 %-CVaR |", "|---|---|---|"]
    groups = dict.fromkeys(setting.group for setting in study.plan.settings if setting.group)
    for group in groups:
        family = [setting for setting in study.plan.settings if setting.group == group]
        if len(family) == 1:
            continue
        cells = []
        for measure in (MEAN, CVAR):
            table = np.array([study.of(setting.label, measure) for setting in family])
            # Where no value is better than another, none is the best.
            alike = np.ptp(table, axis=0) == 0
            best = [family[k].value for k in table.argmax(axis=0)]
            pairs = zip(best, alike, strict=True)
            cells.append(", ".join("any" if same else f"{value:g}" for value, same in pairs))
        parameter, _, name = group.partition(": ")
        lines.append(f"| {parameter} of {name} | {cells[0]} | {cells[1]} |")
    sizes = ", ".join(f"{size:,}" for size in study.plan.sizes)
    return f"Best value at {sizes} trajectories:\n\n" + "\n".join(lines)


def complexity(folder: Path) -> tuple[str, list[claims.Finding]]:
    """Return the table of times, with the machine, and the claims."""
    plan: Any = read_plan((folder / "plan.toml").read_text(encoding="utf-8"))
    table = read_timings(folder, plan)
    machine = ", ".join(f"{name} {value}" for name, value in facts_of(table).items()
                        if name not in ("format", "fingerprint", "plan"))  # fmt: skip
    text = (
        "One log of the gridworld with its actions multiplied, from the estimated model to the "
        f"converged policy, one thread ({machine}):\n\n{time_claims.to_table(table, plan)}"
    )
    return text, time_claims.findings(table, plan)


def main() -> None:
    """Fill the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("main", "search", "unguarded", "complexity"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    chosen = parser.parse_args()
    results = chosen.docs / "results"
    studies = {name: Study(getattr(chosen, name)) for name in ("main", "search", "unguarded")}
    studies["main"].publish(results / "random-mdps")
    studies["search"].publish(results / "spibb-search")
    Study(chosen.complexity).publish(results / "complexity")
    times, judged = complexity(chosen.complexity)
    found = claims.findings(studies["main"].plan, studies["main"].aggregates) + judged
    blocks = {
        "facts": facts(studies["main"]),
        "claims": claims.to_markdown(found),
        "guard": guard(studies["main"], studies["unguarded"]),
        "search": search(studies["search"]),
        "complexity": times,
    }
    page = chosen.docs / "random-mdps.md"
    page.write_text(fill_page(page.read_text(encoding="utf-8"), blocks), encoding="utf-8")
    print(f"{len(blocks)} places of {page} are filled")


if __name__ == "__main__":
    main()
