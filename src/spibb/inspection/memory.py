"""Do actions and outcomes depend on the past, given the state? Then the state hides something.

Those who act look at more than the recorded state if their actions depend on the past, given the
state. Where outcomes depend on the same trace of the past, what they look at matters: the state
confounds actions with outcomes, and a model of states mistakes who was treated for what treatment
does. The check asks for both, by size as well as by p-value.

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

# Share of the variance of actions, and of outcomes, that a trace of the past must explain.
LEAST_SHARE = 0.01
# A trace of this size counts even where nearly all of the gain survives in finer states made of raw
# columns. On the development half significant traces of adequate states stay below .02; most of
# those of harmful ones are above .03.
STRONG_SHARE = 0.03
# Significance level of outcomes; that of actions is the check's own, over all columns.
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
        """Test the actions, and measure the outcomes."""
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
        n_columns = len(memory.names)
        p_value = float(np.minimum(n_columns * memory.actions.p_value.min(), 1.0))
        result = self.result(p_value, remark)
        yield result
        assert self.level is not None
        is_trace = (
            (memory.actions.share >= LEAST_SHARE)
            & (memory.actions.p_value <= self.level / n_columns)
            & (memory.outcomes.share >= LEAST_SHARE)
            & (memory.outcomes.p_value <= _OUTCOME_LEVEL)
        )
        if is_trace.any():
            yield _finding(memory, is_trace.nonzero()[0], p_value)


def _finding(memory: Traces, traces: np.ndarray, p_value: float) -> Finding:
    by_size = traces[np.argsort(-memory.actions.share[traces], kind="stable")]
    first = int(by_size[0])
    return Finding(
        check="memory",
        severity="biased",
        found=f"Actions depend on the past, given the state: '{memory.names[first]}' explains "
        f"{percent(float(memory.actions.share[first]))} of their variance and "
        f"{percent(float(memory.outcomes.share[first]))} of that of what follows.",
        effect="Those who acted looked at something that the state does not hold, and it matters "
        "for what follows. Expected gains and probabilities of harm assume that the state is all "
        "that matters.",
        advice="Add to the state what those who act look at, or name raw columns (--features) to "
        "see in which finer states the gain survives.",
        share=float(memory.actions.share[first]),
        p_value=p_value,
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
