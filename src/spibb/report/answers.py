"""What people ask first, and the answers: the same in JSON, on the page and in a terminal."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from spibb.assessment.assessment import Assessment
from spibb.assessment.words import expected_gain, probability_of_harm
from spibb.display import short
from spibb.report.changes import Change
from spibb.report.representation import least_gain
from spibb.words import interval, number, percent, several


@dataclass(frozen=True)
class Answer:
    """A question and its answer.

    Attributes:
        name: The question in a word.
        question: The question.
        figure: The answer, as short as it can be.
        text: What else belongs to it; it goes on where the figure ends.
    """

    name: str
    question: str
    figure: str
    text: str

    @property
    def sentence(self) -> str:
        """The answer in one piece."""
        return f"{self.figure} {self.text}"


def answer(assessment: Assessment, changes: list[Change]) -> tuple[Answer, ...]:
    """Answer what a result is asked first."""
    return (
        Answer("today", "What do we earn today?", *_today(assessment)),
        Answer("gain", "What would we gain?", *_gain(assessment)),
        Answer("harm", "How likely do we lose?", *_harm(assessment)),
        Answer("changes", "Which cases change?", *_changes(assessment, changes)),
        Answer("certified", "What is certified?", *_certified(assessment)),
    )


def share_moved(assessment: Assessment) -> float:
    """Return which share of the decisions in the log the new policy would make otherwise."""
    states = assessment.certificate.states
    return float(np.average(states.moved, weights=states.n_rows))


def n_deciding(assessment: Assessment) -> int:
    """Return in how many states something is decided: in all but the terminal ones."""
    return int((~assessment.problem.counts.terminal).sum())


def _today(assessment: Assessment) -> tuple[str, str]:
    found = assessment.log_return
    if found is None:
        if assessment.problem.log is None and assessment.problem.counts.n_initial.any():
            return "Unknown", "since counts do not keep returns."
        return "Unknown", "since the log has no episodes."
    ends = "with too little in the log for an interval"
    if math.isfinite(found.interval[0]) and math.isfinite(found.interval[1]):
        ends = f"{interval(found.interval)} at 95 %"
    cut = f", {found.n_truncated:,} truncated" if found.n_truncated else ""
    episodes = several(found.n_episodes, "episode")
    cost = f" (a cost of {number(-found.mean)})" if assessment.problem.minimize else ""
    return number(found.mean), f"an episode{cost}, {ends} ({episodes}{cut})."


def _gain(assessment: Assessment) -> tuple[str, str]:
    risk = assessment.risk
    if risk is None or not assessment.is_changed:
        return _without_risk(assessment, "0", "an episode: the policy is the baseline.")
    ends = f"{interval(risk.interval(), '+')} at 95 %, no bound"
    if risk.cross_fitted is None or risk.cross_fitted >= risk.mean:
        how = f"({ends})."
    else:
        how = f"by halves of the log and by all of it ({ends})."
    is_cut = assessment.log_return is not None and assessment.log_return.n_truncated > 0
    episode = "an uncut episode" if is_cut else "an episode"
    if not assessment.verdict.doubt:
        return expected_gain(risk, "+"), f"{episode} expected {how}"
    # Numbers of models hold only if the states do.
    told = f"{episode} expected {how} That holds only if the recorded state is all that matters."
    if assessment.representation is not None:
        told += f" {least_gain(assessment.representation)}"
    return expected_gain(risk, "+"), told


def _harm(assessment: Assessment) -> tuple[str, str]:
    risk = assessment.risk
    if risk is None or not assessment.is_changed:
        return _without_risk(
            assessment, "0 of 100", "simulated scenarios lose: the policy is the baseline."
        )
    lost = sum(gain < 0.0 for gain in risk.scenarios)
    if doubt := assessment.verdict.doubt:
        # The states are in doubt, and with them every model that is drawn in them.
        is_named = doubt.endswith("all that matters")
        condition = "it were" if is_named else "the recorded state were all that matters"
        return "Unknown", (
            f"since {doubt}; if {condition}, {lost} of {len(risk.scenarios)} simulated scenarios "
            f"would lose ({probability_of_harm(risk)})."
        )
    return f"{lost} of {len(risk.scenarios)}", (
        f"simulated scenarios lose ({probability_of_harm(risk)}); "
        f"worst 10 %: {number(risk.lower_tail_mean, '+')}."
    )


def _changes(assessment: Assessment, changes: list[Change]) -> tuple[str, str]:
    states = f"{len(changes):,} of {n_deciding(assessment):,}"
    if not changes:
        return states, "states: the policy is the baseline."
    first = changes[0]
    return states, (
        f"states, {percent(share_moved(assessment))} of the decisions; first {short(first.state)}: "
        f"less {short(first.less)}, more {short(first.more)}."
    )


def _certified(assessment: Assessment) -> tuple[str, str]:
    certificate = assessment.certificate
    guarantee, level = certificate.guarantee, percent(1.0 - certificate.delta)
    bound = certificate.bound
    if bound is None:
        return "Nothing", "since a condition of the certificate fails."
    if guarantee.is_vacuous:
        return "Nothing", "since the certificate allows any loss."
    about = f"at {level}{'' if guarantee.is_exact else ', approximately'}"
    if bound == 0.0:
        return "No loss", f"is certified {about}."
    if bound > 0.0:
        return number(bound, "+"), f"an episode or more is certified {about}."
    worst = number(guarantee.worst_loss)
    if -bound > 0.5 * guarantee.worst_loss:
        return "Nothing useful", (
            f"{about}: a loss of at most {number(-bound)}, of {worst} that could be; usual for a "
            "log of this size."
        )
    return "No gain", f"is certified, only a loss of at most {number(-bound)} (of {worst}) {about}."


def _without_risk(assessment: Assessment, figure: str, text: str) -> tuple[str, str]:
    if not (assessment.certificate.states.moved > 1e-12).any():
        return figure, text
    n_states = assessment.problem.counts.n_states
    return "Unknown", f"since no risk is computed for {n_states:,} states."
