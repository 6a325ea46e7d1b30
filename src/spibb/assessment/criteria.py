"""The criteria of the verdict: each asks one question of an assessment, and says what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spibb.assessment.words import probability_of_harm
from spibb.certify.certificate import Certificate
from spibb.inspection.finding import Finding
from spibb.inspection.memory import STRONG_SHARE
from spibb.ope.support import LOW_COUNT
from spibb.posterior.risk import Risk
from spibb.representation.agreement import ERRORS, SURVIVING_SHARE, Agreement
from spibb.words import interval, number, percent, several

if TYPE_CHECKING:
    from spibb.assessment.assessment import Assessment

# The largest probability of harm with which a policy may be deployed.
MOST_HARM = 0.05
# The largest share of its visits on pairs that the log hardly holds: there the prior speaks.
MOST_LOW_COUNT = 0.5
# Effective episodes without which weighted ones say nothing.
FEWEST_EFFECTIVE = 10.0


@dataclass(frozen=True)
class Criterion:
    """A condition of the rule.

    Attributes:
        name: Short name.
        statement: What is asked.
        found: What was found, in words.
        holds: Whether it holds; None: not known, and not asked.
        objection: What is wrong where it does not hold, as a clause.
        doubt: Why numbers that take the state for all that matters are in doubt where it does not
            hold, as a clause; empty where they are not.
    """

    name: str
    statement: str
    found: str
    holds: bool | None
    objection: str
    doubt: str = ""


def hidden_states(assessment: Assessment, agreement: Agreement | None) -> Criterion:
    """Ask whether a check of the log shows that the states hide what matters.

    Where the gain survives in finer states, these have judged the hidden part more directly.
    """
    asked = "nothing in the log shows that the states hide what decides"
    stopping = [
        one
        for one in log_findings(assessment)
        if one.verdict_effect == "pilot" and not _is_judged(one, agreement)
    ]
    if not stopping:
        return Criterion("states", asked, "nothing found", True, "")
    told = stopping[0].found
    doubt = "the log contradicts that the recorded state is all that matters"
    return Criterion("states", asked, told, False, clause(told), doubt)


def _is_judged(one: Finding, agreement: Agreement | None) -> bool:
    """Return whether the gain in finer states overrules a finding of the log.

    Persistent rewards are overruled where the gain survives. So is a weak trace in the past where
    nearly all of the gain does; a strong one never is.
    """
    if agreement is None:
        return False
    if one.check == "memory":
        return agreement.is_strong and one.share < STRONG_SHARE
    return one.check == "persistent-rewards" and agreement.holds


def finer_states(assessment: Assessment) -> Criterion:
    """Ask whether the gain survives in finer states made of raw columns."""
    asked = (
        f"more than {percent(SURVIVING_SHARE)} of the gain is left wherever the states are split "
        f"further by raw columns, by {ERRORS:g} standard error"
    )
    agreement = assessment.representation
    if agreement is None:
        why = assessment.representation_remark
        holds = False if _has_columns(assessment) else None
        return Criterion(
            "finer", asked, f"not checked: {why}", holds,
            f"the gain could not be checked in finer states: {why}",
            "the gain could not be checked in finer states",
        )  # fmt: skip
    worst = agreement.worst
    told = f"{number(agreement.claim, '+')} in the states, {number(worst.gain, '+')} in the finer "
    told += f"states of '{worst.name}'"
    return Criterion(
        "finer", asked, told, agreement.holds,
        f"the gain does not survive in finer states ({told})",
        "the gain does not survive in finer states",
    )  # fmt: skip


def _has_columns(assessment: Assessment) -> bool:
    log = assessment.problem.log
    return log is not None and log.features is not None


def log_findings(assessment: Assessment) -> Sequence[Finding]:
    """Return what the inspection of the log found."""
    found = assessment.inspection
    return () if found is None else found.findings


def clause(sentence: str) -> str:
    """Return a sentence as a part of another."""
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def expected_gain_criterion(risk: Risk) -> Criterion:
    """Ask whether a gain is expected."""
    mean = risk.mean
    return Criterion(
        "gain", "a gain is expected", number(mean, "+"), mean > 0.0,
        f"no gain is expected ({number(mean, '+')} an episode)",
    )  # fmt: skip


def model_criterion(assessment: Assessment, risk: Risk) -> Criterion:
    """Ask whether the models earn what the log shows, over the recorded length of its records.

    A difference that is clear, and larger than what is to be gained, contradicts the models.
    """
    asked = "the models agree with the log on what is earned today, or differ by less than the gain"
    fit = assessment.model_fit
    if fit is None:
        return Criterion("model", asked, "not compared: too few records", None, "")
    longest, worst = fit.longest, fit.worst(risk.mean)
    told = f"models {number(longest.model)}, log {number(longest.log)}"
    told += f" over the first {several(longest.horizon, 'step')}"
    return Criterion(
        "model", asked, told, worst is None,
        "" if worst is None
        else f"the models contradict the log by more than is gained: {fit.describe(worst)}",
    )  # fmt: skip


def log_size_criteria(risk: Risk) -> tuple[Criterion, ...]:
    """Ask whether the log is enough to rely on the gain that is expected."""
    harm, halves = risk.probability_of_harm, risk.cross_fitted
    told = probability_of_harm(risk)
    held_out, disputed = risk.held_out, None
    if held_out is not None and held_out.ess >= FEWEST_EFFECTIVE:
        disputed = held_out.interval_95[1] < 0.0
    return (
        Criterion(
            "harm", f"harm has a probability of at most {percent(MOST_HARM)}", told,
            harm <= MOST_HARM,
            f"harm has a probability of {told} (the limit is {percent(MOST_HARM)})",
        ),
        Criterion(
            "halves", "each half of the log expects a gain of what the other half makes",
            "not compared" if halves is None else number(halves, "+"),
            None if halves is None else halves > 0.0,
            "halves of the log expect no gain of each other's policies",
        ),
        Criterion(
            "episodes", "the episodes themselves, weighted, do not say otherwise",
            "not known" if held_out is None else interval(held_out.interval_95, "+"),
            None if disputed is None else not disputed,
            "the episodes themselves, weighted, speak against it",
        ),
        Criterion(
            "seen", f"at most {percent(MOST_LOW_COUNT)} of its decisions are ones that the log "
            f"holds fewer than {LOW_COUNT} times",
            percent(risk.low_count), risk.low_count <= MOST_LOW_COUNT,
            f"{percent(risk.low_count)} of its decisions are ones that the log hardly holds",
        ),
    )  # fmt: skip


def certificate_criterion(certificate: Certificate) -> Criterion:
    """Ask for a bound that is proved and allows no loss; one that may fail more often is none."""
    bound, level = certificate.bound, percent(1.0 - certificate.delta)
    if bound is None:
        found = "nothing"
    elif bound >= 0.0:
        found = f"a gain of at least {number(bound)} (at {level})"
    else:
        found = f"a loss of at most {number(-bound)} (at {level})"
    holds = bound is not None and bound >= 0.0 and certificate.guarantee.is_exact
    asked = "it is certified, exactly, that nothing is lost"
    return Criterion("certified", asked, found, holds, "it is not certified that nothing is lost")
