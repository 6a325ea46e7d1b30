"""What commands print of a gain in finer states."""

from __future__ import annotations

from typing import Any

from spibb.cli import printing as p
from spibb.report.representation import (
    HEAD,
    QUESTION,
    representation_cells,
    representation_sentences,
)


def print_representation(told: dict[str, Any], *, has_columns: bool) -> None:
    """Print the gain in each set of finer states, or why there is none.

    Args:
        told: What JSON has under ``representation`` and ``representation_remark``.
        has_columns: Whether raw columns were given; without any, nothing is printed.
    """
    facts = told["representation"]
    if not has_columns:
        return
    if facts is None:
        p.print_sentence(f"No gain in finer states: {told['representation_remark']}.")
        return
    p.print_title(QUESTION)
    p.print_table((p.left(HEAD[0]), *map(p.right, HEAD[1:])), representation_cells(facts))
    p.print_sentence("\n".join(representation_sentences(facts)))
