"""Do actions and outcomes depend on the past, given the state? Then the state hides something.

Those who act look at more than the recorded state if their actions depend on the past, given the
state. Where outcomes depend on the same trace of the past, what they look at matters: the state
confounds actions with outcomes, and a model of states mistakes who was treated for what treatment
does. The check asks for both. Actions are explained by all columns of the past together
(:mod:`spibb.representation.joint_dependence`), and must be by a share that is material. Outcomes
must depend on a column, whatever the share: the past is a poor trace of what is hidden.

On the development half of the study `representations` this separates adequate from inadequate
states (docs/representations.md); dependence of outcomes alone does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from spibb.inspection.check import Check
from spibb.inspection.finding import Finding, TestResult
from spibb.inspection.windows import windows
from spibb.representation.memory import Memory as Traces
from spibb.representation.memory import find_memory
from spibb.words import percent

if TYPE_CHECKING:
    from spibb.inspection.evidence import Evidence

# Share of the variance of actions that the past must explain. On the development half of the study
# `representations` adequate states of large logs are at .0024 or below, and inadequate states that
# lead to harm, and that no other check finds, at .0069 or above.
LEAST_SHARE = 0.005
# A trace of this size counts even where nearly all of the gain survives in finer states made of raw
# columns. On the development half significant traces of adequate states stay below .015; most of
# those of harmful ones are above .04.
STRONG_SHARE = 0.04
# Significance level of outcomes, over all columns; that of actions is the check's own.
_OUTCOME_LEVEL = 0.05
_N_SHOWN = 5


class Memory(Check):
    """Test whether the past explains actions and outcomes beyond the state."""

    id = "memory"
    title = "Are actions independent of the past, given the state?"
    level = 0.0005
    cost = "rows"
    verdict_effect = "pilot"

    def run(self, evidence: Evidence) -> Iterator[Finding | TestResult]:
        """Test the actions, then the outcomes."""
        if evidence.has_several_policies:
            yield self.not_run(
                "several policies acted: improve_on says which of them is asked about"
            )
            return
        part, remark = windows(evidence.own_log_without_copies)
        memory = find_memory(part, evidence.gamma)
        if memory is None:
            yield self.not_run("no row is known to follow another one")
            return
        result = self.result(memory.together.p_value, remark)
        yield result
        of_outcomes = len(memory.names) * float(memory.outcomes.p_value.min())
        is_material = memory.together.share >= LEAST_SHARE and of_outcomes <= _OUTCOME_LEVEL
        if result.is_significant and is_material:
            yield _finding(memory)


def _finding(memory: Traces) -> Finding:
    by_size = np.argsort(-memory.actions.share, kind="stable")
    first, share = int(by_size[0]), memory.together.share
    return Finding(
        check="memory",
        severity="biased",
        found=f"Actions depend on the past, given the state: the past explains {percent(share)} of "
        f"their variance, most of it '{memory.names[first]}'.",
        effect="The behaviour policy used something that the state does not hold, and it matters "
        "for what follows. Expected gains and probabilities of harm assume that the state is all "
        "that matters.",
        advice="Add to the state what those who act look at, or name raw columns (--features) to "
        "see in which finer states the gain survives.",
        share=share,
        p_value=memory.together.p_value,
        places=[
            {
                "trace of the past": memory.names[int(k)],
                "of actions": float(memory.actions.share[k]),
                "of outcomes": float(memory.outcomes.share[k]),
            }
            for k in by_size[:_N_SHOWN]
        ],
        verdict_effect="pilot",
    )
