"""Something found in a log, and what it would do to the result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

# What a finding would do to the result, worst first: nothing is computed; what is computed means
# nothing; numbers are off or too sure; less can be said than the rows suggest.
Severity = Literal["refused", "void", "biased", "weaker"]
SEVERITIES: tuple[Severity, ...] = ("refused", "void", "biased", "weaker")


@dataclass(frozen=True)
class Finding:
    """One thing that was found.

    Attributes:
        check: Name of the check.
        severity: What it would do to the result.
        found: What was found.
        effect: What it would do, in words.
        advice: What to do about it.
        share: Share of the rows, or of the probability, that is concerned.
        p_value: Of the test that found it; None where no chance is involved.
        places: Where it is worst, a record each.
    """

    check: str
    severity: Severity
    found: str
    effect: str
    advice: str
    share: float
    p_value: float | None = None
    places: list[dict[str, Any]] = field(default_factory=list)

    @property
    def rank(self) -> tuple[int, float]:
        """Sorts findings by what they would do to the result, and then by how much they concern."""
        return SEVERITIES.index(self.severity), -self.share

    @property
    def sentence(self) -> str:
        """All of it in sentences."""
        return f"{self.found} {self.effect} {self.advice}"


@dataclass(frozen=True)
class Tested:
    """A test that was run, or why it was not.

    Attributes:
        check: Name of the check.
        question: What was asked.
        p_value: Probability, at most, of such a log if nothing is wrong; None: not run.
        remark: Of what part of the log, or why not.
    """

    check: str
    question: str
    p_value: float | None
    remark: str = ""
