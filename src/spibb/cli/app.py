"""The commands. Each is a thin file; heavy imports happen inside, so that --help is quick."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from enum import StrEnum
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, NoReturn

import typer

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # brackets in help texts are brackets
    help="Improve a running policy from its log, safely, and say what is guaranteed.",
)


class Format(StrEnum):
    """How results are printed."""

    table = "table"
    json = "json"
    csv = "csv"


LogFile = Annotated[
    str, typer.Argument(metavar="LOG", help="Log: a CSV or Parquet file, a folder or a glob.")
]
Baseline = Annotated[
    str,
    typer.Option(
        "--baseline",
        metavar="FILE",
        help="The policy that made the log (state, action, probability), or 'estimate'.",
    ),
]
Gamma = Annotated[float, typer.Option("--gamma", help="Discount, 0 <= gamma <= 1.")]
Delta = Annotated[
    float | None, typer.Option("--delta", help="Allowed probability of error [default: 0.05].")
]
Error = Annotated[
    str | None,
    typer.Option(
        "--error",
        help="Error function: hoeffding-q, hoeffding-p, hoeffding-returns or empirical-bernstein "
        "[default: hoeffding-q; in the adv algorithms hoeffding-returns].",
    ),
]
Columns = Annotated[
    str | None,
    typer.Option("--columns", metavar="NAME=COLUMN,...", help="Columns that are called otherwise."),
]
Rewards = Annotated[
    tuple[float, float] | None,
    typer.Option(
        "--reward-range", metavar="LOW HIGH", help="Smallest and largest reward possible."
    ),
]
Initial = Annotated[
    str | None,
    typer.Option(
        "--initial",
        metavar="FILE",
        help="Distribution of the first state (state, probability) [default: as in the log].",
    ),
]
StatesComplete = Annotated[
    bool,
    typer.Option("--states-complete", help="Declare that there are no states but those listed."),
]
NeverEnds = Annotated[
    bool, typer.Option("--never-ends", help="Declare that the process never ends.")
]
Successors = Annotated[
    str | None,
    typer.Option(
        "--successors",
        metavar="FILE|seen",
        help="Declare what may follow: a file (state, [action,] next_state), or 'seen' for what "
        "followed in the log.",
    ),
]
Unseen = Annotated[
    str | None,
    typer.Option(
        "--unseen",
        help="What pairs never tried do in the model: average (as their state), terminal, uniform "
        "or self-loop [default: average].",
    ),
]
Printed = Annotated[Format, typer.Option("--format", help="How to print the result.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an earlier result.")]


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.")
    ] = False,
) -> None:
    if version:
        import spibb

        typer.echo(f"spibb {spibb.__version__}")
        raise typer.Exit


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for the result.")] = Path("spibb-demo"),
    overwrite: Overwrite = False,
) -> None:
    """Improve a ward's treatment rule from a log shipped with the package."""
    from spibb.cli.demo_command import run_demo

    run_demo(out, overwrite=overwrite)


@app.command()
def improve(
    log: LogFile,
    baseline: Baseline,
    gamma: Gamma,
    out: Annotated[Path, typer.Option("--out", help="Folder for the result.")],
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm",
            help="Algorithm, by id; 'spibb algorithms' lists them [default: approx-soft-spibb].",
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", help="Budget of the soft algorithms [default: 0.5]."),
    ] = None,
    n_wedge: Annotated[
        float | None,
        typer.Option(
            "--n-wedge", help="Observations that make a pair trusted [default: 10; in r-min 3]."
        ),
    ] = None,
    delta: Delta = None,
    error: Error = None,
    max_iterations: Annotated[
        int | None, typer.Option("--max-iterations", help="Improvement steps; 1 is one-step.")
    ] = None,
    others: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other setting, as kappa=0.01 or mixtures=0,0.5; may be repeated.",
        ),
    ] = None,
    guarantee: Annotated[
        float | None,
        typer.Option(
            "--guarantee",
            help="Choose n_wedge of pi-b-spibb so that at most this loss is certified.",
        ),
    ] = None,
    compared: Annotated[
        str | None, typer.Option("--compare", metavar="A,B,...", help="Run several, in one table.")
    ] = None,
    certificate_delta: Annotated[
        float,
        typer.Option(
            "--certificate-delta", help="Allowed probability of error of the certificate."
        ),
    ] = 0.05,
    reward_range: Rewards = None,
    initial: Initial = None,
    states_complete: StatesComplete = False,
    never_ends: NeverEnds = False,
    successors: Successors = None,
    unseen: Unseen = None,
    columns: Columns = None,
    printed: Printed = Format.table,
    overwrite: Overwrite = False,
) -> None:
    """Improve the baseline on the evidence of its log and write the result to a folder."""
    from spibb.cli.compare_command import run_compare
    from spibb.cli.improve_command import run_improve
    from spibb.cli.inputs import Declared, parse_settings

    named = {
        "epsilon": epsilon,
        "n_wedge": n_wedge,
        "delta": delta,
        "error": error,
        "max_iterations": max_iterations,
    }
    settings = {name: value for name, value in named.items() if value is not None}
    settings |= parse_settings(others or [])
    declared = Declared.of(reward_range, initial, unseen, states_complete, never_ends, successors)
    if compared is not None:
        if algorithm is not None or guarantee is not None:
            raise typer.BadParameter("--compare goes without --algorithm and --guarantee")
        run_compare(
            compared,
            log,
            baseline,
            gamma,
            settings=settings,
            declared=declared,
            certificate_delta=certificate_delta,
            columns=columns,
            out=out,
            overwrite=overwrite,
            printed=printed.value,
        )
        return
    run_improve(
        log,
        baseline,
        gamma,
        algorithm=algorithm,
        settings=settings,
        declared=declared,
        certificate_delta=certificate_delta,
        columns=columns,
        out=out,
        overwrite=overwrite,
        printed=printed.value,
        guarantee=guarantee,
    )


@app.command()
def algorithms(printed: Printed = Format.table) -> None:
    """List the algorithms and their settings."""
    from spibb.cli.improve_command import list_algorithms

    list_algorithms(printed.value)


@app.command()
def audit(
    log: LogFile,
    baseline: Baseline,
    policy: Annotated[str, typer.Option("--policy", metavar="FILE", help="The policy to judge.")],
    gamma: Gamma,
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", help="Budget to hold the policy to.")
    ] = None,
    n_wedge: Annotated[
        float | None, typer.Option("--n-wedge", help="Threshold to hold the policy to.")
    ] = None,
    delta: Delta = None,
    error: Error = None,
    reward_range: Rewards = None,
    initial: Initial = None,
    states_complete: StatesComplete = False,
    never_ends: NeverEnds = False,
    successors: Successors = None,
    unseen: Unseen = None,
    columns: Columns = None,
    printed: Printed = Format.table,
) -> None:
    """Judge any policy against a log and the baseline that made it.

    Exit code 1 if a budget or threshold was given and the policy does not keep to it.
    """
    from spibb.cli.audit_command import run_audit
    from spibb.cli.inputs import Declared

    kept = run_audit(
        log,
        baseline,
        policy,
        gamma,
        epsilon=epsilon,
        n_wedge=n_wedge,
        delta=delta,
        error=error,
        declared=Declared.of(
            reward_range, initial, unseen, states_complete, never_ends, successors
        ),
        columns=columns,
        printed=printed.value,
    )
    raise typer.Exit(0 if kept else 1)


@app.command()
def evaluate(
    log: LogFile,
    baseline: Baseline,
    policy: Annotated[
        str, typer.Option("--policy", metavar="FILE", help="The policy to estimate.")
    ],
    gamma: Gamma,
    estimator: Annotated[
        str | None,
        typer.Option("--estimator", help="is, pdis, wis, cwpdis, dr, model; several with commas."),
    ] = None,
    bound: Annotated[
        str,
        typer.Option(
            "--bound",
            help="Interval: bca or student-t (approximate), betting or concentration (exact).",
        ),
    ] = "bca",
    delta: Delta = None,
    reward_range: Rewards = None,
    return_range: Annotated[
        tuple[float, float] | None,
        typer.Option("--return-range", metavar="LOW HIGH", help="Smallest and largest return."),
    ] = None,
    unseen: Unseen = None,
    columns: Columns = None,
    printed: Printed = Format.table,
) -> None:
    """Estimate what a policy would earn, from the log of another, with intervals."""
    from spibb.cli.evaluate_command import run_evaluate

    run_evaluate(
        log,
        baseline,
        policy,
        gamma,
        estimator=estimator,
        bound=bound,
        delta=delta,
        reward_range=reward_range,
        return_range=return_range,
        unseen=unseen,
        columns=columns,
        printed=printed.value,
    )


study = typer.Typer(no_args_is_help=True, help="Run the studies of the paper, and your own.")
app.add_typer(study, name="study")


@study.command("list")
def study_list(printed: Printed = Format.table) -> None:
    """List the plans that ship with the package."""
    from spibb.cli.study_command import list_studies

    list_studies(printed.value)


@study.command("run")
def study_run(
    name: Annotated[str, typer.Argument(metavar="PLAN", help="Name of a plan, or a TOML file.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the study.")],
    runs: Annotated[int | None, typer.Option("--runs", help="Repetitions.")] = None,
    workers: Annotated[int | None, typer.Option("--workers", help="Jobs at a time.")] = None,
    engine: Annotated[
        str, typer.Option("--engine", help="Who computes: local, ray or cuda.")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            "--address", metavar="HOST:PORT", help="A running ray cluster [default: RAY_ADDRESS]."
        ),
    ] = None,
    piece: Annotated[
        str | None,
        typer.Option("--piece", metavar="N/OF", help="A piece such as 2/4, to be merged later."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an earlier run.")] = False,
) -> None:
    """Run a plan; it may be killed at any moment and resumed."""
    from spibb.cli.study_command import run_named_study

    run_named_study(
        name,
        out,
        runs=runs,
        workers=workers,
        resume=resume,
        engine=engine,
        address=address,
        piece=piece,
    )


@study.command("merge")
def study_merge(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder for the merged study.")],
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR", help="Pieces, or plans of the same draws.")
    ],
) -> None:
    """Make one study of pieces of a plan, or of plans with other settings on the same draws."""
    from spibb.cli.study_command import merge_folders

    merge_folders(out, folders)


@study.command("figures")
def study_figures(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The study's folder.")],
) -> None:
    """Draw the figures of a study: SVG, PNG and a page with all of them."""
    from spibb.cli.figures_command import draw_study

    draw_study(folder)


def main() -> None:
    """Run the command line: one readable message and exit code 2 for bad input."""
    from spibb.cli.interrupts import prompt_interrupts
    from spibb.errors import SpibbError

    os.environ.pop("SOURCE_DATE_EPOCH", None)  # packages read it that have nothing to date here
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A label that the terminal has no letters for is no reason to fail.
            stream.reconfigure(errors="backslashreplace")
    # A study has workers to end, and ends them itself.
    guard = nullcontext() if "study" in sys.argv[1:2] else prompt_interrupts()
    try:
        try:
            with guard:
                app()
        finally:
            sys.stdout.flush()
    except SpibbError as error:
        _fail(str(error))
    except MemoryError as error:
        _fail(f"this does not fit into memory ({error}).")
    except OSError as error:
        # Files have messages of their own; what is left is output that cannot be printed, and
        # what waits to be printed would fail once more on the way out.
        sys.stdout = None
        if isinstance(error, BrokenPipeError):
            sys.exit(1)
        _fail(f"cannot print the result: {error.strerror or error}.")


def _fail(message: str) -> NoReturn:
    from spibb.cli.printing import visible

    typer.secho(f"Error: {visible(message)}", err=True, fg=typer.colors.RED)
    sys.exit(2)
