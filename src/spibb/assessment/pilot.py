"""How to run a pilot: a small, randomised, monitored trial of a new policy.

A pilot compares the new policy with today's one on new episodes, which are assigned by chance, so
that it relies on no state and no model. The number of episodes in each group is that of a
two-sample z-test of half of the expected gain g, with the standard deviation s of the log's
returns:

    n = 2 (z(0.95) + z(0.80))^2 s^2 / (g / 2)^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from spibb.assessment.verdict import Decision
from spibb.words import number

if TYPE_CHECKING:
    from spibb.assessment.assessment import Assessment

# Power, significance level (one-sided), and the part of the expected gain that is to be detected.
_POWER, _LEVEL, _PART = 0.80, 0.05, 0.5
# With fewer episodes a mean is not about normal; a pilot of more than this many is no pilot.
_FEWEST, _MOST = 30.0, 1e6
# Share of new episodes that follow the new policy.
_SHARE = "5 to 10 %"


@dataclass(frozen=True)
class PilotPlan:
    """How to run a pilot.

    Attributes:
        steps: What to do, in order, in sentences.
        episodes_per_group: About how many episodes each group needs; None: not known, or too many.
        detected_gain: The gain that these detect; None likewise.
    """

    steps: tuple[str, ...]
    episodes_per_group: int | None = None
    detected_gain: float | None = None


# How the groups are compared, by whether costs are minimized.
_COMPARED = {
    False: "Compare the mean returns of the two groups. Stop the pilot when the new policy's mean "
    "is lower than the other group's by more than the loss that was fixed.",
    True: "Compare the mean costs of the two groups. Stop the pilot when the new policy's mean "
    "cost is higher than the other group's by more than the loss that was fixed.",
}


def plan_pilot(assessment: Assessment) -> PilotPlan | None:
    """Return how to run a pilot of a policy; None where the verdict is another one.

    Args:
        assessment: The assessment of the policy.
    """
    if assessment.verdict.decision is not Decision.PILOT:
        return None
    found, risk, needed, detected = assessment.log_return, assessment.risk, None, None
    if found is not None and risk is not None:
        needed = episodes_per_group(found.deviation, risk.mean)
    size = "Fix in advance how many episodes the pilot has, and which loss stops it."
    if needed is not None and risk is not None and found is not None:
        detected = _PART * risk.mean
        size += (
            f" About {needed:,} episodes in each group detect half of the expected gain (a gain of "
            f"{number(detected)} an episode) with a probability of 80 %, by a one-sided test at "
            "5 %."
        )
        if found.n_truncated:
            size += " Episodes of the log were truncated; longer ones may vary more."
    steps = (
        f"Choose {_SHARE} of the new episodes at random, by a weighted coin flip for each episode "
        "before it starts. They follow the new policy; all others go on as today.",
        "Log both groups, and which group each episode belongs to.",
        size,
        _COMPARED[assessment.problem.minimize],
        "Put what the findings on the log name into the state, and run spibb again.",
    )
    return PilotPlan(steps, needed, detected)


def episodes_per_group(deviation: float, gain: float) -> int | None:
    """Return about how many episodes of each group detect half of a gain, to two digits.

    Args:
        deviation: Standard deviation of the return of an episode.
        gain: The expected gain.

    Example:
        >>> [episodes_per_group(deviation, 1.0) for deviation in (2.0, 0.01, 1e6)]
        [200, 30, None]
    """
    if not (deviation > 0.0 and gain > 0.0 and math.isfinite(deviation / gain)):
        return None
    z = NormalDist().inv_cdf(1.0 - _LEVEL) + NormalDist().inv_cdf(_POWER)
    n = max(_FEWEST, 2.0 * (z * deviation / (_PART * gain)) ** 2)
    if n > _MOST:
        return None
    return int(round(n, 1 - math.floor(math.log10(n))))
