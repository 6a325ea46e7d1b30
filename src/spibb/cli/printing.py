"""What commands print."""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from spibb.certify.certificate import Certificate, Condition
from spibb.report.changes import Change

# Names are printed as Text: what stands in a log is neither markup nor an emoji code.
console = Console(highlight=False, soft_wrap=False)
_N_SHOWN = 10
_LONGEST_NAME = 60


def visible(text: str) -> str:
    """Return a text whose control characters are written out, so that a terminal obeys none."""
    return "".join(
        mark if mark.isprintable() or mark == "\n" else mark.encode("unicode_escape").decode()
        for mark in text
    )


def print_data(text: str) -> None:
    """Print data for programs as it is, and for the eyes of a person without commands in it."""
    print(visible(text) if sys.stdout.isatty() else text, end="")


def print_json(facts: dict[str, Any]) -> None:
    """Print plain JSON values."""
    is_unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print_data(json.dumps(facts, indent=2, allow_nan=False, ensure_ascii=not is_unicode) + "\n")


def print_changes_csv(changes: list[Change]) -> None:
    """Print the table of changes as CSV."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, [item.name for item in fields(Change)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(change) for change in changes)
    print_data(buffer.getvalue())


def print_changes(changes: list[Change]) -> None:
    """Print the changes that matter most."""
    if not changes:
        console.print("The policy is the baseline: nothing changes.")
        return
    shown = changes[:_N_SHOWN]
    states = f"{len(changes)} state{'' if len(changes) == 1 else 's'}"
    cut = f" ({len(shown)} shown)" if len(shown) < len(changes) else ""
    title = f"Where it differs: {states}, most rows moved first{cut}"
    # Printed apart: the title of a narrow table would be broken.
    console.print(Text(title, style="bold"))
    table = Table()
    table.add_column("state", overflow="fold", min_width=8)
    table.add_column("rows", justify="right", no_wrap=True, min_width=4)
    table.add_column("less of", overflow="fold", min_width=8)
    table.add_column("more of", overflow="fold", min_width=8)
    table.add_column("value", justify="right", no_wrap=True, min_width=7)
    for change in shown:
        table.add_row(
            _name(change.state),
            str(change.n_rows),
            _name(change.less).append(f" -{100 * change.less_by:.0f}%"),
            _name(change.more).append(f" +{100 * change.more_by:.0f}%"),
            f"{change.value_gain:+.3g}",
        )
    console.print(table)


def _name(text: str) -> Text:
    """Return a name in one line and of bearable length; the files have it whole."""
    line = " ".join(_printable(text).split())
    return Text(line if len(line) <= _LONGEST_NAME else line[: _LONGEST_NAME - 1] + "…")


def _printable(text: str) -> str:
    """Leave out what would command a terminal."""
    return "".join(mark if mark.isprintable() else " " for mark in text)


def print_conditions(title: str, conditions: tuple[Condition, ...]) -> None:
    """Print conditions with the outcome of each."""
    console.print(Text(title, style="bold"))
    table = Table("condition")
    table.add_column("outcome")
    table.add_column("found", justify="right")
    table.add_column("limit", justify="right")
    table.add_column("first at")
    for condition in conditions:
        table.add_row(
            condition.statement,
            {True: "holds", False: "FAILS", None: "not checked"}[condition.is_satisfied],
            "" if condition.value is None else f"{condition.value:.4g}",
            "" if condition.limit is None else f"{condition.limit:.4g}",
            _name(condition.where or ""),
        )
    console.print(table)


def print_guarantee(certificate: Certificate) -> None:
    """Print what is guaranteed and what is assumed."""
    console.print("[bold]Guarantee[/bold]")
    print_sentence(certificate.statement)
    guarantee = certificate.guarantee
    if guarantee.applies and not guarantee.is_vacuous:
        print_sentence(guarantee.statement)
    if certificate.is_guaranteed and certificate.assumptions:
        console.print("Assumed, and not to be checked on a log:")
        bullets = Table.grid(padding=(0, 1))
        for text in certificate.assumptions:
            bullets.add_row("  -", Text(text))
        console.print(bullets)
    for other in certificate.others:
        told = f" {other.statement}" if other.applies else ""
        print_sentence(f"Beside it: {other.summary}{told}")


def print_start(n_episodes: int) -> None:
    """Say where performance is counted from, if the log does not say it."""
    if n_episodes == 0:
        console.print(
            "The log has no episodes, so performance takes every state seen as an equally likely "
            "start."
        )


def print_sentence(text: str) -> None:
    """Print a sentence that may hold names of states."""
    console.print(Text(_printable(text)))


def print_place(folder: Path) -> None:
    """Say where a result is, on one line, so that the path can be copied."""
    text = f"Written to {folder}; open {folder / 'report.html'}"
    console.print(Text("\n" + visible(text)), soft_wrap=True)
