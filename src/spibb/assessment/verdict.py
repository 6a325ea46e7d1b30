"""Decide what to do with a policy.

The rule has ten criteria. Each is a number that stands in the assessment. The first three ask
whether there is anything to gain. The next four ask whether the log is large enough to say so. One
asks whether the policy is certified. The last two ask whether the states hold what matters: all of
the above assumes it.

* Keep the baseline: nothing changes; no gain is expected; neither certificate nor risk is known;
  the log failed inspection; or the models, which the expected gain comes from, differ from the
  log's mean return by more than the gain.
* Not enough data: a gain is expected and nothing is certified, but harm is too likely, halves of
  the log or their episodes contradict the gain, or too many decisions rest on low counts.
* Pilot: the policy would be deployed, but an assumption failed or could not be checked. The log
  shows that the states hide something that those who acted looked at, or the gain does not survive
  in finer states made of raw columns. A small, randomised, monitored trial can tell.
* Deploy with monitoring: the log is large enough, or the policy is certified; not both.
* Deploy: the log is large enough, the policy is certified, and no finding of the inspection biases
  the log.

Where the gain in finer states is a loss, by more than its error, the baseline is kept.

The risk is that under the harsher prior. It is a posterior probability, not a guarantee. Only the
certificate is a guarantee; on a log of a few thousand rows it seldom promises a gain, hence the
monitoring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist
from typing import TYPE_CHECKING

from spibb.assessment.words import expected_gain, probability_of_harm
from spibb.certify.certificate import Certificate
from spibb.inspection.finding import Finding
from spibb.inspection.memory import STRONG_SHARE
from spibb.ope.support import HARDLY
from spibb.posterior.choice import Choice
from spibb.posterior.more import more_episodes, more_for_choice
from spibb.posterior.risk import Risk
from spibb.representation.agreement import ERRORS, SURVIVING_SHARE, Agreement
from spibb.words import interval, number, percent, several

if TYPE_CHECKING:
    from spibb.assessment.assessment import Assessment

# The largest probability of harm with which a policy may be deployed.
MOST_HARM = 0.05
# Standard deviations of a normal gain that this leaves below its mean.
_HARM_DEVIATIONS = NormalDist().inv_cdf(1.0 - MOST_HARM)
# The largest share of its visits on pairs that the log hardly holds: there the prior speaks.
MOST_HARDLY = 0.5
# Effective episodes without which weighted ones say nothing.
FEWEST_EFFECTIVE = 10.0

_RETURNED = "the policy that is returned is the baseline without what is forbidden"


class Decision(StrEnum):
    """What to do."""

    DEPLOY = "Deploy"
    MONITOR = "Deploy with monitoring"
    PILOT = "Pilot"
    WAIT = "Not enough data"
    KEEP = "Keep the baseline"


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


@dataclass(frozen=True)
class Verdict:
    """What to do, and why.

    Attributes:
        decision: What to do.
        reason: Why, as a clause.
        conditions: What the rule asked, and what it found.
        more_episodes: About how many more episodes would change it, if that is known.
    """

    decision: Decision
    reason: str
    conditions: tuple[Criterion, ...]
    more_episodes: int | None = None

    @property
    def headline(self) -> str:
        """The verdict in a few words."""
        if self.decision is not Decision.WAIT or self.more_episodes is None:
            return str(self.decision)
        return f"{self.decision}: about {self.more_episodes:,} more episodes"

    @property
    def sentence(self) -> str:
        """The verdict in a sentence."""
        return f"{self.headline}, since {self.reason}."

    @property
    def doubt(self) -> str:
        """Why numbers that take the state for all that matters are in doubt; empty: they are not.

        A clause: "the log contradicts that ...".
        """
        return next((one.doubt for one in self.conditions if one.holds is False and one.doubt), "")

    @property
    def rule(self) -> str:
        """The rule, in words."""
        return (
            f"{Decision.KEEP} unless something changes, a gain is expected, the log is sound, and "
            "the models agree with it on what is earned today. Beyond that, two things count: is "
            "the log enough (harm unlikely, halves of the log agree, enough seen of where it "
            f"goes), and is it certified? {Decision.DEPLOY}: both, and nothing was found that "
            f"biases the log. {Decision.MONITOR}: one of them. {Decision.WAIT}: neither. All of "
            "this assumes that the recorded state is all that matters. Where the log shows "
            f"otherwise, or more than {percent(1.0 - SURVIVING_SHARE)} of the gain is lost in "
            f"finer states, the most is a {Decision.PILOT.lower()}: a small, randomised, monitored "
            "trial."
        )


def decide(assessment: Assessment, *, with_columns: bool = True) -> Verdict:
    """Apply the rule to an assessment.

    Args:
        assessment: The assessment; its risk and its inspection are computed if they were not.
        with_columns: Whether raw columns of the log count, where it has any.
    """
    found = decide_in_states(assessment)
    if found.decision not in (Decision.DEPLOY, Decision.MONITOR):
        return found
    if not with_columns:
        return _checked_by_states(found, (_hidden(assessment, None),))
    finer, agreement = _finer(assessment), assessment.representation
    hidden = _hidden(assessment, agreement)
    if agreement is not None and agreement.is_loss:
        return Verdict(Decision.KEEP, finer.objection, (*found.conditions, hidden, finer))
    return _checked_by_states(found, (hidden, finer))


def _checked_by_states(found: Verdict, criteria: tuple[Criterion, ...]) -> Verdict:
    """Limit a verdict by what is known of the states that it relies on."""
    conditions = (*found.conditions, *criteria)
    against = [one.objection for one in criteria if one.holds is False]
    if not against:
        return replace(found, conditions=conditions)
    reason = f"{found.reason}; all of this assumes that the state is all that matters, and "
    return Verdict(Decision.PILOT, reason + " and ".join(against), conditions)


def _hidden(assessment: Assessment, agreement: Agreement | None) -> Criterion:
    """Ask whether a check of the log shows that the states hide what matters.

    Where the gain survives in finer states, these have judged the hidden part more directly.
    """
    asked = "nothing in the log shows that the states hide what decides"
    stopping = [
        one
        for one in _findings(assessment)
        if one.verdict_effect == "pilot" and not _is_judged(one, agreement)
    ]
    if not stopping:
        return Criterion("states", asked, "nothing found", True, "")
    told = stopping[0].found
    doubt = "the log contradicts that the recorded state is all that matters"
    return Criterion("states", asked, told, False, _clause(told), doubt)


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


def _finer(assessment: Assessment) -> Criterion:
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


def decide_in_states(assessment: Assessment) -> Verdict:
    """Apply the criteria that take the states for all that matters, without a check of them.

    Args:
        assessment: The assessment; its risk and its inspection are computed if they were not.
    """
    certificate, risk = assessment.certificate, assessment.risk
    n_changed = int((certificate.states.moved > 1e-12).sum())
    changes = Criterion(
        "changes", "something changes", f"{n_changed:,} states", n_changed > 0,
        "the new policy is the baseline: nothing changes",
    )  # fmt: skip
    certified = _certified(certificate)
    void = [one for one in _findings(assessment) if one.severity == "void"]
    if void:
        return Verdict(Decision.KEEP, f"the log is not sound: {_clause(void[0].found)}",
                       (changes, certified))  # fmt: skip
    if assessment.choice is not None and assessment.choice.chosen is None:
        return _none_chosen(assessment, assessment.choice, (changes, certified))
    if risk is None:
        return _without_risk(assessment, changes, certified)
    gain, model, enough = _expected_gain(risk), _model_fit(assessment, risk), _enough(risk)
    conditions = (changes, gain, model, *enough, certified)
    against = [one.objection for one in enough if one.holds is False]
    for one in (changes, gain, model):
        if one.holds is False:
            return Verdict(Decision.KEEP, one.objection, conditions)
    expected = f"a gain of {expected_gain(risk)} is expected"
    unlikely = f"{expected} and harm is unlikely ({probability_of_harm(risk.gain)})"
    if against and certified.holds:
        reason = f"{certified.found} is certified, but {' and '.join(against)}"
        return Verdict(Decision.MONITOR, reason, conditions)
    if against:
        reason = f"{expected}, but {' and '.join(against)}"
        more = more_episodes(risk.gains.values(), _HARM_DEVIATIONS, _n_episodes(assessment))
        return Verdict(Decision.WAIT, reason, conditions, more or None)
    doubts = [one for one in _findings(assessment) if one.severity != "weaker"]
    if certified.holds and doubts:
        reason = f"{unlikely}, and {certified.found} is certified, but {_clause(doubts[0].found)}"
        return Verdict(Decision.MONITOR, reason, conditions)
    if certified.holds:
        return Verdict(
            Decision.DEPLOY, f"{unlikely}, and {certified.found} is certified", conditions
        )
    said = [f"{unlikely}, but {certified.objection}"]
    said += [] if risk.cross_fitted is not None else ["halves of the log were not compared"]
    said += [_clause(one.found) for one in doubts[:1]]
    reason = "; ".join(said)
    return Verdict(Decision.MONITOR, reason, conditions)


def _findings(assessment: Assessment) -> Sequence[Finding]:
    found = assessment.inspection
    return () if found is None else found.findings


def _clause(sentence: str) -> str:
    """Return a sentence as a part of another."""
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def _none_chosen(
    assessment: Assessment, choice: Choice, conditions: tuple[Criterion, ...]
) -> Verdict:
    """Judge a choice that took no candidate: is there nothing to gain, or not enough data?"""
    more = more_for_choice(choice, _n_episodes(assessment))
    if more is None:
        reason = f"no gain is expected of any of {len(choice.candidates)} candidates"
        if choice.is_limited:
            reason += f" within the limits; {_RETURNED}"
        return Verdict(Decision.KEEP, reason, conditions)
    reason = "a gain is expected of some candidates, but of none beyond doubt"
    if choice.is_limited:
        reason += f"; {_RETURNED}"
    return Verdict(Decision.WAIT, reason, conditions, more or None)


def _n_episodes(assessment: Assessment) -> int:
    return int(assessment.problem.counts.n_initial.sum())


def _without_risk(assessment: Assessment, changes: Criterion, certified: Criterion) -> Verdict:
    """Judge by the certificate alone: the baseline itself, or models too large to be drawn."""
    conditions = (changes, certified)
    if not changes.holds:
        return Verdict(Decision.KEEP, changes.objection, conditions)
    unknown = (
        f"no probability of harm is computed for {assessment.problem.counts.n_states:,} states"
    )
    if certified.holds:
        reason = f"{certified.found} is certified, but {unknown}"
        return Verdict(Decision.MONITOR, reason, conditions)
    return Verdict(Decision.KEEP, f"{certified.objection} and {unknown}", conditions)


def _expected_gain(risk: Risk) -> Criterion:
    mean = risk.least_mean
    return Criterion(
        "gain", "a gain is expected under both priors", number(mean, "+"), mean > 0.0,
        f"no gain is expected ({number(mean, '+')} an episode)",
    )  # fmt: skip


def _model_fit(assessment: Assessment, risk: Risk) -> Criterion:
    """Ask whether the models earn what the log shows, over the recorded length of its records.

    A difference that is clear, and larger than what is to be gained, contradicts the models.
    """
    asked = "the models agree with the log on what is earned today, or differ by less than the gain"
    fit = assessment.model_fit
    if fit is None:
        return Criterion("model", asked, "not compared: too few records", None, "")
    longest, worst = fit.longest, fit.worst(risk.least_mean)
    told = f"models {number(longest.model)}, log {number(longest.log)}"
    told += f" over the first {several(longest.horizon, 'step')}"
    return Criterion(
        "model", asked, told, worst is None,
        "" if worst is None
        else f"the models contradict the log by more than is gained: {fit.describe(worst)}",
    )  # fmt: skip


def _enough(risk: Risk) -> tuple[Criterion, ...]:
    """Ask whether the log is enough to rely on the gain that is expected."""
    harm, halves = risk.gain.harm, risk.cross_fitted
    told = probability_of_harm(risk.gain)
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
            "seen", f"at most {percent(MOST_HARDLY)} of its decisions are ones that the log holds "
            f"fewer than {HARDLY} times", percent(risk.hardly), risk.hardly <= MOST_HARDLY,
            f"{percent(risk.hardly)} of its decisions are ones that the log hardly holds",
        ),
    )  # fmt: skip


def _certified(certificate: Certificate) -> Criterion:
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
