"""A log and the policy that made it, brought together, once for everything that starts from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from spibb.data.baseline import align_policy
from spibb.data.baseline_fit import BaselineFit, baseline_fit, format_pooled_fit
from spibb.data.behaviour_policy import varies
from spibb.data.counts import Counts
from spibb.data.direction import TURNED
from spibb.data.estimate import Unseen, checked_unseen
from spibb.data.log import Log
from spibb.data.objective import Objective
from spibb.data.returns import Returns, first_visit_returns
from spibb.display import Card, Display
from spibb.errors import DataError, SettingsError
from spibb.mdp.batch import ModelArrays
from spibb.mdp.evaluation import Evaluation, evaluate
from spibb.mdp.model import TabularMDP, checked_gamma
from spibb.mdp.policy import TabularPolicy
from spibb.problem.baselines import Baseline as Baseline
from spibb.problem.baselines import bring_together, pair_counts
from spibb.problem.declarations import Declarations, Start, Successors
from spibb.problem.direction import check_direction, refuse_turning
from spibb.problem.limits import Bounds, Limits
from spibb.problem.loggers import BehaviourPolicies, own_rows
from spibb.problem.ranges import ValueRange
from spibb.settings import checked_entry


class ProblemOptions(TypedDict, total=False):
    """What may be said of a problem beside its log, baseline and discount; see `Problem.of`."""

    reward_range: tuple[float, float] | None
    initial: Start | None
    unseen: Unseen
    states_complete: bool
    never_ends: bool
    successors: Successors | None
    accept_baseline: bool
    limits: Limits | None
    improve_on: str | None
    features: Sequence[str]
    minimize: bool


@dataclass(frozen=True, eq=False, repr=False)
class Problem(Display):
    """A log and the policy that made it, in the same states and actions.

    Attributes:
        counts: Counts of the log, of all of it.
        baseline: The policy that made the log; where several did, the one that runs today.
        values: Range of rewards and values, with the discount.
        log: The log itself, where it was given; where several policies made it, the episodes of the
            baseline alone.
        declared: What the user knows beyond it.
        unseen: What pairs without data do in a model of counts.
        limits: What a new policy may do; None: anything.
        loggers: The policies that made the log, where it names several.

    Example:
        >>> log = Log.from_arrays(state=[0, 0], action=[0, 1], reward=[1.0, 3.0], episode=[0, 1])
        >>> problem = Problem.of(log, baseline=TabularPolicy([[0.5, 0.5]]), gamma=0.9)
        >>> problem.model.reward, problem.baseline_values.performance
        (array([[1., 3.]]), 2.0)
    """

    counts: Counts
    baseline: TabularPolicy
    values: ValueRange
    log: Log | None = None
    declared: Declarations = field(default_factory=Declarations)
    unseen: Unseen = "average"
    limits: Limits | None = None
    loggers: BehaviourPolicies | None = None

    @classmethod
    def of(
        cls,
        log: Any,
        *,
        baseline: Baseline | None = None,
        gamma: float | None = None,
        **options: Unpack[ProblemOptions],
    ) -> Problem:
        """Align a log and its baseline, and check what is said about both.

        Args:
            log: The log that the baseline made: a Log, a pandas, polars or Arrow table, or counts
                where counts suffice. A problem is returned as it is, and takes no other arguments.
            baseline: The policy that made the log, or "estimate". None: the log records the
                probabilities of every action (propensity_ACTION, in Python ``propensities``). Where
                several policies made the log, that of the one that runs today, or one for each, by
                name.
            gamma: The discount, in [0, 1]; 1 where every policy in play ends. It may be left out
                where every row of the log ends its process (a one-step log, a bandit's), and is
                then 0.
            **options: What else is known:

                * reward_range: smallest and largest possible reward; None: those in the log.
                * initial: distribution of the first state, a mapping from states to probabilities,
                  or a list where states are numbers; None: as the episodes of the log begin.
                * unseen: what pairs without data do in the estimated model: what was seen in their
                  state on average ("average"), or "terminal", "uniform", "self-loop".
                * states_complete: declares that there are no states or actions but those of log and
                  baseline.
                * never_ends: declares that the process never ends.
                * successors: declares what may follow: rows (state, next_state) or (state, action,
                  next_state), or "seen" for what followed in the log.
                * accept_baseline: take a baseline that the log contradicts (see
                  :mod:`spibb.data.baseline_fit`), which is refused otherwise.
                * limits: what a new policy may do, a :class:`spibb.Limits`.
                * improve_on: which policy runs today, where the log names several (``policy``).
                * features: raw columns of a table beside its states. They judge a policy and do not
                  change it (:mod:`spibb.representation`); a Log has its own.
                * minimize: whether the rewards of a table are costs, of which less is better; a Log
                  says so itself (``read_log(..., minimize=True)``).
        """
        for name in options:
            checked_entry(name, ProblemOptions.__annotations__, "option of a problem")
        if isinstance(log, Problem):
            if baseline is not None or gamma is not None or options:
                raise SettingsError(
                    "a problem was given, and more beside it",
                    expected="a problem alone: it has its baseline, discount and declarations",
                )
            return log
        gamma = None if gamma is None else checked_gamma(gamma)
        limits = _checked_limits(options.get("limits"))
        asked = () if limits is None else limits.cost
        known: dict[str, Any] = dict(options)
        features, minimize = known.pop("features", ()), known.pop("minimize", False)
        data = log_of(log, asked, features, minimize=minimize)
        counts, policy, kept, loggers = bring_together(
            data,
            baseline,
            known.pop("improve_on", None),
            is_accepted=known.pop("accept_baseline", False),
        )
        gamma = _known_gamma(counts, kept, gamma)
        unseen = checked_unseen(known.pop("unseen", "average"))
        reward_range = known.pop("reward_range", None)
        known.pop("limits", None)
        declared = Declarations.of(counts, **known)
        if declared.never_ends and unseen != "average":
            raise SettingsError(
                f"never_ends with unseen = {unseen!r}, which lets pairs end, or pay 0 for ever",
                expected="unseen = 'average' where the process is declared never to end",
            )
        values = ValueRange.of(counts, gamma, reward_range, never_ends=declared.never_ends)
        made = cls(counts, policy, values, kept, declared, unseen, limits, loggers)
        if limits is not None:
            made.bounds  # noqa: B018 - limits that cannot be kept are refused here
        return made

    def _card(self) -> Card:
        counts, values = self.counts, self.values
        origin = "the range seen" if values.is_observed else "as given"
        facts = {
            "log": f"{int(counts.n_sa.sum()):,} rows, {int(counts.n_initial.sum()):,} episodes",
            "baseline": "estimated from the log" if self.baseline.is_estimated else "given",
            "rewards": f"from {values.low:g} to {values.high:g}, {origin}",
        } | self.objective_facts
        if self.declared.statements:
            facts["declared"] = " ".join(self.declared.statements)
        if self.loggers is not None:
            facts["policies"] = self.loggers.used
        if self.limits is not None:
            facts["limits"] = "; ".join(self.limits.statements.values())
        return Card(
            f"Problem: {counts.n_states:,} states, {counts.n_actions:,} actions, "
            f"gamma {self.gamma:g}",
            facts,
        )

    @property
    def gamma(self) -> float:
        """The discount."""
        return self.values.gamma

    @property
    def minimize(self) -> bool:
        """Whether the rewards are costs with their sign turned."""
        return self.counts.minimize

    @property
    def objective_facts(self) -> dict[str, str]:
        """What objects show where costs are minimized: figures have their sign turned."""
        return {"costs": TURNED} if self.minimize else {}

    @cached_property
    def objective(self) -> Objective:
        """What is better, and what a good and a bad episode of the baseline look like."""
        return Objective.of(self.counts if self.log is None else self.log, self.gamma)

    @property
    def whole(self) -> Log | None:
        """The log of all policies that made it, where it was given."""
        return self.log if self.loggers is None else self.loggers.whole

    @property
    def proviso(self) -> str | None:
        """What was read off the log for statements to rest on, as a clause; None: nothing."""
        found = [one for one in (self.values.proviso, self.declared.proviso) if one is not None]
        return ", and ".join(found) or None

    @cached_property
    def model(self) -> TabularMDP:
        """The estimated model."""
        return TabularMDP.of_arrays(self.estimate(), self.counts.terminal)

    @cached_property
    def fit(self) -> BaselineFit | None:
        """How well the baseline fits the actions of its log.

        None where it was estimated, and where only counts are given that lack rows of the log.
        """
        if self.baseline.is_estimated or (self.log is None and self.counts.n_dropped):
            return None
        n_sa = self.counts.n_sa if self.log is None else pair_counts(self.log)
        return baseline_fit(n_sa, self.baseline.probabilities)

    def worst_fit(self, fit: BaselineFit) -> str:
        """Return in words where the log contradicts a baseline most: a state, or many together."""
        if fit.pooled is None:
            return self.counts.place(int(np.argmax(fit.evidence)))
        return format_pooled_fit(fit.pooled, self.baseline.actions)

    @cached_property
    def logger_fits(self) -> dict[str, BaselineFit]:
        """How well given baselines fit the actions of several behaviour policies, by name."""
        if self.loggers is None:
            return {}
        whole, policies = self.loggers.whole, self.loggers.policies
        return {
            name: baseline_fit(pair_counts(whole.take(own_rows(whole, name))), one.probabilities)
            for name, one in policies.items()
            if not one.is_estimated
        }

    @cached_property
    def baseline_values(self) -> Evaluation:
        """Values of the baseline in the estimated model."""
        return evaluate(self.model, self.baseline)

    @cached_property
    def bounds(self) -> Bounds | None:
        """The limits in the states and actions of the problem; None where there are none."""
        if self.limits is None:
            return None
        found = self.limits.bounds(self.counts, self.baseline)
        if not self.limits.cost:
            return found
        return found.with_costs(self.limits.cost, self.cost_advantages, self.counts)

    @cached_property
    def cost_advantages(self) -> NDArray[np.float64]:
        """The baseline's advantage in each cost of the limits, by the counts, shape (K, S, A)."""
        names, log = () if self.limits is None else self.limits.cost, self.whole
        if log is None:
            raise DataError(
                "only counts were given",
                expected="a log, for its costs",
                hint="give the log itself",
            )
        found = []
        for name in names:
            counts = Counts.from_log(log.paying(name))
            arrays = counts.estimate(self.gamma, self.unseen, self.declared.initial)
            values = evaluate(TabularMDP.of_arrays(arrays, counts.terminal), self.baseline)
            if not np.isfinite(values.q).all():
                raise SettingsError(
                    f"what the baseline costs in {name} has no end in the estimated model",
                    expected="gamma < 1, or a baseline that ends",
                )
            found.append(values.q - values.v[:, None])
        return np.stack(found)

    @property
    def start(self) -> NDArray[np.float64]:
        """Where improvements start: the baseline, without what limits forbid, shape (S, A)."""
        return self.baseline.probabilities if self.bounds is None else self.bounds.start

    def estimate(self) -> ModelArrays:
        """Return the arrays of the estimated model without building and checking it."""
        return self.counts.estimate(self.gamma, self.unseen, self.declared.initial)

    def align(self, policy: TabularPolicy) -> TabularPolicy:
        """Return another policy in the states and actions of the problem.

        A policy that was made to minimize costs is not judged by rewards, nor the other way round.
        """
        check_direction(policy, minimize=self.minimize)
        return align_policy(
            self.counts, policy, role="policy", log=self.whole, otherwise=self.baseline
        )

    def check_state(self) -> None:
        """Refuse a log whose own propensities say that the policy used more than the state.

        What follows an action is then not the action's alone, and models of states are wrong.
        """
        where = None if self.whole is None else varies(self.whole)
        if where is not None:
            raise DataError(
                "the propensities of one action vary: the policy used more than the state",
                where=where,
                expected="the same in every row of a state that one policy acted in",
                hint="record in the state what the policy looked at, or evaluate only (spibb "
                "evaluate takes propensities row by row)",
            )

    def episodes(self) -> Log:
        """Return the log, or refuse a problem that has none, or none with episodes."""
        if self.log is None or self.log.episode is None:
            raise DataError(
                "only counts were given" if self.log is None else "the log has no episodes",
                expected="a log with an episode for each row",
                hint="give the log itself, with the column 'episode', or choose an error function "
                "or an algorithm that needs counts only",
            )
        return self.log

    def returns(self) -> Returns:
        """Return the first-visit returns of the log."""
        counted = self.counts.returns
        if self.log is None and counted is not None and counted.gamma == self.gamma:
            return counted.to_returns()
        return first_visit_returns(self.episodes(), self.gamma)

    def part(self, rows: NDArray[np.bool_]) -> Problem:
        """Return the problem that some rows of the log alone would pose.

        Of several policies, those rows are the baseline's: others add nothing to it.
        A range of rewards, and successors, that were read off the log are read off these rows.
        """
        log = self.episodes().take(rows)
        counts, values = Counts.from_log(log), self.values
        given = None if values.is_observed else (values.low, values.high)
        return replace(
            self,
            counts=counts,
            log=log,
            loggers=None,
            values=ValueRange.of(counts, self.gamma, given, never_ends=values.never_ends),
            declared=self.declared.for_counts(counts),
        )


def _known_gamma(counts: Counts, log: Log | None, gamma: float | None) -> float:
    """Return the discount; of decisions that lead nowhere it is 0, and need not be said."""
    if gamma is None and counts.is_one_step:
        return 0.0
    if gamma is None:
        raise SettingsError(
            "gamma is not given",
            expected="a discount: it may be left out only where every row of the log ends its "
            f"process, and {int(counts.n_sa.sum()) - counts.n_ended + counts.n_dropped:,} do not",
        )
    if gamma > 0.0 and log is not None and log.is_one_step:
        raise SettingsError(
            f"gamma is {gamma:g}, but no column of the log says what follows a row",
            expected="a column 'episode' or 'next_state', or no gamma",
            hint="if rows follow each other, name the column (--columns episode=COLUMN); if each "
            "row is a decision of its own, leave gamma out",
        )
    return gamma


def log_of(
    log: Any, costs: Sequence[str] = (), features: Sequence[str] = (), *, minimize: bool = False
) -> Log | Counts:
    """Return a log or counts as they are, and a table as a log.

    Args:
        log: The log, counts, or table.
        costs: Columns of costs of a table.
        features: Raw columns of a table; a log has its own.
        minimize: Whether the rewards of a table are costs; logs and counts say so themselves.
    """
    if not isinstance(log, Log | Counts):
        return Log.from_dataframe(log, costs=costs, features=features, minimize=minimize)
    if minimize and not log.minimize:
        refuse_turning(log)
    if features:
        what = "a Log, which has its own" if isinstance(log, Log) else "counts, which keep none"
        raise SettingsError(
            f"features are given beside {what}",
            expected="features beside a table",
            hint="give features to read_log, or Log.with_features",
        )
    return log


def _checked_limits(limits: Any) -> Limits | None:
    if limits is None or isinstance(limits, Limits):
        return limits if limits is not None and limits.given else None
    raise SettingsError(f"limits is {limits!r}", expected="a spibb.Limits")
