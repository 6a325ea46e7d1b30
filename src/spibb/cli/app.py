"""The command line: commands, each in a file of its own, and what becomes of their errors.

Their files are light, and import what is heavy when they run, so that --help is quick.
"""

from __future__ import annotations

import gc
import os
import sys
from io import TextIOWrapper
from typing import Annotated, NoReturn

import typer

from spibb.cli.algorithms_command import algorithms
from spibb.cli.audit_command import audit
from spibb.cli.count_command import count
from spibb.cli.demo_command import demo
from spibb.cli.evaluate_command import evaluate
from spibb.cli.improve_command import improve
from spibb.cli.inspect_command import inspect
from spibb.cli.single_use_options import Once
from spibb.cli.study_command import study

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # brackets in help texts are brackets
    help="Improve a running policy from its log, safely, and say what is guaranteed.",
)
for command in (demo, inspect, improve, algorithms, audit, evaluate, count):
    app.command(cls=Once)(command)
app.add_typer(study, name="study")


# Commands that always read a log, and so load pyarrow.
_READING = ("improve", "evaluate", "inspect", "audit", "count", "demo")
# Objects that are made before garbage is looked for.
_OBJECTS = 50_000
Version = Annotated[bool, typer.Option("--version", help="Print the version and leave.")]


@app.callback(invoke_without_command=True)
def _root(version: Version = False) -> None:
    if version:
        import spibb

        typer.echo(f"spibb {spibb.__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line: one readable message and exit code 2 for bad input."""
    from spibb.cli.disable_pandas import leave_pandas_out
    from spibb.cli.interrupts import prompt_interrupts
    from spibb.cli.streams import open_closed_streams
    from spibb.errors import SpibbError

    open_closed_streams()
    os.environ.pop("SOURCE_DATE_EPOCH", None)  # packages read it that have nothing to date here
    # The same bytes on every machine: BLAS rounds differently with each number of threads.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    if _reads_a_log(sys.argv[1:]):
        leave_pandas_out()
        # What is loaded stays: to look for garbage in it takes a twentieth of a short command.
        gc.set_threshold(_OBJECTS)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A label that the terminal has no letters for is no reason to fail.
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            with prompt_interrupts():
                app()
        finally:
            sys.stdout.flush()
    except SpibbError as error:
        _fail(str(error) + _named(error.episode))
    except MemoryError as error:
        _fail(f"this does not fit into memory ({error}).")
    except OSError as error:
        # Files have messages of their own; what is left is output that cannot be printed, and
        # what waits to be printed would fail once more on the way out.
        sys.stdout = None
        if isinstance(error, BrokenPipeError):
            sys.exit(1)
        _fail(f"cannot print the result: {error.strerror or error}.")


def _reads_a_log(arguments: list[str]) -> bool:
    return arguments[:1] in [[name] for name in _READING] and "--help" not in arguments


def _named(episode: str | None) -> str:
    """Name the episode that an error is about, or say how to see it."""
    if episode is None:
        return ""
    if "--show-ids" in sys.argv:
        return f" The episode is {episode!r}."
    return " The id of the episode is not shown; --show-ids shows it."


def _fail(message: str) -> NoReturn:
    from spibb.display import visible

    typer.secho(f"Error: {visible(message)}", err=True, fg=typer.colors.RED)
    sys.exit(2)
