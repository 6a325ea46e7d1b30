"""Where a policy differs from the baseline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spibb.algorithms.improvement import Improvement
from spibb.certify.certificate import StateAudit
from spibb.mdp.policy import TabularPolicy


@dataclass(frozen=True)
class Change:
    """What happens to one state.

    Attributes:
        state: Its name.
        n_rows: Rows of the log in it.
        moved: Probability that moves from some actions to others.
        less: The action that loses most.
        less_by: How much it loses.
        more: The action that gains most.
        more_by: How much it gains.
        spent: Budget spent.
        value_gain: Estimated gain in the value of the state.
    """

    state: str
    n_rows: int
    moved: float
    less: str
    less_by: float
    more: str
    more_by: float
    spent: float
    value_gain: float


def result_changes(result: Improvement) -> list[Change]:
    """List the states in which a result differs from its baseline."""
    return list_changes(result.policy, result.baseline.policy, result.certificate.states)


def list_changes(
    policy: TabularPolicy, baseline: TabularPolicy, states: StateAudit
) -> list[Change]:
    """List the states in which the policy differs, those that matter most in the log first."""
    difference = policy.probabilities - baseline.probabilities
    changed = np.flatnonzero(states.moved > 1e-12)
    weight = states.moved[changed] * np.maximum(states.n_rows[changed], 0)
    order = changed[np.argsort(-weight, kind="stable")]
    return [
        Change(
            state=policy.states[int(x)],
            n_rows=int(states.n_rows[x]),
            moved=float(states.moved[x]),
            less=policy.actions[int(difference[x].argmin())],
            less_by=float(-difference[x].min()),
            more=policy.actions[int(difference[x].argmax())],
            more_by=float(difference[x].max()),
            spent=float(states.spent[x]),
            value_gain=float(states.improvement[x]),
        )
        for x in order
    ]
