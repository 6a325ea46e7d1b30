"""Write expected gains and probabilities of harm as people do."""

from __future__ import annotations

from spibb.posterior.risk import Risk
from spibb.words import number, percent

# Smaller probabilities of harm are not told: the model is not as exact as that.
LEAST_HARM = 0.001


def expected_gain(risk: Risk, sign: str = "") -> str:
    """Return the expected gain, from what halves of the log say to what all of it says."""
    mean, halves = risk.mean, risk.cross_fitted
    if halves is None or halves >= mean:
        return number(mean, sign)
    low, high = number(halves, sign, 2), number(mean, sign, 2)
    return high if low == high else f"{low} to {high}"


def probability_of_harm(risk: Risk) -> str:
    """Return a probability of harm in words; smaller ones than 0.1 % are told as that."""
    harm = risk.probability_of_harm
    return f"below {percent(LEAST_HARM)}" if harm < LEAST_HARM else percent(harm)
