"""Whether the log that judges a policy is the log that the policy was made of."""

from __future__ import annotations

from typing import Literal

from spibb.mdp.policy import TabularPolicy
from spibb.problem.problem import Problem

Origin = Literal["same", "other", "unknown"]

# What audits and evaluations say of it.
TOLD: dict[Origin, str] = {
    "same": "The policy was made of this very log.",
    "other": "The policy was made of another log, by the hash in its file; whether the two share "
    "episodes it does not tell.",
    "unknown": "Cannot tell whether the policy was made of this log: nothing says which log it was "
    "made of (policy.parquet of a result does, policy.csv does not).",
}


def policy_origin(problem: Problem, policy: TabularPolicy) -> Origin:
    """Compare the log of a problem with the one that a policy says it was made of."""
    if policy.log_hash is None or problem.whole is None:
        return "unknown"
    own = problem.whole if problem.log is None else problem.log
    known = (problem.whole.content_hash, own.content_hash)
    return "same" if policy.log_hash in known else "other"
