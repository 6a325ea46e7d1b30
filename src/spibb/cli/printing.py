"""What commands print."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, fields
from typing import Any

from rich.console import Console
from rich.table import Table

from spibb.certify.certificate import Certificate, Condition
from spibb.report.changes import Change

console = Console(highlight=False, soft_wrap=False)
_N_SHOWN = 10


def print_json(facts: dict[str, Any]) -> None:
    """Print plain JSON values."""
    print(json.dumps(facts, indent=2, allow_nan=False, ensure_ascii=False))


def print_changes_csv(changes: list[Change]) -> None:
    """Print the table of changes as CSV."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, [item.name for item in fields(Change)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(change) for change in changes)
    print(buffer.getvalue(), end="")


def print_changes(changes: list[Change]) -> None:
    """Print the changes that matter most."""
    if not changes:
        console.print("The policy is the baseline: nothing changes.")
        return
    shown = changes[:_N_SHOWN]
    title = f"Where it differs ({len(shown)} of {len(changes)} states, most rows moved first)"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("state", overflow="fold")
    table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("less of", no_wrap=True)
    table.add_column("more of", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    for change in shown:
        table.add_row(
            change.state,
            str(change.n_rows),
            f"{change.less} -{100 * change.less_by:.0f}%",
            f"{change.more} +{100 * change.more_by:.0f}%",
            f"{change.value_gain:+.3g}",
        )
    console.print(table)


def print_conditions(title: str, conditions: tuple[Condition, ...]) -> None:
    """Print conditions with the outcome of each."""
    table = Table("condition", title=title, title_justify="left", title_style="bold")
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
            condition.where or "",
        )
    console.print(table)


def print_guarantee(certificate: Certificate) -> None:
    """Print what is guaranteed and what is assumed."""
    console.print("[bold]Guarantee[/bold]")
    console.print(certificate.statement, markup=False)
    if certificate.is_guaranteed:
        console.print("Assumed, and not to be checked on a log:")
        for text in certificate.assumptions:
            console.print(f"  - {text}", markup=False)
