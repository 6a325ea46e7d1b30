"""What was tried before a policy was chosen, and why it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spibb.posterior.risk import Gain
from spibb.problem.problem import ModelKind
from spibb.settings import in_words

_TIE = 1e-9


def _score(gains: Mapping[str, Gain], caution: float) -> float:
    return min(gain.mean - caution * gain.deviation for gain in gains.values())


@dataclass(frozen=True, eq=False)
class Candidate:
    """A policy that was tried, and what the posterior says of it.

    Attributes:
        algorithm: What made it, as ``to_config`` gives it.
        model: On which model: "counts", "shrunk" or "careful".
        share: What the baseline is mixed with it by; 1: nothing of the baseline is left.
        gains: Its gain over the baseline, by prior, with the hazards that a choice allows for.
        ends: Whether it ends in the model of the counts; without a discount it must.
    """

    algorithm: dict[str, Any]
    model: ModelKind
    share: float
    gains: dict[str, Gain]
    ends: bool = True

    def score(self, caution: float) -> float:
        """Return mu - z sigma under the prior that is harsher on it."""
        return _score(self.gains, caution)

    @property
    def name(self) -> str:
        """What it is, in words."""
        kept = "" if self.share == 1.0 else f", {100 * self.share:.0f} % of it"
        return f"{in_words(self.algorithm)} on {self.model}{kept}"


@dataclass(frozen=True, eq=False)
class Choice:
    """Every candidate of a log, and the one that was taken.

    Attributes:
        candidates: All that were tried, in the order of the grid.
        chosen: Which was taken; None: the baseline was kept.
        caution: z.
        is_limited: Whether limits forbid the baseline: then it is returned without what they
            forbid where none was taken.
    """

    candidates: tuple[Candidate, ...]
    chosen: int | None
    caution: float
    is_limited: bool = False

    @classmethod
    def of(
        cls,
        candidates: Sequence[Candidate],
        caution: float,
        fallback: Mapping[str, Gain] | None = None,
    ) -> Choice:
        """Take what gains most less ``caution`` deviations, if that is something, or nothing.

        Args:
            candidates: All that were tried.
            caution: z.
            fallback: Gains of what is returned otherwise, where that is not the baseline: limits
                may forbid it. A candidate must then score more than that.
        """
        least = 0.0 if fallback is None else _score(fallback, caution)
        scores = np.array([one.score(caution) for one in candidates])
        is_safe = np.array([one.ends for one in candidates]) & (scores > least)
        # The first of those that are alike but for rounding, whatever is added to all rewards.
        best = scores.max(where=is_safe, initial=-np.inf)
        best -= _TIE * np.abs(scores).max(where=is_safe, initial=0.0)
        chosen = int(np.argmax(is_safe & (scores >= best))) if is_safe.any() else None
        return cls(tuple(candidates), chosen, caution, fallback is not None)

    @property
    def summary(self) -> str:
        """Why it was taken, in words."""
        n_tried = len(self.candidates)
        told = f"{self.caution:g} standard deviations of what the posterior says"
        if self.chosen is None and self.is_limited:
            return (
                f"Of {n_tried} candidates none is better, at its gain less {told}, than the "
                "baseline without what is forbidden, which is returned."
            )
        if self.chosen is None:
            return f"Of {n_tried} candidates none gains more than {told}: the baseline is kept."
        taken = self.candidates[self.chosen]
        return (
            f"Chosen of {n_tried} candidates: {taken.name}. Its gain less {told} is the largest "
            f"({taken.score(self.caution):.4g})."
        )
