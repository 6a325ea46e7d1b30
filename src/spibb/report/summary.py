"""The facts of a result as plain JSON values."""

from __future__ import annotations

import math
from typing import Any

import spibb
from spibb.algorithms.improvement import Improvement
from spibb.ope.log_return import LEVEL


def result_summary(result: Improvement) -> dict[str, Any]:
    """Return what ``summary.json`` holds."""
    counts, certificate = result.counts, result.certificate
    shown = result.withheld is None
    changed = certificate.states.moved > 1e-12
    return {
        "format": "spibb-summary",
        "version": 2,
        "spibb": spibb.__version__,
        "algorithm": result.algorithm,
        "gamma": result.model.gamma,
        "status": result.status.name.lower().replace("_", "-"),
        "advice": result.status.value,
        "n_iterations": result.n_iterations,
        "n_rows": int(counts.n_sa.sum()),
        "n_dropped_rows": counts.n_dropped,
        "n_gaps": counts.n_gaps,
        "n_episodes": int(counts.n_initial.sum()),
        "n_states": counts.n_states,
        "n_actions": counts.n_actions,
        "n_unseen_pairs": int((counts.n_sa[~counts.terminal] == 0).sum()),
        "is_baseline_estimated": result.baseline.policy.is_estimated,
        "log_return": _log_return(result),
        "estimated_performance": _number(result.performance) if shown else None,
        "estimated_baseline_performance": _number(result.baseline.performance) if shown else None,
        "estimated_gain": _number(result.estimated_gain) if shown else None,
        "withheld": result.withheld,
        "visits": {
            name: {"never_seen": _number(visits.never), "hardly_seen": _number(visits.hardly)}
            for name, visits in (("policy", result.visits), ("baseline", result.baseline_visits))
        },
        "n_states_changed": int(changed.sum()),
        "is_guaranteed": certificate.is_guaranteed,
        "is_vacuous": certificate.guarantee.is_vacuous,
        "bound": None if certificate.bound is None else _number(certificate.bound),
        "delta": certificate.delta,
        "statement": certificate.statement,
        "beside": [
            {
                "theorem": other.theorem,
                "is_exact": other.is_exact,
                "bound": None if other.bound is None else _number(other.bound),
                "delta": other.delta,
                "summary": other.summary,
            }
            for other in certificate.others
        ],
    }


def _log_return(result: Improvement) -> dict[str, Any] | None:
    found = result.log_return
    if found is None:
        return None
    return {
        "mean": found.mean,
        "low": _number(found.interval[0]),
        "high": _number(found.interval[1]),
        "level": LEVEL,
        "n_episodes": found.n_episodes,
        "n_truncated": found.n_truncated,
        "warnings": list(found.warnings),
    }


def _number(value: float) -> float | None:
    """JSON has no NaN, which stands for a value that does not exist, and no infinity."""
    return value if math.isfinite(value) else None
