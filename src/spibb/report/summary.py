"""The facts of a result as plain JSON values."""

from __future__ import annotations

import math
from typing import Any

import spibb
from spibb.algorithms.improvement import Improvement


def summarise(result: Improvement) -> dict[str, Any]:
    """Return what ``summary.json`` holds."""
    counts, certificate = result.counts, result.certificate
    changed = certificate.states.moved > 1e-12
    return {
        "format": "spibb-summary",
        "version": 1,
        "spibb": spibb.__version__,
        "algorithm": result.algorithm,
        "gamma": result.model.gamma,
        "status": result.status.name.lower().replace("_", "-"),
        "advice": result.status.value,
        "n_iterations": result.n_iterations,
        "n_rows": int(counts.n_sa.sum()),
        "n_dropped_rows": counts.n_dropped,
        "n_episodes": int(counts.n_initial.sum()),
        "n_states": counts.n_states,
        "n_actions": counts.n_actions,
        "n_unseen_pairs": int((counts.n_sa[~counts.terminal] == 0).sum()),
        "is_baseline_estimated": result.baseline.policy.is_estimated,
        "estimated_performance": _number(result.performance),
        "estimated_baseline_performance": _number(result.baseline.performance),
        "estimated_gain": _number(result.estimated_gain),
        "n_states_changed": int(changed.sum()),
        "is_guaranteed": certificate.is_guaranteed,
        "is_vacuous": certificate.guarantee is not None and certificate.guarantee.is_vacuous,
        "bound": None if certificate.bound is None else _number(certificate.bound),
        "delta": certificate.delta,
        "statement": certificate.statement,
    }


def _number(value: float) -> float | None:
    """JSON has no NaN, which stands for a value that does not exist, and no infinity."""
    return value if math.isfinite(value) else None
