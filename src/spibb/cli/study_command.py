"""``spibb study``: list, run, merge, figures."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from spibb.cli.interrupts import INTERRUPTED
from spibb.cli.options import Format, PrintFormat

study = Typer(no_args_is_help=True, help="Run the studies of the paper, and your own.")

PlanName = Annotated[str, Argument(metavar="PLAN", help="Name of a plan, or a TOML file.")]
Runs = Annotated[int | None, Option(help="Repetitions.")]
Workers = Annotated[int | None, Option(help="Jobs at a time.")]
Engine = Annotated[str, Option(help="Who computes: local, ray or cuda.")]
Address = Annotated[
    str | None, Option(metavar="HOST:PORT", help="A running ray cluster [default: RAY_ADDRESS].")
]
Piece = Annotated[
    str | None, Option(metavar="N/OF", help="A piece such as 2/4, to be merged later.")
]
Resume = Annotated[bool, Option("--resume", help="Go on with an earlier run.")]
StudyFolder = Annotated[Path, Option(help="Folder for the study.")]
Folders = Annotated[list[Path], Argument(metavar="DIR", help="Pieces, or plans of the same draws.")]


@study.command("list")
def list_studies(printed: PrintFormat = Format.table) -> None:
    """List the plans that ship with the package."""
    from rich.table import Column

    from spibb.cli.printing import print_as, print_table
    from spibb.studies.registry import PLANS

    facts = {
        name: {
            "study": plan.study,
            "runs": plan.n_runs,
            # A plan that cannot be told any has no strengths of a baseline.
            "etas": len(plan.etas) if "etas" in plan.entries() else None,
            "sizes": len(plan.sizes),
            "settings": len(plan.settings),
            "fingerprint": plan.fingerprint,
        }
        for name, plan in PLANS.items()
    }
    names = ["plan", *next(iter(facts.values()))]
    rows = [[name, *fact.values()] for name, fact in facts.items()]
    head = [Column("plan", no_wrap=True), *map(Column, names[1:-1])]
    cells = (["" if cell is None else str(cell) for cell in row[:-1]] for row in rows)
    print_as(
        printed,
        json=lambda: facts,
        csv=lambda: [names, *rows],
        table=lambda: print_table(head, cells),
    )


@study.command("run")
def run_named_study(
    name: PlanName,
    out: StudyFolder,
    runs: Runs = None,
    workers: Workers = None,
    engine: Engine = "local",
    address: Address = None,
    piece: Piece = None,
    resume: Resume = False,
) -> None:
    """Run a plan; it may be killed at any moment and resumed."""
    from spibb.cli.printing import print_place
    from spibb.cli.study_progress import run_with_bar
    from spibb.studies.recording import find_piece
    from spibb.studies.registry import find_plan, run_study

    plan = find_plan(name, runs)
    steps = run_study(
        plan, out, engine=engine, workers=workers, address=address, resume=resume, piece=piece
    )
    try:
        run_with_bar(plan, steps)
    except KeyboardInterrupt:
        named = engine if engine != "local" else None
        options = {
            "runs": runs, "workers": workers, "engine": named, "address": address, "piece": piece,
        }  # fmt: skip
        given = [f"--{option}={value}" for option, value in options.items() if value is not None]
        command = ["spibb", "study", "run", name, "--out", str(out), *given, "--resume"]
        kept = f"what is done is kept in {out}. Go on with: {shlex.join(command)}"
        print(f"Interrupted: {kept if out.exists() else 'nothing was done yet.'}", file=sys.stderr)
        sys.exit(INTERRUPTED)
    first, last = (0, plan.n_runs) if piece is None else find_piece(plan, piece)
    print_place(f"{last - first} runs are in {out}")


@study.command("merge")
def merge_folders(
    out: Annotated[Path, Argument(metavar="OUT", help="Folder for the merged study.")],
    folders: Folders,
) -> None:
    """Make one study of pieces of a plan, or of plans with other settings on the same draws."""
    from spibb.cli.printing import print_place
    from spibb.studies.merging import merge_studies
    from spibb.studies.registry import read_plan

    merged = merge_studies(out, folders, read_plan=read_plan)
    numbers = sorted({len(runs) for runs in merged.runs})
    told = " to ".join(f"{number:,}" for number in dict.fromkeys((numbers[0], numbers[-1])))
    print_place(f"{told} runs of {len(merged.runs)} settings are in {out}")


@study.command("figures")
def draw_figures(
    folder: Annotated[Path, Argument(metavar="DIR", help="The study's folder.")],
) -> None:
    """Draw the figures of a study: SVG, PNG and a page with all of them."""
    from rich.progress import track

    from spibb.cli.printing import console, print_place
    from spibb.report.study_figures import draw_study

    files = draw_study(folder, track=lambda drawn: track(drawn, "drawing", console=console))
    print_place(f"{len(files)} figures are in {folder / 'figures' / 'index.html'}")
