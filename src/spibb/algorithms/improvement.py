"""What every algorithm returns."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spibb.certify.certificate import Certificate
from spibb.display import Card, Display
from spibb.inspection.inspect import Inspection, inspect_problem
from spibb.mdp.batch import ModelBatch
from spibb.mdp.evaluation import LARGEST_DENSE, Evaluation, evaluate
from spibb.mdp.planning import Status
from spibb.mdp.policy import TabularPolicy
from spibb.ope.log_return import LogReturn, contradiction
from spibb.ope.support import HARDLY, Visits, too_little_data
from spibb.posterior.choice import Choice
from spibb.posterior.halves import ask_halves
from spibb.posterior.risk import Risk, risk
from spibb.posterior.states import StateRisks
from spibb.problem import Problem
from spibb.settings import in_words


@dataclass(frozen=True, eq=False, repr=False)
class Improvement(Display):
    """A policy, its values in the estimated model, how it was found, and what is guaranteed.

    Attributes:
        problem: The log and the baseline, with the estimated model.
        values: The improved policy, and its values in the model.
        status: How the run ended; its value is advice.
        n_iterations: Improvement steps that were made.
        certificate: What is guaranteed and what was checked.
        algorithm: The settings, as ``to_config`` gives them.
        choice: Every candidate that was tried, where the algorithm chose among several.
        made: Makes such a policy of another problem.
    """

    problem: Problem
    values: Evaluation
    status: Status
    n_iterations: int
    certificate: Certificate
    algorithm: dict[str, Any]
    choice: Choice | None = None
    made: Callable[[Problem], NDArray[np.float64]] | None = None

    @property
    def policy(self) -> TabularPolicy:
        """The improved policy."""
        return self.values.policy

    @property
    def q(self) -> NDArray[np.float64]:
        """Q of that policy in the estimated model, shape (S, A)."""
        return self.values.q

    @property
    def v(self) -> NDArray[np.float64]:
        """V of that policy in the estimated model, shape (S,)."""
        return self.values.v

    @property
    def baseline(self) -> Evaluation:
        """The baseline, and its values in the estimated model."""
        return self.problem.baseline_values

    @property
    def performance(self) -> float:
        """Estimated performance of the policy: V averaged over the first state."""
        return self.values.performance

    @property
    def estimated_gain(self) -> float:
        """Estimated performance minus the baseline's: flattering, as the log chose the policy."""
        return self.performance - self.baseline.performance

    @cached_property
    def log_return(self) -> LogReturn | None:
        """What the baseline earned in the log itself; None where the log has no episodes."""
        problem = self.problem
        return LogReturn.of(problem.log, problem.gamma, rewards=problem.values)

    @cached_property
    def visits(self) -> Visits:
        """On how much data the estimated values of the policy rest."""
        return self._visits(self.values)

    @cached_property
    def baseline_visits(self) -> Visits:
        """On how much data the estimated values of the baseline rest."""
        return self._visits(self.baseline)

    def _visits(self, values: Evaluation) -> Visits:
        model, n_sa = self.problem.model, self.problem.counts.n_sa
        table = values.policy.probabilities
        return Visits.of(ModelBatch.stack([model]), table, values.v, n_sa, model.terminal)

    @cached_property
    def withheld(self) -> str | None:
        """Why estimates of the model mean nothing here; None where they may be shown.

        More than 5 % of the visits of policy or baseline rest on pairs never seen, or more than
        half of the policy's on pairs seen fewer than five times; or the model's value of the
        baseline is more than four standard errors from the mean return of twenty complete episodes
        or more.
        """
        reason = too_little_data(self.visits, self.baseline_visits, "new policy")
        if reason is not None or self.problem.declared.initial is not None:
            return reason
        return contradiction(self.log_return, self.baseline.performance)

    @cached_property
    def risk(self) -> Risk | None:
        """What the policy would gain, and how likely harm is, given the log and two priors.

        None for the baseline itself, and where there are too many states.
        """
        is_kept = (self.policy.probabilities == self.baseline.policy.probabilities).all()
        if is_kept or self.problem.counts.n_states > LARGEST_DENSE:
            return None
        found = risk(self.problem, self.policy)
        if self.made is None:
            return found
        return found.with_halves(ask_halves(self.problem, self.made))

    @cached_property
    def state_risks(self) -> StateRisks | None:
        """What each state adds to the gain under the harsher prior; None where risk is None."""
        if self.risk is None:
            return None
        return StateRisks.of(self.problem, self.policy, next(iter(self.risk.gains)))

    @property
    def inspection(self) -> Inspection | None:
        """Whether the log is sound: see :func:`spibb.inspect`; None where only counts are known."""
        return inspect_problem(self.problem)

    @cached_property
    def limit_costs(self) -> dict[str, float]:
        """What each limit costs: estimated gain of a policy made without it, minus this one's.

        Empty without limits, and where the model's estimates are withheld.
        """
        limits = self.problem.limits
        if limits is None or self.made is None or self.withheld is not None:
            return {}
        costs = {}
        for name in limits.given:
            freed = replace(self.problem, limits=limits.without(name))
            values = evaluate(self.problem.model, TabularPolicy(self.made(freed)))
            costs[name] = float(values.performance - self.performance)
        return costs

    def write(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write a folder with the policy, the certificate, a summary and a report, or nothing.

        Args:
            folder: Where it shall appear, when it is complete.
            overwrite: Replace an earlier result.
        """
        # The report is made of results, and so of a higher layer: here is its name alone.
        import_module("spibb.report.folder").write_result(self, folder, overwrite=overwrite)

    @property
    def findings(self) -> tuple[str, ...]:
        """What was found, in sentences: the data, the values, how the search ended."""
        counts, log = self.problem.counts, self.log_return
        n_unseen = int((counts.n_sa[~counts.terminal] == 0).sum())
        steps = f"{self.n_iterations} step{'' if self.n_iterations == 1 else 's'}"
        return (
            f"{int(counts.n_sa.sum()):,} rows, {counts.n_states} states, {counts.n_actions} "
            f"actions; {n_unseen} pairs never tried",
            *_remarks(self.problem),
            *(() if log is None else _told_return(log)),
            _told_values(self),
            *_told_limits(self),
            *start_remarks(self.problem),
            f"{self.status.value} ({steps})",
        )

    def _card(self) -> Card:
        # Only where it was asked for: drawing models takes longer than showing a line.
        known: Risk | None = self.__dict__.get("risk")
        n_changed = int((self.certificate.states.moved > 1e-12).sum())
        facts = {
            "status": self.status.value,
            "changed": f"{n_changed:,} of {self.problem.counts.n_states:,} states",
            "values": _told_values(self),
            **({} if known is None else {"risk": known.statement}),
            "guarantee": self.certificate.statement,
            "files": "write(folder) writes policy, certificate, summary and report",
        }
        return Card(f"Improvement by {in_words(self.algorithm)}", facts)


def start_remarks(problem: Problem) -> tuple[str, ...]:
    """Say where performance is counted from, if neither log nor user does."""
    if problem.counts.n_initial.any() or problem.declared.initial is not None:
        return ()
    return (
        "The log has no episodes, so performance takes every state seen as an equally likely "
        "start.",
    )


def _remarks(problem: Problem) -> tuple[str, ...]:
    counts = problem.counts
    alone = "no column says what follows it" if _is_alone(problem) else "it ends the process"
    remarks = {
        f"A one-step log: each row is a decision of its own, as {alone}.": counts.is_one_step,
        f"{counts.n_dropped:,} rows left out: their next state is unknown.": counts.n_dropped,
        f"In {counts.n_gaps:,} places steps of an episode are missing.": counts.n_gaps,
        "The baseline was estimated from the log.": problem.baseline.is_estimated,
    }
    who = () if problem.loggers is None else (problem.loggers.used,)
    return (*(text for text, is_so in remarks.items() if is_so), *who)


def _is_alone(problem: Problem) -> bool:
    return problem.log is not None and problem.log.is_one_step


def _told_limits(result: Improvement) -> tuple[str, ...]:
    limits = result.problem.limits
    if limits is None:
        return ()
    costs = {name: f" (costs {cost:.4g})" for name, cost in result.limit_costs.items()}
    told = "; ".join(text + costs.get(name, "") for name, text in limits.statements.items())
    head = "Limits, with what each costs in estimated gain" if costs else "Limits"
    sentences = [f"{head}: {told}."]
    spent = result.certificate.check("constraint")
    if "forbid" in limits.given and spent.is_satisfied is False and "epsilon" in result.algorithm:
        sentences.append(
            f"To leave out what is forbidden spends more than the budget in {spent.n_violations} "
            f"states, where only free changes are added; the first is {spent.where}."
        )
    return tuple(sentences)


def _told_return(found: LogReturn) -> tuple[str, ...]:
    low, high = found.interval
    ends = "" if math.isinf(low) else f", from {low:.4g} to {high:.4g} at 95 %, approximately"
    cut = f"; {found.n_truncated:,} records stop early" if found.n_truncated else ""
    return (
        f"The baseline earned {found.mean:.4g} an episode in the log{ends}{cut}.",
        *(f"  {text}" for text in found.warnings),
    )


def _told_values(result: Improvement) -> str:
    if result.withheld is not None:
        return f"Estimates by the model are withheld: {result.withheld}."
    return (
        f"Estimated by the model: baseline {result.baseline.performance:.4g}, new policy "
        f"{result.performance:.4g} (flattering; {100 * result.visits.hardly:.0f} % of the new "
        f"policy's visits are to pairs seen fewer than {HARDLY} times, "
        f"{100 * result.baseline_visits.hardly:.0f} % of the baseline's)"
    )
