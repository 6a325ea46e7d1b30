"""What is said of the strength that an unrecorded cause needs to cancel a gain."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from spibb.confounding.sensitivity import FEWEST_ROWS, IS_BASELINE, Sensitivity, in_words
from spibb.confounding.worst_case import LARGEST_ODDS_RATIO
from spibb.words import number, percent

QUESTION = "Could something that nobody recorded explain the gain?"
MEMORY = (
    "This assumes that the cause is drawn anew in each step; one that lasts needs smaller changes "
    "of odds for the same effect."
)
_NO_CAUSE = f"no cause up to a factor of {LARGEST_ODDS_RATIO:g} explains it"


def sensitivity_facts(found: Sensitivity | None, remark: str) -> dict[str, Any]:
    """Return what JSON has under ``sensitivity`` and ``sensitivity_remark``.

    Args:
        found: How strong a cause must be; None: not computed.
        remark: Why not.
    """
    return {
        "sensitivity": None if found is None else found.to_dict(),
        "sensitivity_remark": remark or None,
    }


def sensitivity_sentences(facts: dict[str, Any]) -> list[str]:
    """Say how strong an unrecorded cause must be, and what is taken for granted there.

    Args:
        facts: What JSON has under ``sensitivity`` and ``sensitivity_remark``.
    """
    found, missing = facts["sensitivity"], _missing(facts)
    if missing is not None:
        return [f"{missing[0].upper()}{missing[1:]}."]
    gain = f"the gain of {number(found['gain'])} in the log's own frequencies"
    # JSON has no infinity, but "inf".
    point = float(found["odds_ratio"])
    if point == 1.0:
        first = f"What the log has no data for could explain {gain}, over what was done in the log."
    elif math.isinf(point):
        first = (
            f"{_NO_CAUSE[0].upper()}{_NO_CAUSE[1:]}, for the outcomes that the log holds: {gain}, "
            "over what was done in the log."
        )
    else:
        first = (
            f"It could explain {gain}, over what was done in the log, if it changes the odds of "
            "actions, among cases in the same state, up or down, and the outcome with it. "
            f"It takes {_factor(point)}."
        )
    return [
        f"{first} {_limit(found)}",
        *_shares(found),
        "A factor of 2 turns a chance of 50 % into 67 % or 33 %. The larger the factor, the less "
        "a hidden cause can explain the gain. Few rows or a wrong state are another matter. "
        f"{MEMORY}",
    ]


def sensitivity_line(facts: dict[str, Any]) -> str:
    """Say in a line how strong a hidden cause must be.

    Args:
        facts: What JSON has under ``sensitivity`` and ``sensitivity_remark``.
    """
    found, missing = facts["sensitivity"], _missing(facts)
    if missing is not None:
        return missing
    point = float(found["odds_ratio"])
    told = _NO_CAUSE if math.isinf(point) else f"it takes {_factor(point)}"
    if point == 1.0:
        told = "what the log has no data for could explain it"
    shares = " ".join(_shares(found))
    return f"a gain of {number(found['gain'])}; {told}. {_limit(found)} {shares}"


def _missing(facts: dict[str, Any]) -> str | None:
    """Return why there is no factor, if there is none."""
    found, remark = facts["sensitivity"], facts["sensitivity_remark"]
    if found is None and remark == IS_BASELINE:
        return "the baseline is kept: there is no gain to explain"
    if found is None:
        return f"not computed: {remark}"
    if found["gain"] <= 0.0:
        return "by the frequencies of the log alone there is no gain that it could explain"
    return None


def _factor(odds_ratio: float) -> str:
    if odds_ratio < 1.01:
        return "hardly any: a factor below 1.01"
    return f"a factor of {in_words(odds_ratio)} or more"


def _limit(found: dict[str, Any]) -> str:
    if found["lower_odds_ratio"] is None:
        return f"Its 95 % limit is {found['limit_remark']}; the factor is probably too high."
    limit = float(found["lower_odds_ratio"])
    told = _NO_CAUSE if math.isinf(limit) else f"it takes {_factor(limit)}"
    if limit == 1.0:
        told = "chance alone could explain the gain"
    caveat = " If the policy was made from this log, the factors are probably too high."
    return (
        f"With chance allowed for (95 %), {told}.{caveat if found['origin'] == 'unknown' else ''}"
    )


def _shares(found: dict[str, Any]) -> Iterator[str]:
    """Say what the log hardly holds."""
    yield (
        f"Of the decisions in which the policy differs, {percent(found['low_count'])} have "
        f"fewer than {FEWEST_ROWS} rows in the log."
    )
    if found["unobserved"] > 0.0:
        yield (
            f"For {percent(found['unobserved'])} of its decisions the log has no data; the lowest "
            "outcome of the state is taken there."
        )
    if found["unfollowed"] > 0.0:
        yield (
            f"{percent(found['unfollowed'])} of the rows are left out: the log does not show "
            "what follows the states to which they lead."
        )
