"""Inspect a log before anything is made of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from spibb.data.baseline_fit import BaselineFit
from spibb.data.objective import Objective
from spibb.display import Card, Display
from spibb.errors import SettingsError
from spibb.inspection.check import run_check
from spibb.inspection.evidence import Evidence
from spibb.inspection.facts import coverage, episode_lengths, log_facts
from spibb.inspection.finding import VERDICT_EFFECTS, Finding, TestResult, VerdictEffect
from spibb.inspection.registry import levels, ordered_checks
from spibb.plugins import load_plugins
from spibb.problem import Baseline, Problem
from spibb.progress import Progress, tell
from spibb.strict_json import VERSION, strict_json

_N_SHOWN = 5


@dataclass(frozen=True, eq=False, repr=False)
class Inspection(Display):
    """What a log holds, and what was found in it.

    Attributes:
        facts: Sizes, lengths, rewards, by name.
        coverage: How many pairs were seen how often.
        findings: What was found, the worst for the result first.
        tests: The tests that were run, and those that could not be.
        fit: How well the baseline fits; None where none was given, or it was estimated.
        n_sa: How often each action was taken, shape (S, A).
        lengths: Rows of each episode; None without episodes.
        is_without_baseline: Whether no baseline was given: then coverage is that of the rows.
        objective: What is better, and what a good and a bad episode look like.
    """

    facts: dict[str, Any]
    coverage: list[dict[str, Any]]
    findings: tuple[Finding, ...]
    tests: tuple[TestResult, ...]
    fit: BaselineFit | None
    n_sa: NDArray[np.int64]
    lengths: NDArray[np.int64] | None
    is_without_baseline: bool
    objective: Objective

    @property
    def is_refused(self) -> bool:
        """Whether commands refuse this log with this baseline and range."""
        return any(one.severity == "refused" for one in self.findings)

    @property
    def verdict_effect(self) -> VerdictEffect:
        """The most that the findings do to the verdict on a policy."""
        effects = [one.verdict_effect for one in self.findings]
        return min(effects, key=VERDICT_EFFECTS.index, default="none")

    @property
    def family_level(self) -> float:
        """Probability, at most, of a finding by chance in a sound log, of all tests."""
        return sum(one.level for one in self.tests if one.level is not None)

    @property
    def statement(self) -> str:
        """What was found, in a sentence."""
        if not self.findings:
            return "Nothing was found that speaks against this log."
        worst, n = self.findings[0], len(self.findings)
        more = "" if n == 1 else f" ({n - 1} more below)"
        return f"{worst.found}{more}"

    @property
    def headline(self) -> str:
        """The sizes of the log, in a sentence."""
        facts, rewards, lengths = self.facts, self.facts["rewards"], self.facts.get("lengths")
        episodes = "no episodes"
        if lengths is not None:
            episodes = (
                f"{facts['episodes']:,} episodes of {lengths['least']:,} to "
                f"{lengths['largest']:,} rows (median {lengths['median']:g})"
            )
            if lengths["least"] == lengths["largest"]:
                episodes = f"{facts['episodes']:,} episodes of {lengths['least']:,} rows each"
        if facts["cut"]:
            cut = "all" if facts["cut"] == facts["episodes"] else f"{facts['cut']:,}"
            episodes += f", {cut} of them truncated"
        if facts["one_step"]:
            episodes = "each a decision of its own (a one-step log)"
        made = ", ".join(f"{n:,} by {name!r}" for name, n in facts.get("policies", {}).items())
        return (
            f"{facts['rows']:,} rows{f' ({made})' if made else ''}, {episodes}, "
            f"{facts['states_met']:,} states acted in, "
            f"{facts['actions_taken']:,} actions; rewards from {rewards['least']:g} to "
            f"{rewards['largest'] + 0.0:g}, {rewards['mean']:.4g} on average."
        )

    @property
    def visits_of(self) -> str:
        """Of what the shares in `coverage` are."""
        return "rows" if self.is_without_baseline else "baseline's visits"

    def _card(self) -> Card:
        facts = self.facts
        return Card(
            f"Inspection: {facts['rows']:,} rows, {facts['episodes']:,} episodes, "
            f"{facts['states_met']:,} states met, {facts['actions_taken']:,} actions taken; "
            f"{len(self.findings)} finding{'' if len(self.findings) == 1 else 's'}",
            {f"{one.severity}, {one.check}": one.found for one in self.findings[:_N_SHOWN]},
            ("test", "p"),
            [
                (one.check, "not run" if one.p_value is None else f"{one.p_value:.2g}")
                for one in self.tests
            ],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return strict JSON values."""
        found = {
            "format": "spibb-inspection",
            "version": VERSION,
            "objective": self.objective.to_dict(),
            "statement": self.statement,
            "is_refused": self.is_refused,
            "verdict_effect": self.verdict_effect,
            "family_level": self.family_level,
            "facts": self.facts,
            "coverage": self.coverage,
            "findings": [asdict(one) for one in self.findings],
            "tests": [asdict(one) for one in self.tests],
            "baseline": None
            if self.fit is None
            else {"p_value": self.fit.p_value, "distance": self.fit.distance},
        }
        plain: dict[str, Any] = strict_json(found)
        return plain


def inspect(
    log: Any,
    *,
    baseline: Baseline | None = None,
    reward_range: tuple[float, float] | None = None,
    improve_on: str | None = None,
    minimize: bool = False,
) -> Inspection:
    """Say what a log holds, whether the baseline made it, and what would spoil a result.

    The checks are listed in :mod:`spibb.inspection.registry`. All tests of this package together
    find something in a sound log with a probability of at most 1 %.

    Args:
        log: A Log, a path to one, a pandas, polars or Arrow table; or a problem, which has its
            baseline and range.
        baseline: The policy that is said to have made it, if it is known; or one for each that did,
            by name.
        reward_range: Smallest and largest reward that are possible, if they are known.
        improve_on: Which policy runs today, where the log names several: actions are held to its
            own baseline, in its own episodes.
        minimize: Whether the rewards of a path or a table are costs, of which less is better.

    Example:
        >>> from spibb import Log, TabularPolicy
        >>> log = Log.from_arrays(state=[0] * 60, action=[0, 1, 1] * 20, episode=range(60),
        ...                       reward=[0.0, 1.0, 2.0] * 20)
        >>> found = inspect(log, baseline=TabularPolicy([[0.9, 0.1]]), reward_range=(0.0, 1.0))
        >>> found.is_refused, [one.check for one in found.findings]
        (True, ['baseline', 'reward-range'])
    """
    missing = _load_checks()
    evidence = Evidence.of(
        log,
        baseline=baseline,
        reward_range=reward_range,
        improve_on=improve_on,
        minimize=minimize,
    )
    findings, tests = _run_checks(evidence)
    tests += missing
    policy = evidence.baseline
    return Inspection(
        facts=log_facts(evidence.log),
        coverage=coverage(evidence.counts, None if policy is None else policy.probabilities),
        findings=tuple(sorted(findings, key=lambda one: one.rank)),
        tests=tuple(tests),
        fit=evidence.baseline_fit,
        n_sa=evidence.counts.n_sa,
        lengths=episode_lengths(evidence.log),
        is_without_baseline=policy is None,
        objective=Objective.of(evidence.log),
    )


def _load_checks() -> list[TestResult]:
    """Import the checks of other packages, and return which cannot be run.

    A package that cannot be imported does not stop a command that can do without it.
    """
    try:
        load_plugins()
    except SettingsError as problem:
        return [TestResult("plugins", "Checks of other packages", None, str(problem))]
    return []


def _run_checks(evidence: Evidence) -> tuple[list[Finding], list[TestResult]]:
    """Run all checks, the cheap ones first."""
    all_findings: list[Finding] = []
    all_tests: list[TestResult] = []
    n_tests, n_done = len(levels()), 0
    for check in ordered_checks():
        tell(Progress("checks of the log", share=n_done / n_tests))
        findings, tests = run_check(check, evidence)
        all_findings += findings
        all_tests += tests
        n_done += check.level is not None
    return all_findings, all_tests


_INSPECTED: WeakKeyDictionary[Problem, Inspection] = WeakKeyDictionary()


def inspect_problem(problem: Problem) -> Inspection | None:
    """Inspect the log of a problem, once, however many results are made of it.

    None where only counts are known.
    """
    if problem.log is None:
        return None
    if problem not in _INSPECTED:
        _INSPECTED[problem] = inspect(problem)
    return _INSPECTED[problem]
