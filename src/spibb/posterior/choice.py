"""What was tried before a policy was chosen, and why it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from spibb.posterior.gain import Gain
from spibb.posterior.model import PosteriorModel
from spibb.settings import in_words

_TIE = 1e-9

# On which model a candidate is made: that of the counts, or the mean of the posterior.
ModelKind = Literal["counts", "posterior"]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A policy that was tried, and what the posterior says of it.

    Attributes:
        algorithm: What made it, as ``to_config`` gives it.
        model: On which model: "counts" or "posterior".
        gain: Its gain over the baseline.
        ends: Whether it ends in the model of the counts; without a discount it must.
    """

    algorithm: dict[str, Any]
    model: ModelKind
    gain: Gain
    ends: bool = True

    def score(self, caution: float) -> float:
        """Return the expected gain less ``caution`` standard deviations."""
        return self.gain.mean - caution * self.gain.deviation

    @property
    def name(self) -> str:
        """What it is, in words."""
        return f"{in_words(self.algorithm)} on {self.model}"


@dataclass(frozen=True, eq=False)
class Choice:
    """Every candidate of a log, and the one that was taken.

    Attributes:
        candidates: All that were tried, in the order of the grid.
        chosen: Which was taken; None: the baseline was kept.
        caution: Standard deviations by which a gain must exceed 0.
        is_limited: Whether limits forbid the baseline: then it is returned without what they
            forbid where none was taken.
        model: The posterior model by which they were judged; None: not kept.
    """

    candidates: tuple[Candidate, ...]
    chosen: int | None
    caution: float
    is_limited: bool = False
    model: PosteriorModel | None = None

    @classmethod
    def of(
        cls, candidates: Sequence[Candidate], caution: float, fallback: Gain | None = None
    ) -> Choice:
        """Take the largest gain less ``caution`` deviations if that is positive, or nothing.

        Args:
            candidates: All that were tried.
            caution: Standard deviations.
            fallback: Gain of what is returned otherwise, where that is not the baseline: limits
                may forbid it. A candidate must then score more than that.
        """
        least = 0.0 if fallback is None else fallback.mean - caution * fallback.deviation
        scores = np.array([one.score(caution) for one in candidates])
        # What differs from the fallback by rounding is no better.
        is_better = scores > least + _TIE * abs(least)
        is_safe = np.array([one.ends for one in candidates]) & is_better
        # The first of those that are alike but for rounding, whatever is added to all rewards.
        best = scores.max(where=is_safe, initial=-np.inf)
        best -= _TIE * np.abs(scores).max(where=is_safe, initial=0.0)
        chosen = int(np.argmax(is_safe & (scores >= best))) if is_safe.any() else None
        return cls(tuple(candidates), chosen, caution, fallback is not None)

    @property
    def summary(self) -> str:
        """Why it was taken, in words."""
        n_tried, z = len(self.candidates), f"{self.caution:g}"
        if self.chosen is None and self.is_limited:
            return (
                f"None of {n_tried} candidates is better than the baseline without the forbidden "
                f"actions, by expected gain minus {z} standard deviations. The baseline without "
                "the forbidden actions is returned."
            )
        if self.chosen is None:
            return (
                f"None of {n_tried} candidates has an expected gain of more than {z} standard "
                "deviations. The baseline is kept."
            )
        taken = self.candidates[self.chosen]
        return (
            f"Chosen from {n_tried} candidates: {taken.name}. Its expected gain minus {z} standard "
            f"deviations is the largest ({taken.score(self.caution):.4g})."
        )
