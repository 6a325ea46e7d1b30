"""Where a policy differs from the baseline."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from spibb.assessment.assessment import Assessment
from spibb.assessment.criteria import MOST_HARM
from spibb.certify.certificate import StateAudit
from spibb.mdp.policy import TabularPolicy
from spibb.posterior.states import StateRisks


@dataclass(frozen=True)
class Change:
    """What happens to one state.

    Attributes:
        state: Its name.
        n_rows: Rows of the log in it.
        moved: Probability that moves from some actions to others.
        less: The action that loses most.
        less_from: Its probability today.
        less_by: How much it loses.
        more: The action that gains most.
        more_from: Its probability today.
        more_by: How much it gains.
        spent: Budget spent.
        value_gain: Estimated gain in the value of the state, in the model: optimistic.
        gain: What the change adds to the expected gain of an episode; None: not known.
        harm: Probability that the change does harm; None: not known.
        more_rows: About how many more rows of the log would make harm unlikely enough: 0 if it is;
            None where rows cannot be foreseen to do so, or it is not known.
    """

    state: str
    n_rows: int
    moved: float
    less: str
    less_from: float
    less_by: float
    more: str
    more_from: float
    more_by: float
    spent: float
    value_gain: float
    gain: float | None = None
    harm: float | None = None
    more_rows: int | None = None


def result_changes(assessment: Assessment) -> list[Change]:
    """List the states in which a policy differs from its baseline."""
    states, baseline = assessment.certificate.states, assessment.baseline.policy
    return list_changes(assessment.policy, baseline, states, assessment.state_risks)


def list_changes(
    policy: TabularPolicy,
    baseline: TabularPolicy,
    states: StateAudit,
    risks: StateRisks | None = None,
) -> list[Change]:
    """List the states in which the policy differs, those that matter most in the log first."""
    old, difference = baseline.probabilities, policy.probabilities - baseline.probabilities
    changed = np.flatnonzero(states.moved > 1e-12)
    weight = states.moved[changed] * np.maximum(states.n_rows[changed], 0)
    order = changed[np.argsort(-weight, kind="stable")]
    less, more = difference.argmin(axis=1), difference.argmax(axis=1)
    needed = None if risks is None else risks.more_rows(states.n_rows, MOST_HARM)

    def judged(x: int) -> dict[str, float | int | None]:
        if risks is None or needed is None or states.n_rows[x] == 0:
            return {}  # of what was never seen nothing is known
        rows = int(needed[x]) if math.isfinite(needed[x]) else None
        return {"gain": float(risks.gain[x]), "harm": float(risks.harm[x]), "more_rows": rows}

    return [
        Change(
            state=policy.states[x],
            n_rows=int(states.n_rows[x]),
            moved=float(states.moved[x]),
            less=policy.actions[int(less[x])],
            less_from=float(old[x, less[x]]),
            less_by=float(-difference[x, less[x]]),
            more=policy.actions[int(more[x])],
            more_from=float(old[x, more[x]]),
            more_by=float(difference[x, more[x]]),
            spent=float(states.spent[x]),
            value_gain=float(states.improvement[x]),
            **judged(x),  # type: ignore[arg-type]
        )
        for x in order.tolist()
    ]
