"""Claims and their verdicts, and the tables of pages.

Every claim is a rule over the results, and its verdict is what the rule returns, always with the
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from spibb.studies.results.aggregates import NotInPlanError

# What becomes of a claim, and the numbers on whose grounds; a rule finds it in what is known.
Rule = Callable[..., tuple[str, str]]


class Finding(NamedTuple):
    """A claim and what became of it.

    Attributes:
        claim: What is claimed, in short.
        verdict: "confirmed", "in part", "not confirmed", or why nothing can be said.
        numbers: On what grounds.
    """

    claim: str
    verdict: str
    numbers: str


def judged(claims: Mapping[str, Rule], *given: Any) -> list[Finding]:
    """Return what becomes of claims; one about what the plan has not is left out."""
    found = []
    for claim, rule in claims.items():
        with suppress(NotInPlanError):
            found.append(Finding(claim, *rule(*given)))
    return found


class ByName(dict[Any, Any]):
    """What is known of algorithms; claims about others are left out."""

    def __missing__(self, name: Any) -> Any:
        raise NotInPlanError(name)


def verdict(*parts: object) -> str:
    """Return what becomes of a claim whose parts hold or not.

    Example:
        >>> verdict(True, False)
        'in part'
    """
    if all(parts):
        return "confirmed"
    return "in part" if any(parts) else "not confirmed"


def to_markdown(found: Iterable[Finding]) -> str:
    """Return findings as a table."""
    rows = ([one.claim, f"**{one.verdict}**", one.numbers] for one in found)
    return markdown_table(["claim", "verdict", "numbers"], rows)


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as Markdown; what its first column holds may have no title.

    Example:
        >>> print(markdown_table(["", "mean"], [["RaMDP", "0.5"]]))
        | | mean |
        |---|---|
        | RaMDP | 0.5 |
    """
    lines = [" | ".join(head).lstrip(), *(" | ".join(row) for row in rows)]
    titles, *rest = (f"| {line} |" for line in lines)
    return "\n".join([titles, "|" + "---|" * len(head), *rest])
