"""``spibb study``: list, run, merge, figures, publish."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option, Typer

from spibb.cli.interrupts import say_when_interrupted
from spibb.cli.options import Format, PrintFormat

study = Typer(no_args_is_help=True, help="Run the studies of the paper, and your own.")

PlanName = Annotated[str, Argument(metavar="PLAN", help="Name of a plan, or a TOML file.")]
Runs = Annotated[int | None, Option(help="Repetitions.")]
Baselines = Annotated[
    list[str] | None,
    Option(metavar="FILE", help="A baseline of the helicopter, or shipped; may be repeated."),
]
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
    """List the plans that ship with the package, and those of other packages."""
    from rich.table import Column

    from spibb.cli.printing import print_as, print_table
    from spibb.plugins import load_plugins
    from spibb.studies.registry import PLANS

    load_plugins()
    facts: dict[str, dict[str, Any]] = {
        name: {
            "study": plan.study,
            "runs": plan.n_runs,
            "factors": {factor: len(values) for factor, values in plan.factors.items()},
            "settings": len(plan.settings),
            "fingerprint": plan.fingerprint,
        }
        for name, plan in PLANS.items()
    }
    names = ["plan", *next(iter(facts.values()))]
    told = [
        ", ".join(f"{factor} {n}" for factor, n in fact["factors"].items())
        for fact in facts.values()
    ]
    rows = [
        [name, *(fact | {"factors": factors}).values()]
        for (name, fact), factors in zip(facts.items(), told, strict=True)
    ]
    head = [Column("plan", no_wrap=True), *map(Column, names[1:-1])]
    cells = (list(map(str, row[:-1])) for row in rows)
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
    baseline: Baselines = None,
    workers: Workers = None,
    engine: Engine = "local",
    address: Address = None,
    piece: Piece = None,
    resume: Resume = False,
) -> None:
    """Run a plan; it may be killed at any moment and resumed."""
    from spibb.cli.printing import print_place
    from spibb.cli.study_progress import run_with_bar
    from spibb.studies.registry import find_plan
    from spibb.studies.results.recording import find_piece
    from spibb.studies.running import run_study

    plan = find_plan(name, runs, baselines=baseline or [])
    options: dict[str, Any] = {
        "engine": engine,
        "workers": workers,
        "address": address,
        "piece": piece,
    }
    told = {"runs": runs, **options} | ({"engine": None} if engine == "local" else {})
    given = [f"--baseline={file}" for file in baseline or ()]
    given += [f"--{option}={value}" for option, value in told.items() if value is not None]
    command = shlex.join(["spibb", "study", "run", name, "--out", str(out), *given, "--resume"])
    kept = f"what is done is kept in {out}. Go on with: {command}"
    say_when_interrupted(
        lambda: f"Interrupted: {kept if out.exists() else 'nothing was done yet.'}"
    )
    run_with_bar(
        plan, lambda listener: run_study(plan, out, resume=resume, listener=listener, **options)
    )
    first, last = (0, plan.n_runs) if piece is None else find_piece(plan, piece)
    print_place(f"{last - first} runs are in {out}")


@study.command("merge")
def merge_folders(
    out: Annotated[Path, Argument(metavar="OUT", help="Folder for the merged study.")],
    folders: Folders,
) -> None:
    """Make one study of pieces of a plan, or of plans with other settings on the same draws."""
    from spibb.cli.printing import print_place
    from spibb.studies.registry import read_plan
    from spibb.studies.results.merging import merge_studies

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
    from spibb.studies.gallery import draw_study

    drawn = draw_study(folder, track=lambda drawn: track(drawn, "drawing", console=console))
    print_place(f"{len(drawn)} figures are in {folder / 'figures' / 'index.html'}")


@study.command("publish")
def publish_studies(
    folders: Annotated[
        list[Path], Argument(metavar="DIR... DOCS", help="Studies' folders, then that of the docs.")
    ],
) -> None:
    """Put studies' numbers and figures into the docs, and fill the pages that tell of them."""
    from spibb.cli.printing import print_place
    from spibb.errors import SettingsError
    from spibb.studies.publishing import publish

    *studies, docs = folders
    if not studies:
        raise SettingsError(
            f"there is nothing to publish in {docs}", expected="studies' folders, then the docs'"
        )
    published = publish(studies, docs)
    for page, places in published.places.items():
        print_place(f"{len(places)} places of {page} are filled: {', '.join(places)}")
    for place in published.results:
        print_place(f"numbers and figures are in {place}")
