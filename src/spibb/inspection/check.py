"""The base class of the checks of a log."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from spibb.errors import SettingsError
from spibb.inspection.finding import (
    VERDICT_EFFECTS,
    Finding,
    TestResult,
    VerdictEffect,
    is_stricter,
)

if TYPE_CHECKING:
    from spibb.inspection.evidence import Evidence

# What a check costs: a pass over the rows, or many permutations of them. Cheap checks run first.
Cost = Literal["rows", "permutations"]
COSTS: tuple[Cost, ...] = get_args(Cost)


class Check(ABC):
    """Look for one kind of problem in a log.

    Attributes:
        id: Name of the check.
        title: The question that its test asks, or a short title.
        level: Probability, at most, of a finding in a sound log; None where no chance is involved.
            The levels of all checks add up to the family level.
        cost: What a run costs.
        verdict_effect: The most that a finding of it does to the verdict on a policy.
        finding_ids: Names of its findings, if they are not the check's own.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    level: ClassVar[float | None] = None
    cost: ClassVar[Cost] = "rows"
    verdict_effect: ClassVar[VerdictEffect]
    finding_ids: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def run(self, evidence: Evidence) -> Iterable[Finding | TestResult]:
        """Return or yield findings, and one test result where the check has a level.

        A check that cannot be run yields :meth:`not_run` with the reason.
        """

    def result(self, p_value: float, remark: str = "") -> TestResult:
        """Return the result of the check's test."""
        return TestResult(self.id, self.title, p_value, remark, self.level)

    def not_run(self, reason: str) -> TestResult:
        """Return that the check was not run, and why."""
        return TestResult(self.id, self.title, None, reason, self.level)


def check_declaration(check: Check) -> None:
    """Refuse a check whose attributes are missing or out of range."""
    kind = type(check).__name__
    for name in ("id", "title", "verdict_effect"):
        if not isinstance(getattr(check, name, None), str):
            raise SettingsError(f"{kind} has no {name}", expected=f"a class attribute {name!r}")
    if check.level is not None and not 0.0 < check.level < 1.0:
        raise SettingsError(
            f"the level of the check {check.id!r} is {check.level!r}",
            expected="a probability between 0 and 1, or None where no chance is involved",
        )
    for name, known in (("cost", COSTS), ("verdict_effect", VERDICT_EFFECTS)):
        if getattr(check, name) not in known:
            raise SettingsError(
                f"the {name} of the check {check.id!r} is {getattr(check, name)!r}",
                expected=f"one of {', '.join(known)}",
            )


def run_check(check: Check, evidence: Evidence) -> tuple[list[Finding], list[TestResult]]:
    """Run a check, and hold what it yields to what its class declares.

    Returns:
        Its findings, and its test result in a list; the list is empty for a check without a level
        that was run.
    """
    findings: list[Finding] = []
    tests: list[TestResult] = []
    for one in check.run(evidence):
        if isinstance(one, Finding):
            findings.append(one)
        else:
            tests.append(one)
    _check_tests(check, tests)
    for finding in findings:
        _check_finding(check, finding, tests)
    return findings, tests


def _check_tests(check: Check, tests: list[TestResult]) -> None:
    """Refuse results by which a finding by chance would not be counted."""
    fits = len(tests) == 1 if check.level is not None else len(tests) <= 1
    if not fits or any((one.check, one.level) != (check.id, check.level) for one in tests):
        told = ", ".join(f"{one.check!r} at level {one.level}" for one in tests) or "none"
        raise SettingsError(
            f"the check {check.id!r} yields the test results: {told}",
            expected="none, or that it was not run"
            if check.level is None
            else f"one, by its own name, at its level of {check.level:g}",
            hint="yield self.result(p_value), or self.not_run(reason)",
        )
    if check.level is None and any(one.p_value is not None for one in tests):
        raise SettingsError(
            f"the check {check.id!r} has a p-value and no level",
            expected="a class attribute 'level'",
        )


def _check_finding(check: Check, finding: Finding, tests: list[TestResult]) -> None:
    """Refuse a finding that the class of its check does not declare."""
    names = check.finding_ids or (check.id,)
    if finding.check not in names:
        raise SettingsError(
            f"the check {check.id!r} yields the finding {finding.check!r}",
            expected=f"one of {', '.join(names)}",
            hint="add the name to finding_ids",
        )
    if is_stricter(finding.verdict_effect, check.verdict_effect):
        raise SettingsError(
            f"the finding {finding.check!r} has the verdict effect {finding.verdict_effect!r}",
            expected=f"at most {check.verdict_effect!r}, which its check declares",
        )
    if check.level is not None and not any(one.is_significant for one in tests):
        raise SettingsError(
            f"the check {check.id!r} yields a finding, and its test is not significant",
            expected="a finding only where result.is_significant",
        )
