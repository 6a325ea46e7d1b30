"""Inspect a log before anything is made of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from spibb.data.baseline import align_policy
from spibb.data.baseline_fit import BaselineFit
from spibb.data.counts import Counts
from spibb.data.log import Log
from spibb.data.readers import read_log
from spibb.display import Card, Display
from spibb.errors import DataError, SettingsError
from spibb.inspection.costs import check_costs
from spibb.inspection.drift import DRIFT, check_drift
from spibb.inspection.duplicates import check_duplicates, without_copies
from spibb.inspection.facts import coverage, episode_lengths, log_facts
from spibb.inspection.finding import Finding, Tested
from spibb.inspection.fit import check_baseline
from spibb.inspection.markov import check_markov
from spibb.inspection.propensities import check_recorded
from spibb.inspection.structure import check_structure
from spibb.mdp.policy import TabularPolicy
from spibb.problem import Baseline, Problem
from spibb.problem.loggers import checked_improved, names_of, own_baseline, own_rows
from spibb.progress import Progress, tell
from spibb.strict_json import strict_json

FORMAT_VERSION = 1
# With which probability each test may find something in a sound log: 1 % in all. Whether rewards
# are costs is asked of few states, and what it finds is a question: it gets the largest part.
LEVELS = {"baseline": 0.001, "duplicates": 0.0005, "drift": 0.002, "markov": 0.0015, "costs": 0.005}
FAMILY_LEVEL = sum(LEVELS.values())
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
    """

    facts: dict[str, Any]
    coverage: list[dict[str, Any]]
    findings: tuple[Finding, ...]
    tests: tuple[Tested, ...]
    fit: BaselineFit | None
    n_sa: NDArray[np.int64]
    lengths: NDArray[np.int64] | None
    is_without_baseline: bool

    @property
    def is_refused(self) -> bool:
        """Whether commands refuse this log with this baseline and range."""
        return any(one.severity == "refused" for one in self.findings)

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
            episodes += f", {cut} of them cut short"
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
            "version": FORMAT_VERSION,
            "statement": self.statement,
            "is_refused": self.is_refused,
            "family_level": FAMILY_LEVEL,
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
) -> Inspection:
    """Say what a log holds, whether the baseline made it, and what would spoil a result.

    Tests find something in a sound log with a probability of 1 % at most, all together.

    Args:
        log: A Log, a path to one, a pandas, polars or Arrow table; or a problem, which has its
            baseline and range.
        baseline: The policy that is said to have made it, if it is known; or one for each that did,
            by name.
        reward_range: Smallest and largest reward that are possible, if they are known.
        improve_on: Which policy runs today, where the log names several: actions are held to its
            own baseline, in its own episodes.

    Example:
        >>> log = Log.from_arrays(state=[0] * 60, action=[0, 1, 1] * 20, episode=range(60),
        ...                       reward=[0.0, 1.0, 2.0] * 20)
        >>> found = inspect(log, baseline=TabularPolicy([[0.9, 0.1]]), reward_range=(0.0, 1.0))
        >>> found.is_refused, [one.check for one in found.findings]
        (True, ['baseline', 'reward-range'])
    """
    data, policy, reward_range, improved, counts = _given(log, baseline, reward_range, improve_on)
    _tell_checks(0)
    findings = list(check_structure(data, reward_range))
    findings += check_recorded(data, _made_by(data, improved), policy)
    own = counts if improved is None else Counts.from_log(_made_by(data, improved))
    of_baseline, found, fit = check_baseline(own, policy, LEVELS["baseline"])
    findings += [] if found is None else [found]
    _tell_checks(1)
    of_copies, found = check_duplicates(data, LEVELS["duplicates"])
    findings += [] if found is None else [found]
    # Copies would be taken for evidence by the tests that permute.
    rows = data if found is None else without_copies(data)
    preferences = counts.n_sa.astype(np.float64) if policy is None else policy.probabilities
    tests = [of_baseline, of_copies]
    for k, check in enumerate(
        (
            lambda: _check_drift(rows, improved),
            lambda: check_markov(rows, LEVELS["markov"]),
            lambda: check_costs(rows, preferences, LEVELS["costs"]),
        )
    ):
        _tell_checks(2 + k)
        tested, found = check()
        tests.append(tested)
        findings += [] if found is None else [found]
    return Inspection(
        facts=log_facts(data),
        coverage=coverage(counts, None if policy is None else policy.probabilities),
        findings=tuple(sorted(findings, key=lambda one: one.rank)),
        tests=tuple(tests),
        fit=fit,
        n_sa=counts.n_sa,
        lengths=episode_lengths(data),
        is_without_baseline=policy is None,
    )


def _made_by(log: Log, name: str | None) -> Log:
    return log if name is None else log.take(own_rows(log, name))


def _check_drift(log: Log, improved: str | None) -> tuple[Tested, Finding | None]:
    """Test the episodes of one policy: those of several take different actions of course."""
    if improved is None and len(names_of(log)) > 1:
        remark = "several policies acted: improve_on says which of them is asked about"
        return Tested("drift", DRIFT, None, remark), None
    return check_drift(_made_by(log, improved), LEVELS["drift"])


def _tell_checks(n_done: int) -> None:
    tell(Progress("checks of the log", share=n_done / len(LEVELS)))


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


_Given = tuple[Log, TabularPolicy | None, tuple[float, float] | None, str | None, Counts]


def _given(
    log: Any, baseline: Any, reward_range: tuple[float, float] | None, improve_on: str | None
) -> _Given:
    """Return log, baseline in its states and actions, range, who runs today, and counts."""
    if isinstance(log, Problem):
        if baseline is not None or reward_range is not None or improve_on is not None:
            raise SettingsError(
                "a problem was given, and more beside it",
                expected="a problem alone: it has its baseline and its range of rewards",
            )
        if log.whole is None:
            raise DataError(
                "only counts were given", expected="a log", hint="inspect the log itself"
            )
        values, loggers = log.values, log.loggers
        known = None if values.is_observed else (values.low, values.high)
        improved = None if loggers is None else loggers.improved
        return log.whole, log.baseline, known, improved, log.counts
    if isinstance(log, Counts):
        raise DataError("only counts were given", expected="a log", hint="inspect the log itself")
    data = log if isinstance(log, Log) else _read(log)
    if reward_range is not None:
        reward_range = _checked_range(reward_range)
    improved = None
    if baseline is not None or improve_on is not None:
        improved = checked_improved(data, improve_on)
        baseline, _ = own_baseline(data, baseline, improved)
    if baseline is None or (isinstance(baseline, str) and baseline == "estimate"):
        return data, None, reward_range, improved, Counts.from_log(data)
    if not isinstance(baseline, TabularPolicy):
        raise SettingsError(
            f"baseline is {baseline!r}",
            expected="a TabularPolicy, 'estimate' or None",
            hint="read a file by TabularPolicy.read, or make one of an array by TabularPolicy",
        )
    data = data.renamed(data.states.union(baseline.states), data.actions.union(baseline.actions))
    counts = Counts.from_log(data)
    policy = align_policy(counts, baseline, role="baseline", log=data)
    return data, policy, reward_range, improved, counts


def _read(log: Any) -> Log:
    return read_log(log) if isinstance(log, str | Path) else Log.from_dataframe(log)


def _checked_range(reward_range: Any) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in reward_range)
    except (TypeError, ValueError):
        low = high = float("nan")
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise SettingsError(f"reward_range is {reward_range!r}", expected="(low, high), finite")
    return low, high
