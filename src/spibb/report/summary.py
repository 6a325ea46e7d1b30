"""The facts of a result as plain JSON values: all that its page shows."""

from __future__ import annotations

import math
import platform
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import numpy as np

import spibb
from spibb.algorithms.improvement import Improvement
from spibb.assessment.assessment import Assessment
from spibb.assessment.verdict import Verdict
from spibb.errors import SettingsError
from spibb.ope.log_return import LEVEL
from spibb.posterior.gain import Gain
from spibb.report.answers import answer, n_deciding, share_moved
from spibb.report.changes import Change, result_changes
from spibb.report.groups import list_groups
from spibb.report.sensitivity import sensitivity_facts
from spibb.strict_json import VERSION

# States that carry the risk: so many are named.
_N_CARRIERS, _ROUNDING = 5, 1e-9
# What a result depends on, beside its own settings.
_PACKAGES = ("numpy", "scipy", "numba", "pyarrow")


def result_summary(
    assessment: Assessment, *, command: str | None = None, hashes: dict[str, str] | None = None
) -> dict[str, Any]:
    """Return what ``summary.json`` holds.

    Args:
        assessment: The assessment of a result.
        command: What makes it again, where it was made by a command.
        hashes: SHA-256 of the files beside it, by name.
    """
    changes = result_changes(assessment)
    return {
        **result_facts(assessment, changes),
        "changes": [_plain_facts(vars(change)) for change in changes],
        "certificate": assessment.certificate.to_dict(),
        "groups": [_plain_facts(vars(group)) for group in list_groups(assessment)],
        "command": command,
        "versions": {"python": platform.python_version(), "spibb": spibb.__version__}
        | {name: version(name) for name in _PACKAGES},
        "hashes": hashes or {},
    }


def result_facts(assessment: Assessment, changes: list[Change]) -> dict[str, Any]:
    """Return what is to be said of a result as a whole, not state by state."""
    result = made_by_algorithm(assessment)
    counts, certificate = assessment.problem.counts, assessment.certificate
    shown = assessment.withheld is None
    return {
        "format": "spibb-summary",
        "version": VERSION,
        "spibb": spibb.__version__,
        "objective": assessment.problem.objective.to_dict(),
        "verdict": _verdict(assessment.verdict),
        "pilot": None if assessment.pilot is None else _plain_facts(asdict(assessment.pilot)),
        "answers": [
            asdict(one) | {"sentence": one.sentence} for one in answer(assessment, changes)
        ],
        "algorithm": result.algorithm,
        "gamma": assessment.problem.gamma,
        "status": result.status.name.lower().replace("_", "-"),
        "advice": _advice(result),
        "n_iterations": result.n_iterations,
        "n_rows": int(counts.n_sa.sum()),
        "n_dropped_rows": counts.n_dropped,
        "n_gaps": counts.n_gaps,
        "n_episodes": int(counts.n_initial.sum()),
        "n_states": counts.n_states,
        "n_deciding_states": n_deciding(assessment),
        "n_actions": counts.n_actions,
        "n_unobserved_pairs": int((counts.n_sa[~counts.terminal] == 0).sum()),
        "is_baseline_estimated": assessment.baseline.policy.is_estimated,
        "policies": _loggers(assessment),
        "log_return": _log_return(assessment),
        "estimated_performance": _plain(result.performance) if shown else None,
        "estimated_baseline_performance": _plain(assessment.baseline.performance)
        if shown
        else None,
        "estimated_gain": _plain(result.estimated_gain) if shown else None,
        "withheld": assessment.withheld,
        "visits": {
            name: {"unobserved": _plain(visits.unobserved), "low_count": _plain(visits.low_count)}
            for name, visits in (
                ("policy", assessment.visits),
                ("baseline", assessment.baseline_visits),
            )
        },
        "limits": _limits(assessment),
        "risk": _risk(assessment),
        "choice": _choice(assessment),
        **representation_facts(assessment),
        **sensitivity_facts(assessment.sensitivity, assessment.sensitivity_remark),
        "inspection": None if assessment.inspection is None else assessment.inspection.to_dict(),
        "n_states_changed": len(changes),
        "moved": share_moved(assessment),
        "is_guaranteed": certificate.is_guaranteed,
        "is_vacuous": certificate.guarantee.is_vacuous,
        **_facts(certificate, "bound", "delta", "statement"),
        "other_guarantees": [
            _facts(other, "theorem", "is_exact", "bound", "delta", "summary")
            for other in certificate.others
        ],
    }


def representation_facts(assessment: Assessment) -> dict[str, Any]:
    """Return the gain in finer states, or null and why there is none."""
    found = assessment.representation
    return {
        "representation": None if found is None else found.to_dict(),
        "representation_remark": assessment.representation_remark or None,
    }


def made_by_algorithm(assessment: Assessment) -> Improvement:
    """Return the result that was assessed; a report tells of the algorithm that made it."""
    if assessment.improvement is None:
        raise SettingsError(
            "the policy was not made by an algorithm of spibb",
            expected="the assessment of what an algorithm returned",
            hint="print the assessment, or its verdict and its risk; spibb audit judges any policy",
        )
    return assessment.improvement


def _advice(result: Improvement) -> str:
    """Return how the search ended; a baseline that is returned keeps to limits too."""
    is_kept = result.choice is not None and result.choice.chosen is None
    if is_kept and result.problem.limits is not None:
        return "No candidate passed, so the baseline is returned, with the limits applied."
    return result.status.value


def _verdict(verdict: Verdict) -> dict[str, Any]:
    conditions = [_facts(one, "name", "statement", "found", "holds") for one in verdict.conditions]
    said = _facts(verdict, "headline", "sentence", "rule", "more_episodes")
    said["doubt"] = verdict.doubt or None
    return {"decision": str(verdict.decision), **said, "conditions": conditions}


def _log_return(assessment: Assessment) -> dict[str, Any] | None:
    found = assessment.log_return
    if found is None:
        return None
    low, high = map(_plain, found.interval)
    value = {"mean": found.mean, "low": low, "high": high, "level": LEVEL}
    return value | _facts(found, "n_episodes", "n_truncated", "warnings")


def _loggers(assessment: Assessment) -> dict[str, Any] | None:
    """Return who made the log, where it names several."""
    found = assessment.problem.loggers
    names = "improved", "n_rows", "n_episodes", "n_mixed", "used"
    return None if found is None else _facts(found, *names)


def _limits(assessment: Assessment) -> dict[str, Any] | None:
    """Return the limits in words, and what each costs in estimated gain, by name."""
    limits = assessment.problem.limits
    if limits is None:
        return None
    return {
        name: {"statement": text, "cost": _plain(assessment.limit_costs.get(name))}
        for name, text in limits.statements.items()
    }


def _risk(assessment: Assessment) -> dict[str, Any] | None:
    """Return what the posterior says."""
    found = assessment.risk
    if found is None:
        return None
    states = assessment.problem.counts.states
    carriers = [
        {"state": str(states[int(x)]), "adds": float(found.by_state[x])}
        for x in np.argsort(found.by_state, kind="stable")[:_N_CARRIERS]
        if found.by_state[x] < -_ROUNDING * np.abs(found.by_state).max()
    ]
    return {
        **_gain(found.gain),
        "prior_range": _plain_facts(found.prior_range._asdict()),
        "carriers": carriers,
        "held_out": None if found.held_out is None else _plain_facts(found.held_out._asdict()),
        **_facts(found, "low_count", "cross_fitted", "statement", "scenarios"),
    }


def _gain(gain: Gain) -> dict[str, Any]:
    return {
        **_facts(gain, "mean", "deviation", "probability_of_harm", "lower_tail_mean"),
        "interval_80": list(gain.interval(0.8)),
        "interval_95": list(gain.interval(0.95)),
    }


def _choice(assessment: Assessment) -> dict[str, Any] | None:
    choice = assessment.choice
    if choice is None:
        return None
    tried = [
        {
            **_facts(one, "name", "algorithm", "model"),
            "score": one.score(choice.caution),
            "gain": _gain(one.gain),
        }
        for one in choice.candidates
    ]
    return {**_facts(choice, "summary", "caution", "chosen"), "candidates": tried}


def _facts(source: Any, *names: str) -> dict[str, Any]:
    return {name: _plain(getattr(source, name)) for name in names}


def _plain_facts(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in facts.items()}


def _plain(value: Any) -> Any:
    """JSON has no NaN, which stands for a value that does not exist, and no infinity."""
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
