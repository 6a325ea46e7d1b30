"""What commands print of the strength that an unrecorded cause needs to cancel a gain."""

from __future__ import annotations

from typing import Any

from spibb.cli import printing as p
from spibb.report.sensitivity import QUESTION, sensitivity_sentences


def print_sensitivity(told: dict[str, Any]) -> None:
    """Print it.

    Args:
        told: What JSON has under ``sensitivity`` and ``sensitivity_remark``.
    """
    p.print_title(QUESTION)
    p.print_sentence("\n".join(sensitivity_sentences(told)))
