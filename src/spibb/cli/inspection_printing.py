"""What ``spibb inspect`` prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spibb.cli import printing as p
from spibb.inspection.finding import Finding
from spibb.inspection.inspect import Inspection
from spibb.report.inspection import format_place


def print_inspection(found: Inspection, printed: str) -> None:
    """Print what a log holds and what was found in it."""
    p.print_as(
        printed, json=found.to_dict, csv=lambda: _records(found), table=lambda: _describe(found)
    )


def _records(found: Inspection) -> Iterator[Any]:
    yield "check", "severity", "p_value", "share", "found", "effect", "advice", "verdict_effect"
    for one in found.findings:
        p_value = "" if one.p_value is None else one.p_value
        words = one.found, one.effect, one.advice
        yield one.check, one.severity, p_value, one.share, *words, one.verdict_effect


def _describe(found: Inspection) -> None:
    p.print_objective(found.objective)
    p.print_sentence(found.headline)
    p.print_sentence(f"Content hash {found.facts['content_hash']}\n")
    if not found.findings:
        p.print_sentence(found.statement)
    else:
        p.print_title("Findings, the worst for the result first")
    for one in found.findings:
        _print_finding(one)
    p.print_title("Pairs of state and action, by how often they were seen")
    p.print_table(
        (p.left("seen"), p.right("pairs"), p.right(found.visits_of)),
        (
            (part["seen"], f"{part['pairs']:,}", f"{100 * part['share_of_visits']:.1f} %")
            for part in found.coverage
        ),
    )
    chance = f"{100 * found.family_level:g} of 100"
    p.print_title(f"Tests, which find something in {chance} sound logs, all together")
    p.print_table(
        (p.left("test"), p.left("question"), p.right("p"), p.right("limit")),
        (
            (
                one.check,
                one.question + (f" ({one.remark})" if one.remark else ""),
                "not run" if one.p_value is None else f"{one.p_value:.2g}",
                "none" if one.level is None else f"{one.level:g}",
            )
            for one in found.tests
        ),
    )


def _print_finding(one: Finding) -> None:
    p.print_bullets([f"{one.check} ({one.severity}): {one.sentence}"])
    if one.places:
        names = list(one.places[0])
        p.print_table(
            [p.left(name.replace("_", " ")) for name in names],
            [
                [p.short_name(format_place(name, place[name])) for name in names]
                for place in one.places
            ],
        )
