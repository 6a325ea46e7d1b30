"""What a check reports: findings, and the results of tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, cast

from spibb.errors import SettingsError

# What a finding would do to the result, worst first: nothing is computed; what is computed means
# nothing; numbers are off or too sure; less can be said than the rows suggest.
Severity = Literal["refused", "void", "biased", "weaker"]
SEVERITIES: tuple[Severity, ...] = ("refused", "void", "biased", "weaker")
# What a finding does to the verdict on a policy, strictest first: refuse the log; keep the
# baseline; allow at most a pilot; allow deployment with monitoring only; nothing.
VerdictEffect = Literal["refused", "keep", "pilot", "monitor", "none"]
VERDICT_EFFECTS: tuple[VerdictEffect, ...] = ("refused", "keep", "pilot", "monitor", "none")
# The mildest effect that a finding of each severity can have, and the one that it has by default.
DEFAULT_EFFECTS: dict[Severity, VerdictEffect] = {
    "refused": "refused",
    "void": "keep",
    "biased": "monitor",
    "weaker": "none",
}
_BY_SEVERITY = cast("VerdictEffect", None)


def is_stricter(one: VerdictEffect, other: VerdictEffect) -> bool:
    """Return whether one effect leaves fewer verdicts than another.

    Example:
        >>> is_stricter("keep", "monitor"), is_stricter("none", "none")
        (True, False)
    """
    return VERDICT_EFFECTS.index(one) < VERDICT_EFFECTS.index(other)


@dataclass(frozen=True)
class Finding:
    """One problem of a log.

    Attributes:
        check: Name of the finding.
        severity: What it would do to the result.
        found: What was found.
        effect: What it would do to the result, in words.
        advice: What to do about it.
        share: Share of the rows, or of the probability, that is concerned.
        p_value: Of the test that found it; None where no chance is involved.
        places: Where it is worst, a record each.
        verdict_effect: What it does to the verdict on a policy. The default follows from the
            severity. An effect that is given may be stricter than the default, never milder, and
            only the severity "refused" has the effect "refused".

    Example:
        >>> words = {"found": "A value is missing.", "effect": "", "advice": "", "share": 0.1}
        >>> Finding("gaps", "weaker", **words).verdict_effect
        'none'
        >>> Finding("gaps", "weaker", **words, verdict_effect="pilot").verdict_effect
        'pilot'
    """

    check: str
    severity: Severity
    found: str
    effect: str
    advice: str
    share: float
    p_value: float | None = None
    places: list[dict[str, Any]] = field(default_factory=list)
    verdict_effect: VerdictEffect = _BY_SEVERITY

    def __post_init__(self) -> None:
        if self.verdict_effect is _BY_SEVERITY:
            object.__setattr__(self, "verdict_effect", DEFAULT_EFFECTS[self.severity])
        elif not self._allows(self.verdict_effect):
            raise SettingsError(
                f"the finding {self.check!r} is {self.severity!r} and has the verdict effect "
                f"{self.verdict_effect!r}",
                expected=" or ".join(repr(one) for one in VERDICT_EFFECTS if self._allows(one)),
            )

    def _allows(self, effect: VerdictEffect) -> bool:
        """Return whether a verdict effect agrees with the severity."""
        if self.severity == "refused" or effect == "refused":
            return effect == self.severity
        return effect in VERDICT_EFFECTS and not is_stricter(DEFAULT_EFFECTS[self.severity], effect)

    @property
    def rank(self) -> tuple[int, float]:
        """Sorts findings by what they would do to the result, and then by how much they concern."""
        return SEVERITIES.index(self.severity), -self.share

    @property
    def sentence(self) -> str:
        """All of it in sentences."""
        return f"{self.found} {self.effect} {self.advice}"


@dataclass(frozen=True)
class TestResult:
    """The p-value of a check, or the reason why the check was not run.

    Attributes:
        check: Name of the check.
        question: What was asked.
        p_value: Probability, at most, of such a log if nothing is wrong; None: not run.
        remark: Of what part of the log, or why not.
        level: Significance level of the test; None where no chance is involved.
    """

    __test__ = False  # no test of pytest's

    check: str
    question: str
    p_value: float | None
    remark: str = ""
    level: float | None = None

    @property
    def is_significant(self) -> bool:
        """Whether the test was run and its p-value is at most its level."""
        return self.p_value is not None and self.level is not None and self.p_value <= self.level
