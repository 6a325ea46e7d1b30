"""Write expected gains and probabilities of harm as people do."""

from __future__ import annotations

from spibb.posterior.risk import Gain, Risk
from spibb.words import number, percent


def expected_gain(risk: Risk, sign: str = "") -> str:
    """Return the expected gain, from what halves of the log say to what all of it says."""
    mean, halves = risk.least_mean, risk.cross_fitted
    if halves is None or halves >= mean:
        return number(mean, sign)
    low, high = number(halves, sign, 2), number(mean, sign, 2)
    return high if low == high else f"{low} to {high}"


def probability_of_harm(gain: Gain) -> str:
    """Return a probability of harm in words, as precisely as the number of draws allows.

    If no draw of n does harm, the probability is at most 3 / n at a confidence of 95 %, since
    0.05^(1/n) is about 1 - 3 / n.
    """
    if gain.harm == 0.0:
        return f"below {percent(min(3.0 / gain.n_draws, 1.0))}"
    return percent(gain.harm)
