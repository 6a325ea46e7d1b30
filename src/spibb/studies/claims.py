"""Claims and their verdicts.

Every claim is a rule over the results, and its verdict is what the rule returns, always with the
numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """A claim and what became of it.

    Attributes:
        claim: What is claimed, in short.
        verdict: "confirmed", "in part", "not confirmed", or why nothing can be said.
        numbers: On what grounds.
    """

    claim: str
    verdict: str
    numbers: str


def verdict(*parts: bool) -> str:
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
    rows = [f"| {one.claim} | **{one.verdict}** | {one.numbers} |" for one in found]
    return "\n".join(["| claim | verdict | numbers |", "|---|---|---|", *rows]) + "\n"
