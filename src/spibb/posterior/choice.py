"""What was tried before a policy was chosen, and why it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spibb.posterior.risk import Gain
from spibb.problem.problem import ModelKind
from spibb.settings import in_words


@dataclass(frozen=True, eq=False)
class Candidate:
    """A policy that was tried, and what the posterior says of it.

    Attributes:
        algorithm: What made it, as ``to_config`` gives it.
        model: On which model: "counts" or "shrunk".
        share: What the baseline is mixed with it by; 1: nothing of the baseline is left.
        gains: Its gain over the baseline, by prior.
        score: mu - z sigma under the prior that is harsher on it.
    """

    algorithm: dict[str, Any]
    model: ModelKind
    share: float
    gains: dict[str, Gain]
    score: float

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
    """

    candidates: tuple[Candidate, ...]
    chosen: int | None
    caution: float

    @property
    def summary(self) -> str:
        """Why it was taken, in words."""
        n_tried = len(self.candidates)
        told = f"{self.caution:g} standard deviations of what the posterior says"
        if self.chosen is None:
            return f"Of {n_tried} candidates none gains more than {told}: the baseline is kept."
        taken = self.candidates[self.chosen]
        return (
            f"Chosen of {n_tried} candidates: {taken.name}, whose gain less {told} is the largest "
            f"({taken.score:.4g})."
        )
