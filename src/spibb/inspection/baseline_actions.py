"""Does the baseline make the actions of the log? See :mod:`spibb.data.baseline_fit`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spibb.data.baseline_fit import BaselineFit, format_fit, format_pooled_fit
from spibb.inspection.check import Check
from spibb.inspection.finding import Finding, TestResult
from spibb.mdp.policy import TabularPolicy

if TYPE_CHECKING:
    from spibb.inspection.evidence import Evidence

Pairs = NDArray[np.int64]
_N_SHOWN = 5


class BaselineActions(Check):
    """Compare the baseline with the actions of the log."""

    id = "baseline"
    title = "Does the baseline make these actions?"
    level = 0.001
    verdict_effect = "refused"

    def run(self, evidence: Evidence) -> Iterator[Finding | TestResult]:
        """Test the fit of the baseline to its own rows."""
        policy, n_sa, fit = evidence.baseline, evidence.own_n_sa, evidence.baseline_fit
        if policy is None or policy.is_estimated:
            yield self.not_run(
                "no baseline was given" if policy is None else "it was estimated from this log"
            )
        elif fit is None:
            yield self.result(0.0)
            yield _impossible(n_sa, policy)
        else:
            result = self.result(fit.p_value)
            yield result
            if result.is_significant:
                yield _finding(n_sa, policy, fit)


def _finding(n_sa: Pairs, policy: TabularPolicy, fit: BaselineFit) -> Finding:
    told = format_fit(fit)
    if fit.pooled is not None:
        told += f". It shows in {format_pooled_fit(fit.pooled, policy.actions)}"
    return Finding(
        check="baseline",
        severity="refused" if fit.is_refused else "biased",
        found=f"The baseline does not make the actions of this log: {told}.",
        effect="Every comparison would be with a policy that nobody runs, and weights of "
        "off-policy estimates are wrong."
        + (
            " Commands refuse it."
            if fit.is_refused
            else " The difference is small enough to go on."
        ),
        advice="Check that the file belongs to this log, or estimate the baseline from the log; "
        "--accept-baseline goes on all the same."
        if fit.is_refused
        else "Check whether the probabilities were rounded, or changed a little since.",
        share=max(0.0, min(1.0, fit.distance)),
        p_value=fit.p_value,
        places=_worst_states(n_sa, policy, fit),
    )


def _worst_states(n_sa: Pairs, policy: TabularPolicy, fit: BaselineFit) -> list[dict[str, Any]]:
    found = []
    for x in np.argsort(-fit.evidence, kind="stable")[:_N_SHOWN]:
        taken, n = n_sa[x], int(n_sa[x].sum())
        if n == 0 or fit.evidence[x] <= 0.0:
            break
        action = int(np.argmax(np.abs(taken / n - policy.probabilities[x])))
        found.append(
            {
                "state": policy.states[int(x)],
                "rows": n,
                "action": policy.actions[action],
                "in_log": float(taken[action] / n),
                "in_baseline": float(policy.probabilities[x, action]),
            }
        )
    return found


def _impossible(n_sa: Pairs, policy: TabularPolicy) -> Finding:
    impossible = (n_sa > 0) & (policy.probabilities == 0.0)
    n_rows = int(n_sa[impossible].sum())
    order = np.argwhere(impossible)
    order = order[np.argsort(-n_sa[impossible], kind="stable")]
    return Finding(
        check="baseline",
        severity="refused",
        found=f"The baseline gives probability 0 to actions that were taken in {n_rows:,} rows.",
        effect="It cannot have made this log, and commands refuse it.",
        advice="Check that the file belongs to this log, remove rows that it did not make, or "
        "estimate the baseline from the log.",
        share=n_rows / int(n_sa.sum()),
        p_value=0.0,
        places=[
            {
                "state": policy.states[int(x)],
                "rows": int(n_sa[x].sum()),
                "action": policy.actions[int(a)],
                "in_log": float(n_sa[x, a] / n_sa[x].sum()),
                "in_baseline": 0.0,
            }
            for x, a in order[:_N_SHOWN]
        ],
    )
