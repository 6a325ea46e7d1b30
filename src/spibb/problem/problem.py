"""A log and the policy that made it, brought together, once for everything that starts from it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypedDict, Unpack, cast, get_args

import numpy as np
from numpy.typing import NDArray

from spibb.data.baseline import align_policy, check_baseline, estimate_baseline
from spibb.data.baseline_fit import check_fit
from spibb.data.count_tables import PLANNING_TABLES, check_pairs
from spibb.data.counts import Counts
from spibb.data.estimate import Unseen, checked_unseen
from spibb.data.hazards import Hazards, careful_model
from spibb.data.log import Log
from spibb.data.outcomes import Outcomes
from spibb.data.prior import Prior
from spibb.data.returns import Returns, first_visit_returns
from spibb.data.shrunk import shrunk_model
from spibb.display import Card, Display
from spibb.errors import DataError, SettingsError
from spibb.mdp.batch import ModelArrays, ModelBatch
from spibb.mdp.evaluation import Evaluation, evaluate, evaluate_batch
from spibb.mdp.model import TabularMDP, checked_gamma
from spibb.mdp.policy import TabularPolicy
from spibb.problem.declarations import Declarations, Start, Successors
from spibb.problem.limits import Bounds, Limits
from spibb.problem.ranges import ValueRange
from spibb.settings import checked_entry

# The policy that made a log: itself, or its estimate from the log.
Baseline = TabularPolicy | Literal["estimate"]
# How a model is estimated.
ModelKind = Literal["counts", "shrunk", "careful"]


class ProblemOptions(TypedDict, total=False):
    """What may be said of a problem beside its log, baseline and discount; see `Problem.of`."""

    reward_range: tuple[float, float] | None
    initial: Start | None
    unseen: Unseen
    model: ModelKind
    states_complete: bool
    never_ends: bool
    successors: Successors | None
    accept_baseline: bool
    limits: Limits | None


@dataclass(frozen=True, eq=False, repr=False)
class Problem(Display):
    """A log and the policy that made it, in the same states and actions.

    Attributes:
        counts: Counts of the log.
        baseline: The policy that made the log.
        values: Range of rewards and values, with the discount.
        log: The log itself, where it was given.
        declared: What the user knows beyond it.
        unseen: What pairs without data do in a model of counts.
        model_kind: How the model is estimated.
        limits: What a new policy may do; None: anything.

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
    model_kind: ModelKind = "counts"
    limits: Limits | None = None

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
            baseline: The policy that made the log, or "estimate".
            gamma: The discount, in [0, 1]; 1 where every policy in play ends.
            **options: What else is known:

                * reward_range: smallest and largest possible reward; None: those in the log.
                * initial: distribution of the first state, a mapping from states to probabilities,
                  or a list where states are numbers; None: as the episodes of the log begin.
                * unseen: what pairs without data do in the estimated model: what was seen in their
                  state on average ("average"), or "terminal", "uniform", "self-loop".
                * model: how the model is estimated: by frequencies ("counts"), or frequencies drawn
                  towards what surrounds a pair ("shrunk", see :mod:`spibb.data.shrunk`), or that
                  with hazards that the log hardly shows ("careful", see
                  :mod:`spibb.data.hazards`); unseen and successors play no part in the two.
                * states_complete: declares that there are no states but those of log and baseline.
                * never_ends: declares that the process never ends.
                * successors: declares what may follow: rows (state, next_state) or (state, action,
                  next_state), or "seen" for what followed in the log.
                * accept_baseline: take a baseline that the log contradicts (see
                  :mod:`spibb.data.baseline_fit`), which is refused otherwise.
                * limits: what a new policy may do, a :class:`spibb.Limits`.
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
        if baseline is None or gamma is None:
            lacking = "baseline" if baseline is None else "gamma"
            raise SettingsError(f"{lacking} is not given", expected="a baseline and a discount")
        gamma = checked_gamma(gamma)
        data = log if isinstance(log, Log | Counts) else Log.from_dataframe(log)
        policy = _checked_baseline(data, baseline)
        states, actions = data.states.union(policy.states), data.actions.union(policy.actions)
        check_pairs((states.size, actions.size), PLANNING_TABLES)
        data = data.renamed(states, actions)
        kept = data if isinstance(data, Log) else None
        counts = data if isinstance(data, Counts) else Counts.from_log(data)
        policy = align_policy(counts, policy, role="baseline", log=kept)
        check_baseline(counts.n_sa, policy)
        known: dict[str, Any] = dict(options)
        if not known.pop("accept_baseline", False) and not policy.is_estimated:
            check_fit(counts.n_sa, policy)
        unseen = checked_unseen(known.pop("unseen", "average"))
        model_kind = _checked_kind(known.pop("model", "counts"))
        reward_range = known.pop("reward_range", None)
        limits = _checked_limits(known.pop("limits", None))
        declared = Declarations.of(counts, **known)
        if declared.never_ends and unseen != "average":
            raise SettingsError(
                f"never_ends with unseen = {unseen!r}, which lets pairs end, or pay 0 for ever",
                expected="unseen = 'average' where the process is declared never to end",
            )
        values = ValueRange.of(counts, gamma, reward_range, never_ends=declared.never_ends)
        made = cls(counts, policy, values, kept, declared, unseen, model_kind, limits)
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
        }
        if self.declared.statements:
            facts["declared"] = " ".join(self.declared.statements)
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

    @cached_property
    def model(self) -> TabularMDP:
        """The estimated model."""
        return TabularMDP.of_arrays(self.estimate(), self.counts.terminal)

    @cached_property
    def baseline_values(self) -> Evaluation:
        """Values of the baseline in the estimated model."""
        return evaluate(self.model, self.baseline)

    @cached_property
    def bounds(self) -> Bounds | None:
        """The limits in the states and actions of the problem; None where there are none."""
        return None if self.limits is None else self.limits.bounds(self.counts, self.baseline)

    @property
    def start(self) -> NDArray[np.float64]:
        """Where improvements start: the baseline, without what limits forbid, shape (S, A)."""
        return self.baseline.probabilities if self.bounds is None else self.bounds.start

    def estimate(self, kind: ModelKind | None = None) -> ModelArrays:
        """Return the arrays of the estimated model without building and checking it.

        Args:
            kind: How it is estimated; None: as the problem says.
        """
        kind = kind or self.model_kind
        if kind == "shrunk":
            return self.expected
        if kind == "careful":
            return careful_model(self.expected, self.outcomes, self.hazards)
        return self.counts.estimate(self.gamma, self.unseen, self.declared.initial)

    @property
    def counted(self) -> Problem:
        """The problem with the model of its counts, which is what guarantees are about."""
        return self if self.model_kind == "counts" else replace(self, model_kind="counts")

    @cached_property
    def outcomes(self) -> Outcomes:
        """What followed each pair in the log."""
        return Outcomes.of(self.counts)

    @cached_property
    def prior(self) -> Prior:
        """What is expected of a pair before it is tried."""
        return Prior.of(self.outcomes)

    @cached_property
    def expected(self) -> ModelArrays:
        """The shrunk model: what log and prior lead to expect."""
        known = self.declared.initial
        initial = self.counts.initial if known is None else known
        return shrunk_model(self.outcomes, self.prior, initial=initial, gamma=self.gamma)

    @cached_property
    def expected_values(self) -> NDArray[np.float64]:
        """Values of the baseline in that model, shape (S,)."""
        table = self.baseline.probabilities[None].copy()
        v, _, _ = evaluate_batch(ModelBatch.stack([self.expected]), table)
        return np.asarray(np.nan_to_num(v[0]))

    @cached_property
    def hazards(self) -> Hazards:
        """What may happen though the log hardly shows it."""
        counts = self.counts
        v = np.where(counts.n_sa.sum(axis=1) > 0, self.expected_values, np.inf)
        # Where the process was seen to end, an end, worth nothing more, may be the worst of all.
        v = np.append(v, 0.0 if counts.n_ended else np.inf)
        # Without a discount nothing could be paid for ever: as long as the log's steps go on.
        ending = counts.n_ended / counts.n_sa.sum() if self.gamma == 1.0 else 0.0
        least = self.values.low
        return Hazards.of(self.outcomes, worst=int(v.argmin()), least=least, stay=1.0 - ending)

    def align(self, policy: TabularPolicy) -> TabularPolicy:
        """Return another policy in the states and actions of the problem."""
        return align_policy(
            self.counts, policy, role="policy", log=self.log, otherwise=self.baseline
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

        A range of rewards, and successors, that were read off the log are read off these rows.
        """
        log = self.episodes().take(rows)
        counts, values = Counts.from_log(log), self.values
        given = None if values.is_observed else (values.low, values.high)
        return replace(
            self,
            counts=counts,
            log=log,
            values=ValueRange.of(counts, self.gamma, given, never_ends=values.never_ends),
            declared=self.declared.for_counts(counts),
        )


def _checked_limits(limits: Any) -> Limits | None:
    if limits is None or isinstance(limits, Limits):
        return limits if limits is not None and limits.given else None
    raise SettingsError(f"limits is {limits!r}", expected="a spibb.Limits")


def _checked_kind(model: Any) -> ModelKind:
    checked_entry(model, dict.fromkeys(get_args(ModelKind), True), "model")
    return cast(ModelKind, model)


def _checked_baseline(data: Log | Counts, baseline: Any) -> TabularPolicy:
    if isinstance(baseline, TabularPolicy):
        return baseline
    if isinstance(baseline, str) and baseline == "estimate":
        return estimate_baseline(data)
    raise SettingsError(
        f"baseline is {baseline!r}",
        expected="a TabularPolicy, or 'estimate'",
        hint="read a file by TabularPolicy.read, or make one of an array by TabularPolicy",
    )
