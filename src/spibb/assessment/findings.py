"""Say in sentences what an assessment rests on: the data, the values, the limits, the search."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from spibb.ope.log_return import LogReturn
from spibb.ope.support import LOW_COUNT
from spibb.problem import Problem

if TYPE_CHECKING:
    from spibb.assessment.assessment import Assessment


def list_findings(assessment: Assessment) -> tuple[str, ...]:
    """Return what was found, in sentences: the data, the values, how the search ended."""
    problem, log = assessment.problem, assessment.log_return
    counts = problem.counts
    n_unseen = int((counts.n_sa[~counts.terminal] == 0).sum())
    return (
        f"{int(counts.n_sa.sum()):,} rows, {counts.n_states} states, {counts.n_actions} "
        f"actions; {n_unseen} unobserved pairs",
        *_data_remarks(problem),
        *(() if log is None else _describe_return(log, minimize=problem.minimize)),
        describe_values(assessment),
        *_describe_limits(assessment),
        *start_remarks(problem),
        *_describe_search(assessment),
    )


def start_remarks(problem: Problem) -> tuple[str, ...]:
    """Say where performance is counted from, if neither log nor user does."""
    if problem.counts.n_initial.any() or problem.declared.initial is not None:
        return ()
    return (
        "The log has no episodes, so performance takes every state seen as an equally likely "
        "start.",
    )


def describe_values(assessment: Assessment) -> str:
    """Return the performance of baseline and policy in the estimated model, or why it is withheld.

    The shares of visits to low counts stand beside it.
    """
    if assessment.withheld is not None:
        return f"Estimates by the model are withheld: {assessment.withheld}."
    return (
        f"Estimated by the model: baseline {assessment.baseline.performance:.4g}, new policy "
        f"{assessment.values.performance:.4g} (optimistic; "
        f"{100 * assessment.visits.low_count:.0f} % of the new policy's visits are to pairs seen "
        f"fewer than {LOW_COUNT} times, {100 * assessment.baseline_visits.low_count:.0f} % of the "
        "baseline's)"
    )


def _data_remarks(problem: Problem) -> tuple[str, ...]:
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


def _describe_limits(assessment: Assessment) -> tuple[str, ...]:
    limits = assessment.problem.limits
    if limits is None:
        return ()
    costs = {name: f" (costs {cost:.4g})" for name, cost in assessment.limit_costs.items()}
    told = "; ".join(text + costs.get(name, "") for name, text in limits.statements.items())
    head = "Limits, with what each costs in estimated gain" if costs else "Limits"
    sentences = [f"{head}: {told}."]
    spent = assessment.certificate.check("constraint")
    has_budget = "epsilon" in (assessment.algorithm or {})
    if "forbid" in limits.given and spent.is_satisfied is False and has_budget:
        sentences.append(
            f"To leave out what is forbidden spends more than the budget in {spent.n_violations} "
            f"states, where only free changes are added; the first is {spent.where}."
        )
    return tuple(sentences)


def _describe_return(found: LogReturn, *, minimize: bool) -> tuple[str, ...]:
    low, high = found.interval
    ends = "" if math.isinf(low) else f", from {low:.4g} to {high:.4g} at 95 %, approximately"
    cut = f"; {found.n_truncated:,} records stop early" if found.n_truncated else ""
    cost = f" (a cost of {0.0 - found.mean:.4g})" if minimize else ""
    return (
        f"The baseline earned {found.mean:.4g} an episode in the log{cost}{ends}{cut}.",
        *(f"  {text}" for text in found.warnings),
    )


def _describe_search(assessment: Assessment) -> tuple[str, ...]:
    result = assessment.improvement
    if result is None:
        return ()
    n_steps = result.n_iterations
    return (f"{result.status.value} ({n_steps} step{'' if n_steps == 1 else 's'})",)
