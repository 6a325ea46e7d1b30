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


def print_representation(facts: dict[str, Any] | None) -> None:
    """Print the gain in each set of finer states; nothing where there is none.

    Args:
        facts: What `spibb.representation.agreement.Agreement.to_dict` returns.
    """
    if facts is None:
        return
    p.print_title(QUESTION)
    p.print_table((p.left(HEAD[0]), *map(p.right, HEAD[1:])), representation_cells(facts))
    p.print_sentence("\n".join(representation_sentences(facts)))
