"""Off-policy evaluation: what another policy would earn, from the log of the running one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Unpack

import numpy as np

from spibb.confounding.sensitivity import Sensitivity, find_sensitivity
from spibb.data.direction import TURNED
from spibb.data.log import Log
from spibb.data.objective import Objective
from spibb.display import Card, Display
from spibb.errors import DataError, SettingsError
from spibb.mdp.policy import TabularPolicy
from spibb.ope import caveats, mixture
from spibb.ope.bounds import NO_BOUND, checked_level
from spibb.ope.confidence import BOUNDS, ApproximateBound, Bound
from spibb.ope.estimator_selection import chosen_estimators, left_out, unfit_estimators
from spibb.ope.estimators import ESTIMATORS
from spibb.ope.log_return import LogReturn
from spibb.ope.off_policy import OffPolicy
from spibb.ope.return_range import Outcome, ReturnRange
from spibb.ope.weights import effective_sample_size, largest_share
from spibb.problem import Baseline, Problem, ProblemOptions
from spibb.problem.origin import Origin, policy_origin
from spibb.problem.problem import log_of
from spibb.representation.agreement import NO_COLUMNS, Agreement, find_agreement
from spibb.settings import checked_entry
from spibb.strict_json import VERSION, strict_json


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


_NO_POLICY = "only probabilities of logged actions are known, not a policy of states"


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
        origin: Whether the policy was made of this log: "same", "other" or "unknown". Intervals
            around what a log says of its own policy are withheld unless asked for, and never exact.
        improved_on: Whose episodes are used, where the log names several policies.
        representation: The gain of the policy in finer states made of raw columns; None where the
            log has none, or they cannot be used.
        representation_remark: Why there is no gain in finer states; empty where there is one.
        sensitivity: How strong an unrecorded cause must be to cancel the policy's gain; None: not
            computed.
        sensitivity_remark: Why that was not computed; empty where it was.
        objective: What is better, and what a good and a bad episode of the log look like.
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
    objective: Objective
    origin: Origin = "unknown"
    improved_on: str | None = None
    representation: Agreement | None = None
    representation_remark: str = ""
    sensitivity: Sensitivity | None = None
    sensitivity_remark: str = ""

    def __getitem__(self, estimator: str) -> PolicyEstimate:
        """Return one estimate by the estimator's id."""
        known = {part.estimator: part for part in self.estimates}
        return checked_entry(estimator, known, "estimate in this result")

    def _card(self) -> Card:
        kind = "exact" if self.is_exact else "approximate"
        return Card(
            f"PolicyEvaluation: {self.n_episodes:,} episodes, {self.n_rows:,} rows; "
            f"{100 * (1 - self.delta):g} % intervals by {self.bound}, {kind}",
            ({"warnings": " ".join(self.warnings)} if self.warnings else {})
            | ({"costs": TURNED} if self.objective.minimize else {}),
            ("estimator", "estimate", "from", "to", "warnings"),
            [
                (one.estimator, *(f"{x:.4g}" for x in (one.estimate, *one.interval)),
                 str(len(one.warnings)))
                for one in (self.baseline, *self.estimates)
            ],
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return strict JSON values: infinite ends are "inf", an estimate that is none is null."""
        plain_fields = asdict(replace(self, representation=None, sensitivity=None))
        head = {"format": "spibb-evaluation", "version": VERSION}
        found = {**head, **plain_fields, "objective": self.objective.to_dict()}
        for name in ("representation", "sensitivity"):
            part = getattr(self, name)
            found[name] = None if part is None else part.to_dict()
        found["sensitivity_remark"] = self.sensitivity_remark or None
        plain: dict[str, Any] = strict_json(found)
        return plain


def evaluate_policy(
    log: Any,
    *,
    policy: TabularPolicy | None = None,
    baseline: Baseline | None = None,
    gamma: float | None = None,
    estimators: Sequence[str] | None = None,
    bound: str = "bca",
    delta: float = 0.05,
    return_range: tuple[float, float] | None = None,
    rng: np.random.Generator | None = None,
    same_log: bool = False,
    all_episodes: bool = False,
    largest_weight: float | None = None,
    progress: Callable[[int, float], None] | None = None,
    **options: Unpack[ProblemOptions],
) -> PolicyEvaluation:
    """Estimate the performance of a policy from the log of another, with intervals.

    Args:
        log: The log that the baseline made, which must have episodes; or a problem; see
            :meth:`spibb.Problem.of`.
        policy: The policy to estimate. None: the one of which the log has target_probability, the
            probability of each logged action, for the estimators that need no more.
        baseline: The policy that made the log, or "estimate", which the result then says. None: the
            log has the column propensity. Where it has, weights are made of it.
        gamma: The discount.
        estimators: Ids, of is, pdis, wis, cwpdis, dr, model; None: those the bound is valid for.
        bound: Approximate: "bca" or "student-t" (means only: is, pdis, dr). Exact: "betting" (is,
            pdis) or "concentration" (is, and pdis where no reward is negative).
        delta: The intervals fail with this probability.
        return_range: Smallest and largest possible return, from any step of an episode on; None:
            what the rewards imply, if gamma < 1 or each episode pays once at most. Estimates are
            kept inside, and exact bounds of "is" need it.
        rng: Draws resamples and folds; None: always the same.
        same_log: Give intervals also where the policy was made of this log, which is optimistic.
        all_episodes: Where several policies made the log, and a baseline is given for each, use the
            episodes of all, weighted over their mixture (:mod:`spibb.ope.mixture`): right if
            episodes begin alike whoever acts. What is earned today stays that of ``improve_on``.
        largest_weight: The largest that the policy's probability of an action over the logged one
            may be, in one-step logs whose weights are those of rows (propensity,
            target_probability): exact upper ends of rare rewards need it. Where tables are given it
            is known.
        progress: Told how many estimates are made, and which share of all.
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
    kind, level = checked_entry(bound, BOUNDS, "bound"), checked_level(delta) / 2.0
    kind.check_level(level)
    data = log
    if not isinstance(log, Problem):
        features, minimize = options.pop("features", ()), options.pop("minimize", False)
        data = log_of(log, features=features, minimize=minimize)
    if baseline is None and _has(data, "propensity"):
        # What it is for, beside weights, is to say which actions the log hardly shows.
        baseline = "estimate"
    problem = Problem.of(data, baseline=baseline, gamma=gamma, **options)
    if policy is not None:
        policy = problem.align(policy)
    elif not _has(problem.log, "target_probability"):
        raise SettingsError(
            "policy is not given",
            expected="a policy, or a log with the column target_probability",
        )
    own_off = off = OffPolicy.of(problem, policy)
    if all_episodes:
        episodes = mixture.all_episodes(problem)
        support = mixture.mixed_support(problem)
        off = replace(off, episodes=episodes, is_mixed=True, support=support)
    origin: Origin = "unknown" if policy is None else policy_origin(problem, policy)
    episodes, gamma = off.episodes, off.gamma
    is_estimated = problem.baseline.is_estimated and episodes.logged is None
    if off.is_mixed and problem.loggers is not None:
        is_estimated = any(one.is_estimated for one in problem.loggers.policies.values())
    if len(episodes) < kind.fewest_episodes:
        needed = f"at least {kind.fewest_episodes} for an interval by {bound}"
        raise DataError(f"{len(episodes)} episodes", expected=needed)
    if episodes.logged is None:
        episodes.check_propensities(problem.baseline)
    unfit = unfit_estimators(off, problem)
    chosen = chosen_estimators(estimators, kind, problem, unfit)
    known = known_range(problem, return_range, off, needs_one=kind.is_exact)
    rng = np.random.default_rng(0) if rng is None else rng
    own = LogReturn.of(problem.log, gamma)
    largest = off.largest_for(largest_weight, is_exact=kind.is_exact)
    share = off.share_of_plain(largest_weight) if kind.is_exact else 1.0
    bounds = [kind(one, share * level, known, largest=largest) for one in chosen]
    made: list[PolicyEstimate] = []
    for one in bounds:
        made.append(_estimate(off, one, rng, own))
        if progress is not None:
            progress(len(made), len(made) / (len(bounds) + 1))
    if origin == "same" and not same_log:
        made = [_without_interval(one) for one in made]
    by_baseline = own_off.of_baseline
    own_largest = by_baseline.largest_for(None, is_exact=kind.is_exact)
    own_bound = kind(ESTIMATORS["is"], level, known, largest=own_largest)
    mean = _estimate(by_baseline, own_bound, rng)
    rare = None
    if issubclass(kind, ApproximateBound):
        rare = kind(ESTIMATORS["is"], level, known, largest=largest).rare(off.plain)
    is_known = known is not None and known.is_known(*chosen)
    finer, sensitivity = _gain_in_finer_states(problem, policy), _sensitivity(problem, policy)
    return PolicyEvaluation(
        estimates=tuple(made),
        baseline=replace(mean, estimator="mean"),
        bound=bound,
        delta=float(delta),
        gamma=gamma,
        n_episodes=len(episodes),
        n_rows=len(episodes.state),
        n_truncated=int(episodes.is_cut.sum()),
        missing=caveats.beyond_the_record(off, problem.values),
        is_baseline_estimated=is_estimated,
        warnings=(
            *caveats.origin_warnings(origin, is_shown=same_log),
            *left_out({} if estimators else unfit),
            *caveats.log_warnings(off, problem),
            *caveats.fit_warnings(off, problem),
            *caveats.support_warnings(largest_weight, largest),
            *(() if kind.is_exact else caveats.sample_warnings(off, problem, float(delta))),
            *caveats.range_warnings(bounds),
            *caveats.rare_warnings(rare, bounds),
        ),
        assumptions=caveats.assumptions(bounds, off, problem, origin, rare),
        origin=origin,
        improved_on=None if problem.loggers is None else problem.loggers.improved,
        is_exact=kind.is_exact
        and is_known
        and not is_estimated
        and problem.counts.n_gaps == 0
        and not caveats.fit_warnings(off, problem)
        and problem.declared.initial is None
        and origin != "same"
        # A part of the episodes, as concentration tests, need not hold the policies in proportion.
        and (bound == "betting" or not off.is_mixed),
        return_range=None if known is None else (known.low, known.high),
        objective=problem.objective,
        representation=None if isinstance(finer, str) else finer,
        representation_remark=finer if isinstance(finer, str) else "",
        sensitivity=None if isinstance(sensitivity, str) else sensitivity,
        sensitivity_remark=sensitivity if isinstance(sensitivity, str) else "",
    )


def _sensitivity(problem: Problem, policy: TabularPolicy | None) -> Sensitivity | str:
    """Return how strong an unrecorded cause must be to cancel a policy's gain, or why not."""
    if policy is None:
        return _NO_POLICY
    tables = policy.probabilities, problem.baseline.probabilities
    return find_sensitivity(problem.log, *tables, problem.gamma, policy_origin(problem, policy))


def known_range(
    problem: Problem, given: tuple[float, float] | None, off: OffPolicy, *, needs_one: bool
) -> ReturnRange | None:
    """Return what is known of returns; None where it is nothing, and no bound needs it."""
    values, outcome = problem.values, Outcome.of(off.episodes, problem.values)
    if given is not None or needs_one or off.gamma < 1.0:
        return ReturnRange.of(values, given, off.plain.gain, outcome)
    if outcome is None:
        return None
    return ReturnRange(outcome.low, outcome.high, values, is_given=False, outcome=outcome)


def _gain_in_finer_states(problem: Problem, policy: TabularPolicy | None) -> Agreement | str:
    """Return the gain of a policy in finer states, or why there is none."""
    if problem.log is None or problem.log.features is None:
        return NO_COLUMNS
    if policy is None:
        return _NO_POLICY
    tables = policy.probabilities, problem.baseline.probabilities
    if np.array_equal(*tables):
        return "the policy is the baseline"
    return find_agreement(problem.log, *tables, problem.gamma)


def _estimate(
    off: OffPolicy, bound: Bound, rng: np.random.Generator, own: LogReturn | None = None
) -> PolicyEstimate:
    estimator, known = bound.estimator, bound.known
    statistic, weight = estimator.statistic(off, rng), off.weight(estimator.id)
    ess = share = mean = None
    if weight is not None:
        ess, share = float(effective_sample_size(weight)), largest_share(weight)
        mean = float(weight.mean())
    if (reason := statistic.withheld(own)) is not None:
        words = (*statistic.warnings, f"The estimate is withheld: {reason}.")
        return PolicyEstimate(estimator.id, math.nan, NO_BOUND, ess, share, mean, words)
    estimate, interval = statistic.estimate, bound.interval(statistic, off.plain, rng)
    warnings = caveats.estimate_warnings(statistic, weight, interval)
    widths = [caveats.spread_warnings(x) for x in bound.spread_of(statistic, off.plain)]
    warnings += max(widths, key=len, default=())
    if interval[0] > interval[1]:
        interval = NO_BOUND if known is None else (known.low, known.high)
        warnings += (caveats.CONTRADICTION,)
    if known is not None:
        estimate, interval, told = known.kept_inside(estimate, interval)
        warnings += told
    return PolicyEstimate(estimator.id, estimate, interval, ess, share, mean, warnings)


def _without_interval(part: PolicyEstimate) -> PolicyEstimate:
    return replace(part, interval=NO_BOUND)


def _has(data: Any, column: str) -> bool:
    """Whether a log has a column of the behaviour policy."""
    return isinstance(data, Log) and getattr(data.acted, column, None) is not None
