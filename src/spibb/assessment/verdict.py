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
  shows that the states hide something that the behaviour policy used, or the gain does not survive
  in finer states made of raw columns. A small, randomised, monitored trial can tell.
* Deploy with monitoring: the log is large enough, or the policy is certified; not both.
* Deploy: the log is large enough, the policy is certified, and no finding of the inspection biases
  the log.

Where the gain in finer states is a loss, by more than its error, the baseline is kept.

The risk is a posterior probability, not a guarantee. Only the
certificate is a guarantee; on a log of a few thousand rows it seldom promises a gain, hence the
monitoring.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from spibb.assessment.criteria import (
    MOST_HARM,
    Criterion,
    certificate_criterion,
    clause,
    expected_gain_criterion,
    finer_states,
    hidden_states,
    log_findings,
    log_size_criteria,
    model_criterion,
)
from spibb.assessment.words import expected_gain, probability_of_harm
from spibb.posterior.choice import Choice
from spibb.posterior.gain import Gain
from spibb.posterior.sample_size import more_episodes, more_for_choice
from spibb.representation.agreement import SURVIVING_SHARE
from spibb.words import percent

if TYPE_CHECKING:
    from spibb.assessment.assessment import Assessment

_RETURNED = "the policy that is returned is the baseline without what is forbidden"


class Decision(StrEnum):
    """What to do."""

    DEPLOY = "Deploy"
    MONITOR = "Deploy with monitoring"
    PILOT = "Pilot"
    WAIT = "Not enough data"
    KEEP = "Keep the baseline"


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
            "the models agree with it on what is earned today. Beyond that, two things count. Is "
            "the log enough: harm is unlikely, halves of the log agree, and enough was seen of "
            f"where it goes? Is it certified? {Decision.DEPLOY}: both, and nothing was found that "
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
        return _checked_by_states(found, (hidden_states(assessment, None),))
    finer, agreement = finer_states(assessment), assessment.representation
    hidden = hidden_states(assessment, agreement)
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
    certified = certificate_criterion(certificate)
    void = [one for one in log_findings(assessment) if one.severity == "void"]
    if void:
        return Verdict(Decision.KEEP, f"the log is not sound: {clause(void[0].found)}",
                       (changes, certified))  # fmt: skip
    if assessment.choice is not None and assessment.choice.chosen is None:
        return _none_chosen(assessment, assessment.choice, (changes, certified))
    if risk is None:
        return _without_risk(assessment, changes, certified)
    gain, model, enough = (
        expected_gain_criterion(risk),
        model_criterion(assessment, risk),
        log_size_criteria(risk),
    )
    conditions = (changes, gain, model, *enough, certified)
    against = [one.objection for one in enough if one.holds is False]
    for one in (changes, gain, model):
        if one.holds is False:
            return Verdict(Decision.KEEP, one.objection, conditions)
    expected = f"a gain of {expected_gain(risk)} is expected"
    unlikely = f"{expected} and harm is unlikely ({probability_of_harm(risk)})"
    if against and certified.holds:
        reason = f"{certified.found} is certified, but {' and '.join(against)}"
        return Verdict(Decision.MONITOR, reason, conditions)
    if against:
        reason = f"{expected}, but {' and '.join(against)}"
        more = more_episodes(risk.gain, _harm_deviations(risk.gain), _n_episodes(assessment))
        return Verdict(Decision.WAIT, reason, conditions, more or None)
    doubts = [one for one in log_findings(assessment) if one.severity != "weaker"]
    if certified.holds and doubts:
        reason = f"{unlikely}, and {certified.found} is certified, but {clause(doubts[0].found)}"
        return Verdict(Decision.MONITOR, reason, conditions)
    if certified.holds:
        return Verdict(
            Decision.DEPLOY, f"{unlikely}, and {certified.found} is certified", conditions
        )
    said = [f"{unlikely}, but {certified.objection}"]
    said += [] if risk.cross_fitted is not None else ["halves of the log were not compared"]
    said += [clause(one.found) for one in doubts[:1]]
    reason = "; ".join(said)
    return Verdict(Decision.MONITOR, reason, conditions)


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


def _harm_deviations(gain: Gain) -> float:
    """Return how many deviations above 0 a mean must be so that harm is unlikely enough.

    Gains are skewed where losses may be unseen, so that this depends on the gain.
    """
    if gain.deviation == 0.0:
        return 0.0
    return (gain.mean - gain.quantile(MOST_HARM)) / gain.deviation


def _n_episodes(assessment: Assessment) -> int:
    return int(assessment.problem.counts.n_initial.sum())


def _without_risk(assessment: Assessment, changes: Criterion, certified: Criterion) -> Verdict:
    """Judge by the certificate alone: the baseline itself, or a model too large for a risk."""
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
