"""What is said of the strength that an unrecorded cause needs to cancel a gain."""

from __future__ import annotations

import math
from typing import Any

from spibb.confounding.sensitivity import MEMORY, Sensitivity, in_words

QUESTION = "Could something that nobody recorded explain the gain?"


def sensitivity_sentences(facts: dict[str, Any]) -> list[str]:
    """Say how strong an unrecorded cause must be, and what is taken for granted there.

    Args:
        facts: What JSON has under ``sensitivity`` and ``sensitivity_remark``.
    """
    found = facts["sensitivity"]
    if found is None:
        return [f"Not computed: {facts['sensitivity_remark']}."]
    # JSON has no infinity, but "inf".
    point, lower = float(found["odds_ratio"]), float(found["lower_odds_ratio"])
    if point == 1.0:
        return ["By the frequencies of the log alone there is no gain that it could explain."]
    return [
        "Only if it changes the odds of actions, among cases in the same state, by a factor of "
        f"{_factor(point)}, up or down, and the outcome with it. With chance allowed for (95 %), "
        f"{_limit(lower)}.",
        "A factor of 2 turns a chance of 50 % into 67 % or 33 %. The larger the factor that it "
        f"takes, the safer is the gain. {MEMORY}",
    ]


def sensitivity_line(found: Sensitivity | None, remark: str) -> str:
    """Say in a line how strong a hidden cause must be.

    Args:
        found: How strong; None: that is not known.
        remark: Why not.
    """
    if found is None:
        return f"not computed: {remark}"
    if found.odds_ratio == 1.0:
        return "there is no gain by the frequencies of the log alone"
    return (
        f"only one that changes odds of actions by a factor of {_factor(found.odds_ratio)}; "
        f"with chance allowed for (95 %), {_limit(found.lower_odds_ratio)}"
    )


def _factor(odds_ratio: float) -> str:
    said = in_words(odds_ratio)
    return said if math.isinf(odds_ratio) else f"{said} or more"


def _limit(odds_ratio: float) -> str:
    if odds_ratio == 1.0:
        return "no hidden cause is needed"
    return f"it takes a factor of {_factor(odds_ratio)}"
