"""What all commands print: data for programs, tables and sentences for people."""

from __future__ import annotations

import csv as csv_format
import io
import json as json_format
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from spibb.display import short, visible

if TYPE_CHECKING:
    from spibb.data.objective import Objective

# Names are printed as Text: what stands in a log is neither markup nor an emoji code.
console = Console(highlight=False, soft_wrap=False)
left = partial(Column, overflow="fold")
right = partial(left, justify="right")
_LONGEST_NAME = 60


def print_as(
    printed: str,
    *,
    json: Callable[[], Any],
    csv: Callable[[], Iterable[Sequence[Any]]],
    table: Callable[[], None],
) -> None:
    """Print a result in the format that was asked for.

    Args:
        printed: "json", "csv" or "table".
        json: Returns plain JSON values.
        csv: Returns rows, the names of the columns first.
        table: Prints the result for people.
    """
    if printed == "table":
        table()
        return
    if printed == "json":
        is_unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
        text = json_format.dumps(json(), indent=2, allow_nan=False, ensure_ascii=not is_unicode)
    else:
        buffer = io.StringIO()
        csv_format.writer(buffer, lineterminator="\n").writerows(csv())
        text = buffer.getvalue().removesuffix("\n")
    # Programs get data as they are, and the eyes of a person none with commands in them.
    print(visible(text) if sys.stdout.isatty() else text)


def print_table(columns: Iterable[Column | str], rows: Iterable[Sequence[str | Text]]) -> None:
    """Print a table; what stands in a log comes as Text."""
    table = Table(*columns)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def print_title(text: str) -> None:
    """Print what stands above a table, whose own title would be broken where it is narrow."""
    console.print(Text(text, style="bold"))


def print_sentence(text: str) -> None:
    """Print a sentence, or several lines of them, that may hold names of states."""
    console.print(Text(visible(text)))


def print_objective(objective: Objective) -> None:
    """Print what is better, and what a good and a bad episode look like: the first lines."""
    print_sentence("\n".join(objective.sentences) + "\n")


def print_bullets(texts: Iterable[str]) -> None:
    """Print sentences as a list."""
    bullets = Table.grid(padding=(0, 1))
    for text in texts:
        bullets.add_row("  -", Text(visible(text)))
    console.print(bullets)


def print_place(text: str) -> None:
    """Say where a result is, on one line, so that the path can be copied."""
    console.print(Text(visible(text)), soft_wrap=True)


def short_name(text: str) -> Text:
    """Return a name in one line and of bearable length; the files have it whole."""
    return Text(short(visible(text), _LONGEST_NAME))


def print_written(out: Path) -> None:
    """Say where a result is, and what to open."""
    print_place(f"\nWritten to {out}; open {out / 'report.html'}")
