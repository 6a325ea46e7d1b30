"""``spibb study``: list, run."""

from __future__ import annotations

from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from spibb.cli.printing import console, print_json
from spibb.studies.registry import PLANS, find_plan, run_study


def list_studies(printed: str) -> None:
    """Print the plans that ship with the package."""
    facts = {
        name: {
            "study": plan.study,
            "runs": plan.n_runs,
            "etas": len(plan.etas),
            "sizes": len(plan.sizes),
            "settings": len(plan.settings),
            "fingerprint": plan.fingerprint,
        }
        for name, plan in PLANS.items()
    }
    if printed == "json":
        print_json(facts)
        return
    table = Table("plan", "study", "runs", "etas", "sizes", "settings", "fingerprint")
    for name, fact in facts.items():
        table.add_row(name, *(str(part) for part in fact.values()))
    console.print(table)


def run_named_study(
    name: str, out: Path, *, runs: int | None, workers: int | None, resume: bool
) -> None:
    """Run a plan with a bar that tells rate and time left."""
    plan = find_plan(name, runs)
    with Bar(
        TextColumn(plan.name), BarColumn(), MofNCompleteColumn(),
        TextColumn("jobs, {task.fields[rate]}"), TimeRemainingColumn(), console=console,
    ) as bar:  # fmt: skip
        task = bar.add_task(plan.name, total=len(plan.jobs()), rate="starting")
        for progress in run_study(plan, out, workers=workers, resume=resume):
            rate = progress.n_runs_done / progress.seconds if progress.seconds else 0.0
            bar.update(task, completed=progress.n_done, rate=f"{rate:.1f} runs/s")
    console.print(f"{plan.n_runs} runs are in {out}", markup=False, soft_wrap=True)
