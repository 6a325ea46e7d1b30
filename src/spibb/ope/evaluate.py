"""Off-policy evaluation: what another policy would earn, from the log of the running one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Unpack

import numpy as np

from spibb.display import Card, Display
from spibb.errors import DataError, SettingsError
from spibb.mdp.policy import TabularPolicy
from spibb.ope import notes
from spibb.ope.bounds import (
    BOUNDS,
    EXACT,
    NO_BOUND,
    Ends,
    bca,
    checked_level,
    refuse_beyond_resampling,
    student_t,
)
from spibb.ope.estimators import ESTIMATORS, MEANS, OffPolicy, checked_name
from spibb.ope.log_return import LogReturn, contradiction
from spibb.ope.model_value import LARGEST_RESAMPLED, ModelValue
from spibb.ope.normalised import ONE_SIDED, OneSided, ReturnRange, refuse_negative
from spibb.ope.statistics import Array, Statistic
from spibb.ope.trajectories import Trajectories
from spibb.ope.weights import effective_sample_size, largest_share
from spibb.plain import strict_json
from spibb.problem import Problem, ProblemOptions
from spibb.problem.problem import Baseline
from spibb.problem.ranges import ValueRange

FORMAT_VERSION = 2


@dataclass(frozen=True)
class PolicyEstimate:
    """One estimator's view of a policy.

    Attributes:
        estimator: Its id; "mean" for the plain mean of the log's returns.
        estimate: Estimated performance, inside the known range of returns; NaN where there is
            none, as all weights are 0, or where it is withheld.
        interval: Holds the truth with probability 1 - delta, each end at delta / 2; infinite ends
            where there is no bound.
        ess: Effective sample size of its weights; None for the model-based estimate.
        largest_share: Largest weight as a share of all.
        mean_weight: Mean weight, 1 in expectation.
        warnings: What to know before trusting it.
    """

    estimator: str
    estimate: float
    interval: tuple[float, float]
    ess: float | None
    largest_share: float | None
    mean_weight: float | None
    warnings: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class PolicyEvaluation(Display):
    """What the log says of a policy it was not made by.

    Attributes:
        estimates: One for each estimator.
        baseline: The mean return of the log, which is the baseline's own performance.
        bound: Which bound the intervals are made by.
        is_exact: Whether they hold at their level for every process and any number of episodes, as
            far as the assumptions do, of which none was read off the log; others may fail more
            often.
        delta: They fail with this probability.
        gamma: The discount.
        n_episodes: Episodes in the log.
        n_rows: Rows in them.
        n_truncated: Episodes whose record stops before they end.
        missing: Least and most that the policy may earn beyond the record, estimated by the weights
            of the episodes that were cut and the range of rewards.
        return_range: The known range of returns, if there is one.
        is_baseline_estimated: Whether propensities are estimates.
        warnings: What concerns all estimates.
        assumptions: What the estimates rest on and a log cannot show.
    """

    estimates: tuple[PolicyEstimate, ...]
    baseline: PolicyEstimate
    bound: str
    delta: float
    gamma: float
    n_episodes: int
    n_rows: int
    n_truncated: int
    missing: tuple[float, float]
    is_baseline_estimated: bool
    warnings: tuple[str, ...]
    assumptions: tuple[str, ...]
    is_exact: bool
    return_range: tuple[float, float] | None

    def __getitem__(self, estimator: str) -> PolicyEstimate:
        """Return one estimate by the estimator's id."""
        known = {part.estimator: part for part in self.estimates}
        return known[checked_name(estimator, tuple(known), "estimate in this result")]

    def _card(self) -> Card:
        kind = "exact" if self.is_exact else "approximate"
        return Card(
            f"PolicyEvaluation: {self.n_episodes:,} episodes, {self.n_rows:,} rows; "
            f"{100 * (1 - self.delta):g} % intervals by {self.bound}, {kind}",
            {"warnings": " ".join(self.warnings)} if self.warnings else {},
            ("estimator", "estimate", "from", "to", "warnings"),
            [
                (one.estimator, *(f"{x:.4g}" for x in (one.estimate, *one.interval)),
                 str(len(one.warnings)))
                for one in (self.baseline, *self.estimates)
            ],
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return strict JSON values: infinite ends are "inf", an estimate that is none is null."""
        found = {"format": "spibb-evaluation", "version": FORMAT_VERSION, **asdict(self)}
        plain: dict[str, Any] = strict_json(found)
        return plain


def evaluate_policy(
    log: Any,
    *,
    policy: TabularPolicy,
    baseline: Baseline | None = None,
    gamma: float | None = None,
    estimators: Sequence[str] | None = None,
    bound: str = "bca",
    delta: float = 0.05,
    return_range: tuple[float, float] | None = None,
    rng: np.random.Generator | None = None,
    **options: Unpack[ProblemOptions],
) -> PolicyEvaluation:
    """Estimate the performance of a policy from the log of another, with intervals.

    Args:
        log: The log that the baseline made, which must have episodes; or a problem; see
            :meth:`spibb.Problem.of`.
        policy: The policy to estimate.
        baseline: The policy that made the log, or "estimate", which the result then says.
        gamma: The discount.
        estimators: Ids, of is, pdis, wis, cwpdis, dr, model; None: those the bound is valid for.
        bound: Approximate: "bca" or "student-t" (means only: is, pdis, dr). Exact: "betting" (is,
            pdis) or "concentration" (is, and pdis where no reward is negative).
        delta: The intervals fail with this probability.
        return_range: Smallest and largest possible return, from any step of an episode on; None:
            what the rewards imply, if gamma < 1. Estimates are kept inside, and exact bounds of
            "is" need it.
        rng: Draws resamples and folds; None: always the same.
        **options: As for :meth:`spibb.Problem.of`; ``unseen`` concerns the models of "dr" and
            "model".

    Example:
        Two episodes of one step; the policy takes the logged actions with 1.5 and 0.5 times the
        baseline's probability.

        >>> from spibb import Log
        >>> log = Log.from_arrays(state=[0, 0], action=[0, 1], reward=[2.0, 4.0], episode=[0, 1])
        >>> found = evaluate_policy(log, policy=TabularPolicy([[0.75, 0.25]]), gamma=0.9,
        ...                         baseline=TabularPolicy([[0.5, 0.5]]), estimators=["is", "wis"])
        >>> found["is"].estimate, found["wis"].estimate, found.baseline.estimate
        (2.5, 2.5, 3.0)
    """
    checked_name(bound, BOUNDS, "bound")
    level = checked_level(delta) / 2.0
    if bound == "bca":
        refuse_beyond_resampling(level)
    problem = Problem.of(log, baseline=baseline, gamma=gamma, **options)
    episodes, policy, gamma = (
        Trajectories.from_log(problem.log),
        problem.align(policy),
        problem.gamma,
    )
    _refuse_few(episodes, bound)
    episodes.check_propensities(problem.baseline)
    counts, rewards = problem.counts, problem.values
    chosen = _chosen_estimators(estimators, bound, gamma, rewards)
    off = OffPolicy.of(problem, policy)
    reach = None
    if bound in EXACT or return_range is not None or gamma < 1.0:
        reach = ReturnRange.of(rewards, return_range, off.plain.gain)
    rng = np.random.default_rng(0) if rng is None else rng
    job = _Job(off, bound, level, reach, rng, LogReturn.of(problem.log, gamma))
    own = replace(job, off=replace(off, policy=off.baseline))
    estimates = tuple(job.estimate(name) for name in chosen)
    missing = notes.beyond_the_record(off, rewards)
    return PolicyEvaluation(
        estimates=estimates,
        baseline=own.estimate("is", label="mean"),
        bound=bound,
        delta=float(delta),
        gamma=gamma,
        n_episodes=len(episodes),
        n_rows=len(episodes.state),
        n_truncated=int(episodes.is_cut.sum()),
        missing=missing,
        is_baseline_estimated=problem.baseline.is_estimated,
        warnings=(
            *notes.log_warnings(off, policy, counts.n_gaps),
            *notes.sample_warnings(off, problem, bound, float(delta)),
            *notes.range_warnings(bound, reach, chosen),
        ),
        assumptions=notes.assumptions(
            bound, reach, episodes, missing, chosen, is_estimated=problem.baseline.is_estimated
        ),
        is_exact=bound in EXACT
        and reach is not None
        and reach.is_known(*chosen)
        and not problem.baseline.is_estimated
        and counts.n_gaps == 0,
        return_range=None if reach is None else (reach.low, reach.high),
    )


@dataclass(frozen=True, eq=False)
class _Job:
    off: OffPolicy
    bound: str
    level: float
    reach: ReturnRange | None
    rng: np.random.Generator
    returns: LogReturn | None = None

    def estimate(self, name: str, label: str | None = None) -> PolicyEstimate:
        statistic = self.off.statistic(name, self.rng)
        reason = self._withheld(statistic) if isinstance(statistic, ModelValue) else None
        if reason is not None:
            words = (*notes.model_warnings(statistic), f"The estimate is withheld: {reason}.")
            return PolicyEstimate(label or name, math.nan, NO_BOUND, None, None, None, words)
        estimate, interval = statistic.estimate, self._ends(name, statistic)
        weight = self.off.weight(name)
        warnings = notes.estimate_warnings(statistic, weight, interval)
        if interval[0] > interval[1]:
            interval = NO_BOUND if self.reach is None else (self.reach.low, self.reach.high)
            warnings += (notes.CONTRADICTION,)
        if self.reach is not None:
            estimate, interval, told = self.reach.kept_inside(estimate, interval)
            warnings += told
        return PolicyEstimate(
            estimator=label or name,
            estimate=estimate,
            interval=interval,
            ess=None if weight is None else float(effective_sample_size(weight)),
            largest_share=None if weight is None else largest_share(weight),
            mean_weight=None if weight is None else float(weight.mean()),
            warnings=warnings,
        )

    def _withheld(self, statistic: ModelValue) -> str | None:
        """Say why a model's estimate means nothing, by the rule of `improve`; else None."""
        reason = statistic.withheld(self.off.baseline)
        if reason is not None:
            return reason
        return contradiction(self.returns, replace(statistic, policy=self.off.baseline).estimate)

    def _ends(self, name: str, statistic: Statistic) -> Ends:
        if self.bound in EXACT:
            assert self.reach is not None, "made before"
            cut = self.off.episodes.cut(self.off.gamma)
            terms = self.reach.terms(name, self.off.plain, cut)
            if self.bound == "concentration":
                return terms.concentration(self.level, self.rng)
            return terms.betting(self.level)
        if name in ONE_SIDED:
            return self._one_sided_ends(name, statistic.estimate)
        if self.bound == "student-t":
            return student_t(_terms_of(statistic), self.level)
        if isinstance(statistic, ModelValue) and len(self.off.policy) > LARGEST_RESAMPLED:
            return NO_BOUND
        return bca(statistic, self.level, self.rng)

    def _one_sided_ends(self, name: str, estimate: float) -> Ends:
        """Bound terms about the smallest and the largest return of the log.

        The ends may then miss the plain estimate where weights are far from their mean; to include
        it costs nothing but width.
        """
        found = self.off.plain
        terms = OneSided.of(name, found, float(found.gain.min()), float(found.gain.max()))
        if self.bound == "student-t":
            lower, upper = terms.student_t(self.level)
        else:
            lower, upper = terms.bca(self.level, self.rng)
        return min(lower, estimate), max(upper, estimate)


def _terms_of(statistic: Statistic) -> Array:
    terms = statistic.terms
    assert terms is not None, "refused before: Student's t is for means"
    return terms


def _refuse_few(episodes: Trajectories, bound: str) -> None:
    needed = 3 if bound == "concentration" else 2
    if len(episodes) < needed:
        raise DataError(
            f"{len(episodes)} episodes", expected=f"at least {needed} for an interval by {bound}"
        )


def _chosen_estimators(
    asked: Sequence[str] | None, bound: str, gamma: float, rewards: ValueRange
) -> tuple[str, ...]:
    if asked is None:
        valid = {"bca": tuple(ESTIMATORS), "student-t": MEANS}.get(bound, ONE_SIDED)
        no_pdis = bound == "concentration" and rewards.low < 0.0
        no_pdis |= bound in EXACT and gamma >= 1.0
        return tuple(name for name in valid if not (no_pdis and name == "pdis"))
    if isinstance(asked, str) or not asked:
        raise SettingsError(f"estimators is {asked!r}", expected="a list of ids, as ['is', 'dr']")
    for name in asked:
        checked_name(name, tuple(ESTIMATORS), "estimator")
        if bound in EXACT:
            refuse_negative(name, bound, rewards)
        elif bound == "student-t" and name not in MEANS:
            raise SettingsError(
                f"Student's t does not hold for {name!r}, which is no mean of terms",
                expected=f"one of {', '.join(MEANS)}",
                hint="use the bound 'bca'",
            )
    return tuple(asked)
