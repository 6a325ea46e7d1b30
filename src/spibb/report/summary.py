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
from spibb.ope.log_return import LEVEL
from spibb.posterior.risk import Gain
from spibb.report.answers import answer, n_deciding, share_moved
from spibb.report.changes import Change, result_changes
from spibb.report.groups import list_groups
from spibb.report.verdict import Verdict, decide

# States that carry the risk: so many are named.
_N_CARRIERS, _ROUNDING = 5, 1e-9
# What a result depends on, beside its own settings.
_PACKAGES = ("numpy", "scipy", "numba", "pyarrow")


def result_summary(
    result: Improvement, *, command: str | None = None, hashes: dict[str, str] | None = None
) -> dict[str, Any]:
    """Return what ``summary.json`` holds.

    Args:
        result: The result.
        command: What makes it again, where it was made by a command.
        hashes: SHA-256 of the files beside it, by name.
    """
    changes = result_changes(result)
    return {
        **result_facts(result, changes),
        "changes": [_plain_facts(vars(change)) for change in changes],
        "certificate": result.certificate.to_dict(),
        "groups": [_plain_facts(vars(group)) for group in list_groups(result)],
        "command": command,
        "versions": {"python": platform.python_version(), "spibb": spibb.__version__}
        | {name: version(name) for name in _PACKAGES},
        "hashes": hashes or {},
    }


def result_facts(result: Improvement, changes: list[Change]) -> dict[str, Any]:
    """Return what is to be said of a result as a whole, not state by state."""
    counts, certificate = result.problem.counts, result.certificate
    shown = result.withheld is None
    return {
        "format": "spibb-summary",
        "version": 2,
        "spibb": spibb.__version__,
        "verdict": _verdict(decide(result)),
        "answers": [asdict(one) | {"sentence": one.sentence} for one in answer(result, changes)],
        "algorithm": result.algorithm,
        "gamma": result.problem.gamma,
        "status": result.status.name.lower().replace("_", "-"),
        "advice": _advice(result),
        "n_iterations": result.n_iterations,
        "n_rows": int(counts.n_sa.sum()),
        "n_dropped_rows": counts.n_dropped,
        "n_gaps": counts.n_gaps,
        "n_episodes": int(counts.n_initial.sum()),
        "n_states": counts.n_states,
        "n_deciding_states": n_deciding(result),
        "n_actions": counts.n_actions,
        "n_unseen_pairs": int((counts.n_sa[~counts.terminal] == 0).sum()),
        "is_baseline_estimated": result.baseline.policy.is_estimated,
        "policies": _loggers(result),
        "log_return": _log_return(result),
        "estimated_performance": _plain(result.performance) if shown else None,
        "estimated_baseline_performance": _plain(result.baseline.performance) if shown else None,
        "estimated_gain": _plain(result.estimated_gain) if shown else None,
        "withheld": result.withheld,
        "visits": {
            name: {"never_seen": _plain(visits.never), "hardly_seen": _plain(visits.hardly)}
            for name, visits in (("policy", result.visits), ("baseline", result.baseline_visits))
        },
        "limits": _limits(result),
        "risk": _risk(result),
        "choice": _choice(result),
        "inspection": None if result.inspection is None else result.inspection.to_dict(),
        "n_states_changed": len(changes),
        "moved": share_moved(result),
        "is_guaranteed": certificate.is_guaranteed,
        "is_vacuous": certificate.guarantee.is_vacuous,
        **_facts(certificate, "bound", "delta", "statement"),
        "beside": [
            _facts(other, "theorem", "is_exact", "bound", "delta", "summary")
            for other in certificate.others
        ],
    }


def _advice(result: Improvement) -> str:
    """Return how the search ended; a baseline that is returned keeps to limits too."""
    is_kept = result.choice is not None and result.choice.chosen is None
    if is_kept and result.problem.limits is not None:
        return "No candidate passed, so the baseline is returned, with the limits applied."
    return result.status.value


def _verdict(verdict: Verdict) -> dict[str, Any]:
    conditions = [_facts(one, "name", "statement", "found", "holds") for one in verdict.conditions]
    said = _facts(verdict, "headline", "sentence", "rule", "more_episodes")
    return {"decision": str(verdict.decision), **said, "conditions": conditions}


def _log_return(result: Improvement) -> dict[str, Any] | None:
    found = result.log_return
    if found is None:
        return None
    low, high = map(_plain, found.interval)
    value = {"mean": found.mean, "low": low, "high": high, "level": LEVEL}
    return value | _facts(found, "n_episodes", "n_truncated", "warnings")


def _loggers(result: Improvement) -> dict[str, Any] | None:
    """Return who made the log, where it names several."""
    found = result.problem.loggers
    names = "improved", "n_rows", "n_episodes", "n_mixed", "used"
    return None if found is None else _facts(found, *names)


def _limits(result: Improvement) -> dict[str, Any] | None:
    """Return the limits in words, and what each costs in estimated gain, by name."""
    limits = result.problem.limits
    if limits is None:
        return None
    return {
        name: {"statement": text, "cost": _plain(result.limit_costs.get(name))}
        for name, text in limits.statements.items()
    }


def _risk(result: Improvement) -> dict[str, Any] | None:
    """Return what the posterior says, the prior first under which harm is likelier."""
    found = result.risk
    if found is None:
        return None
    gains = {name: _gain(gain) for name, gain in found.gains.items()}
    states = result.problem.counts.states
    carriers = [
        {"state": str(states[int(x)]), "adds": float(found.by_state[x])}
        for x in np.argsort(found.by_state, kind="stable")[:_N_CARRIERS]
        if found.by_state[x] < -_ROUNDING * np.abs(found.by_state).max()
    ]
    return {
        "gains": gains,
        "carriers": carriers,
        "held_out": None if found.held_out is None else _plain_facts(found.held_out._asdict()),
        **_facts(found, "hardly", "strength", "cross_fitted", "statement", "worlds"),
    }


def _gain(gain: Gain) -> dict[str, Any]:
    return _plain_facts(asdict(gain) | {"mean_error": gain.mean_error})


def _choice(result: Improvement) -> dict[str, Any] | None:
    choice = result.choice
    if choice is None:
        return None
    tried = [
        {
            **_facts(one, "name", "algorithm", "model", "share"),
            "score": one.score(choice.caution),
            "gains": {name: _gain(gain) for name, gain in one.gains.items()},
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
        return tuple(_plain(part) for part in value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
